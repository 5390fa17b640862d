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

/// The names as a shell takes them for this program, in a command that a message advises.
pub(crate) fn typed<'n>(names: impl IntoIterator<Item = &'n LockName> + Clone) -> String {
    // What is shown of the others is not what they are.
    let is_text = |name: &LockName| name.as_str().is_some_and(|text| text == name.to_string());
    let is_hex = !names.clone().into_iter().all(is_text);
    let words: Vec<String> = names
        .into_iter()
        .map(|name| if is_hex { to_hex(name.as_bytes()) } else { quoted(&name.to_string()) })
        .collect();
    let words_begin = if is_hex {
        "--name-hex "
    } else if words.iter().any(|word| word.starts_with('-')) {
        "-- "
    } else {
        ""
    };
    format!("{words_begin}{}", words.join(" "))
}

/// A word for a shell, in quotes if it has to be.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@%+,".contains(c);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
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
    fn names_in_an_advice_can_be_typed_as_they_stand_there() {
        for (names, words) in [
            (&["job"][..], "job"),
            (&["a/b:1", "日本"], "a/b:1 日本"),
            (&["my job", "it's"], "'it'\\''s' 'my job'"),
            (&["{order}:a"], "'{order}:a'"),
            (&["$HOME"], "'$HOME'"),
            (&["-x"], "-- -x"),
            (&["x\u{202e}y"], "--name-hex 78e280ae79"),
        ] {
            let names: Result<Vec<_>, _> = names.iter().copied().map(LockName::new).collect();
            let names = Names::new(names.expect("names")).expect("a set");
            assert_eq!(typed(&names), words);
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
