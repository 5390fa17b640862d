//! The secret proof that a lease is ours.

use alloc::string::String;
use core::{fmt, str::FromStr};

/// 128 random bits, fresh for each attempt to acquire: whoever knows it can renew and release.
///
/// It is a secret: `Debug` and `Display` show four characters, [`Token::reveal`] shows all.
/// The bits come from the caller, since this crate draws no random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token([u8; 16]);

impl Token {
    /// How many bytes of randomness a token has.
    pub const BYTES: usize = 16;
    /// How many characters its written form has.
    pub const HEX_CHARACTERS: usize = 32;

    /// A token of 16 bytes that the caller drew from a cryptographic source.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The written form, 32 lower-case hexadecimal digits, as it stands in stores.
    #[must_use]
    pub fn to_hex(&self) -> [u8; Self::HEX_CHARACTERS] {
        // Without a table and without a branch the compiler does all digits at once.
        const fn digit(half: u8) -> u8 {
            half + b'0' + ((half > 9) as u8) * (b'a' - b'9' - 1)
        }
        let mut hex = [0; Self::HEX_CHARACTERS];
        for (index, byte) in self.0.into_iter().enumerate() {
            hex[2 * index] = digit(byte >> 4);
            hex[2 * index + 1] = digit(byte & 15);
        }
        hex
    }

    /// Another written form: 22 characters of base64 for URLs, without padding. It is that of the Go
    /// library redislock and of its dialect, so a lease can be passed on between the two.
    #[must_use]
    pub fn reveal_base64url(&self) -> String {
        let mut text = String::with_capacity(BASE64URL_CHARACTERS);
        for chunk in self.0.chunks(3) {
            let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for index in 0..=chunk.len() {
                let sextet = bits >> (18 - 6 * index) & 63;
                text.push(char::from(BASE64URL[sextet as usize]));
            }
        }
        text
    }

    /// Reads what [`Token::reveal_base64url`] writes.
    ///
    /// # Errors
    /// When it is anything else, also with bits that no token has.
    pub fn from_base64url(text: &str) -> Result<Self, ParseTokenError> {
        if text.len() != BASE64URL_CHARACTERS {
            return Err(ParseTokenError);
        }
        let (mut bits, mut count, mut at) = (0u32, 0, 0);
        let mut bytes = [0; Self::BYTES];
        for character in text.bytes() {
            let sextet = BASE64URL.iter().position(|known| *known == character);
            let sextet = sextet.and_then(|sextet| u32::try_from(sextet).ok());
            bits = bits << 6 | sextet.ok_or(ParseTokenError)?;
            count += 6;
            if count >= 8 {
                count -= 8;
                let [.., byte] = (bits >> count).to_be_bytes();
                *bytes.get_mut(at).ok_or(ParseTokenError)? = byte;
                at += 1;
            }
        }
        let token = Self(bytes);
        if token.reveal_base64url() == text { Ok(token) } else { Err(ParseTokenError) }
    }

    /// The whole secret as text. Give it only to whoever shall be able to release the lock.
    #[must_use]
    pub fn reveal(&self) -> String {
        self.to_hex().iter().map(|&digit| char::from(digit)).collect()
    }

    /// Reads the written form; upper-case digits are not ours and are refused, so that a token has
    /// one form only.
    ///
    /// # Errors
    /// When it is not 32 lower-case hexadecimal digits.
    pub fn from_hex(hex: &[u8]) -> Result<Self, ParseTokenError> {
        let hex: &[u8; Self::HEX_CHARACTERS] = hex.try_into().map_err(|_| ParseTokenError)?;
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

const BASE64URL_CHARACTERS: usize = 22;
const BASE64URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn digit(character: u8) -> Result<u8, ParseTokenError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(ParseTokenError),
    }
}

impl FromStr for Token {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_hex(text.as_bytes())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}…", self.0[0], self.0[1])
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// The text is not a token. The text itself is not shown, since it may be most of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseTokenError;

impl fmt::Display for ParseTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a token is 32 lower-case hexadecimal digits, or 22 characters of base64 for URLs"
        )
    }
}

impl core::error::Error for ParseTokenError {}

#[cfg(test)]
mod tests {
    use std::{format, string::ToString};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_written_form_reads_back(bytes in any::<[u8; 16]>()) {
            let token = Token::from_bytes(bytes);
            prop_assert_eq!(token.reveal().parse::<Token>(), Ok(token));
            let shown = format!("{token:?}{token}");
            prop_assert!(!shown.contains(&token.reveal()), "it shows itself: {}", shown);
        }

        #[test]
        fn anything_else_is_refused(text in "[0-9a-gA-F]{0,40}") {
            let ours = text.len() == 32
                && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            prop_assert_eq!(text.parse::<Token>().is_ok(), ours);
        }
    }

    #[test]
    fn it_shows_four_characters() {
        let token = Token::from_bytes([0xab; 16]);
        assert_eq!(token.to_string(), "abab…");
        assert_eq!(format!("{token:?}"), "Token(abab…)");
    }

    #[test]
    fn the_form_of_redislock_reads_back_and_nothing_else_does() {
        let token = Token::from_bytes(*b"\xff\xfe\xfd\x00lease of our");
        assert_eq!(token.reveal_base64url(), "__79AGxlYXNlIG9mIG91cg");
        assert_eq!(Token::from_base64url("__79AGxlYXNlIG9mIG91cg"), Ok(token));
        for wrong in
            ["", "__79AGxlYXNlIG9mIG91c", "__79AGxlYXNlIG9mIG91ch", "//79AGxlYXNlIG9mIG91cg"]
        {
            assert_eq!(Token::from_base64url(wrong), Err(ParseTokenError), "{wrong}");
        }
    }
}
