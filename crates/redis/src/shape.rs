//! How a token stands in a value: each library has its own shape, and compares the whole of it.
//!
//! All bits of the token are kept in every shape, so that two tokens never have one value.

use fencelock_core::{Proof, Token};

/// The shape of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 32 lower-case hexadecimal digits.
    Hex,
    /// 22 characters of the alphabet for URLs, without padding.
    Base64Url,
    /// 24 characters of the standard alphabet, the last two of them padding.
    Base64,
    /// 36 characters, digits in groups of 8, 4, 4, 4 and 12. No version is written into it: nobody
    /// reads one.
    Uuid,
}

impl Shape {
    /// The value of a token.
    pub(crate) fn write(self, token: &Token) -> Vec<u8> {
        match self {
            Self::Hex => token.to_hex().to_vec(),
            Self::Base64Url => base64(token.as_bytes(), b"-_"),
            Self::Base64 => {
                let mut value = base64(token.as_bytes(), b"+/");
                value.extend_from_slice(b"==");
                value
            }
            Self::Uuid => {
                let hex = token.to_hex();
                [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join(&b'-')
            }
        }
    }

    /// How many bytes a token has.
    pub(crate) const fn length(self) -> usize {
        match self {
            Self::Hex => 32,
            Self::Base64Url => 22,
            Self::Base64 => 24,
            Self::Uuid => 36,
        }
    }

    /// The token of a value; nothing when [`Shape::write`] would not have written it.
    pub(crate) fn read(self, value: &[u8]) -> Option<Token> {
        let token = match self {
            Self::Hex => return Token::from_hex(value).ok(),
            Self::Base64Url => unbase64(value, b"-_")?,
            Self::Base64 => unbase64(value.strip_suffix(b"==")?, b"+/")?,
            Self::Uuid => {
                let hex: Vec<u8> = value.iter().copied().filter(|byte| *byte != b'-').collect();
                Token::from_hex(&hex).ok()?
            }
        };
        (self.write(&token) == value).then_some(token)
    }

    /// What proves the hold of a value: the token where it has the shape, else all of its bytes.
    pub(crate) fn proof(self, value: &[u8]) -> Proof {
        self.read(value).map_or_else(|| Proof::new(value), Proof::from)
    }
}

/// The first 62 characters of both alphabets.
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Six bits a character, without padding; what is missing in the last one is zero.
fn base64(bytes: &[u8], last: &[u8; 2]) -> Vec<u8> {
    let alphabet = [&ALPHABET[..], last].concat();
    let mut text = Vec::with_capacity(24);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..=chunk.len() {
            let sextet = bits >> (18 - 6 * index) & 63;
            text.push(alphabet[sextet as usize]);
        }
    }
    text
}

/// The token whose first bits these are.
fn unbase64(text: &[u8], last: &[u8; 2]) -> Option<Token> {
    const CHARACTERS: usize = 22;
    if text.len() != CHARACTERS {
        return None;
    }
    let alphabet = [&ALPHABET[..], last].concat();
    let mut bits = Vec::with_capacity(CHARACTERS * 6);
    for character in text {
        let sextet = alphabet.iter().position(|known| known == character)?;
        bits.extend((0..6).rev().map(|bit| sextet >> bit & 1 == 1));
    }
    let mut bytes = [0; Token::BYTES];
    for (byte, bits) in bytes.iter_mut().zip(bits.chunks(8)) {
        *byte = bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
    }
    Some(Token::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPES: [Shape; 4] = [Shape::Hex, Shape::Base64Url, Shape::Base64, Shape::Uuid];

    #[test]
    fn each_shape_is_that_of_its_libraries() {
        let token =
            Token::from_bytes(*b"\xff\xfe\xfd\x00lease of ours\0".first_chunk().expect("16"));
        let shown = |owner: Shape| String::from_utf8(owner.write(&token)).expect("text");
        assert_eq!(shown(Shape::Base64), "//79AGxlYXNlIG9mIG91cg==");
        assert_eq!(shown(Shape::Base64Url), "__79AGxlYXNlIG9mIG91cg");
        assert_eq!(shown(Shape::Uuid), "fffefd00-6c65-6173-6520-6f66206f7572");
    }

    proptest! {
        #[test]
        fn a_token_comes_back(bytes in any::<[u8; 16]>()) {
            let token = Token::from_bytes(bytes);
            for shape in SHAPES {
                prop_assert_eq!(shape.proof(&shape.write(&token)), Proof::from(token));
            }
        }

        #[test]
        fn what_no_token_has_is_shown_as_it_is(value in "[-_+/=A-Za-z0-9]{0,40}") {
            for shape in SHAPES {
                if let Some(token) = shape.read(value.as_bytes()) {
                    prop_assert_eq!(shape.write(&token), value.as_bytes());
                } else {
                    prop_assert_eq!(shape.proof(value.as_bytes()), Proof::new(value.as_bytes()));
                }
            }
        }
    }
}
