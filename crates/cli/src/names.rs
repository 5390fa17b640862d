//! The names of locks as the command line takes them.
//!
//! Arguments are text without control characters; any other name goes through `--name-hex`, so that
//! a name that somebody pasted with a newline in it is refused instead of being another lock.

use std::ffi::{OsStr, OsString};

use fencelock::{LockName, Names};

use crate::failure::Failure;

/// How names are written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// As they are.
    Text,
    /// In hexadecimal digits.
    Hex,
}

/// Reads one name.
///
/// # Errors
/// Wrong usage: empty, too long, not text, not hexadecimal.
pub(crate) fn parse(argument: &OsStr, spelling: Spelling) -> Result<LockName, Failure> {
    let bytes = bytes(argument, spelling)?;
    LockName::new(bytes).map_err(|error| Failure::usage(format!("{error} (NAME)")))
}

/// Reads a set of names.
///
/// # Errors
/// As [`parse`]; also when there are too many.
pub(crate) fn parse_all(arguments: &[OsString], spelling: Spelling) -> Result<Names, Failure> {
    let names: Result<Vec<LockName>, Failure> =
        arguments.iter().map(|argument| parse(argument, spelling)).collect();
    Names::new(names?).map_err(|error| Failure::usage(format!("{error} (NAME)")))
}

/// Reads the beginning of names, which may be empty.
///
/// # Errors
/// As [`parse`].
pub(crate) fn prefix(argument: Option<&OsStr>, spelling: Spelling) -> Result<Vec<u8>, Failure> {
    let Some(argument) = argument else { return Ok(Vec::new()) };
    let bytes = bytes(argument, spelling)?;
    if bytes.len() > LockName::MAX_BYTES {
        let length = bytes.len();
        let most = LockName::MAX_BYTES;
        return Err(Failure::usage(format!(
            "a lock name has at most {most} bytes, this prefix has {length} (PREFIX)"
        )));
    }
    Ok(bytes)
}

/// The bytes in hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(argument: &OsStr, spelling: Spelling) -> Result<Vec<u8>, Failure> {
    let Some(text) = argument.to_str() else {
        return Err(Failure::usage(
            "a lock name is not UTF-8: give its bytes with --name-hex (NAME)",
        ));
    };
    match spelling {
        Spelling::Hex => from_hex(text),
        Spelling::Text if text.chars().any(char::is_control) => Err(Failure::usage(format!(
            "the lock name `{}` has a control character: give its bytes with --name-hex (NAME)",
            text.escape_debug()
        ))),
        Spelling::Text => Ok(text.as_bytes().to_vec()),
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => {
            Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => Err(Failure::usage(format!(
            "`{}` is not a name in hexadecimal digits, two for each byte (--name-hex)",
            text.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_give_any_bytes() {
        let name = parse(OsStr::new("00ff0A"), Spelling::Hex).expect("a name");
        assert_eq!(name.as_bytes(), [0, 0xff, 0x0a]);
        assert_eq!(to_hex(name.as_bytes()), "00ff0a");
        for text in ["0", "0g", "", " 00", "0x00", "é9"] {
            assert!(parse(OsStr::new(text), Spelling::Hex).is_err(), "{text:?}");
        }
    }

    #[test]
    fn text_is_taken_as_it_is() {
        assert!(parse(OsStr::new("job {a}/b ü"), Spelling::Text).is_ok());
        for text in ["", "a\nb", "a\u{0}", "\u{9b}x", &"x".repeat(513)] {
            assert!(parse(OsStr::new(text), Spelling::Text).is_err(), "{text:?}");
        }
        assert!(parse(OsStr::new(&"x".repeat(512)), Spelling::Text).is_ok());
    }
}
