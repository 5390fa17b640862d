//! How a holder describes itself: `key=value` lines in ASCII, percent-encoded.
//!
//! The holder's own keys are `!host`, `!pid`, `!permits` and `!label`; keys of users do not begin with
//! `!`.
//! Reading is lenient, since the bytes come from another process and maybe another version.

use std::{borrow::Cow, collections::BTreeMap};

use fencelock_core::{Metadata, Mode};

use crate::Error;

/// What was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) permits: Option<u32>,
    pub(crate) label: Option<String>,
    pub(crate) user: BTreeMap<String, String>,
}

/// The lines of this process: written once, put before those of each lock.
pub(crate) fn own(host: Option<&str>, pid: u32) -> String {
    let mut text = String::new();
    if let Some(host) = host {
        line(&mut text, "!host", host);
    }
    line(&mut text, "!pid", &pid.to_string());
    text
}

/// The same with how many permits are asked for, where they are several: a store counts them
/// together.
pub(crate) fn with_permits<'a>(own: &'a str, mode: &Mode) -> Cow<'a, str> {
    match mode {
        Mode::Permits { permits: permits @ 2.., .. } => {
            let mut text = own.to_owned();
            line(&mut text, "!permits", &permits.to_string());
            Cow::Owned(text)
        }
        _ => Cow::Borrowed(own),
    }
}

/// Puts the lines of one lock behind those of the process.
pub(crate) fn write(
    own: &str,
    label: Option<&str>,
    user: &BTreeMap<String, String>,
) -> Result<Metadata, Error> {
    let mut text = own.to_owned();
    if let Some(label) = label {
        line(&mut text, "!label", label);
    }
    for (key, value) in user {
        if key.is_empty() || key.starts_with('!') {
            let what =
                format!("a metadata key must not be empty or begin with '!', as {key:?} does");
            return Err(Error::config(what));
        }
        line(&mut text, key, value);
    }
    Metadata::new(text).map_err(|error| Error::config(error.to_string()))
}

fn line(text: &mut String, key: &str, value: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    encode(text, key);
    text.push('=');
    encode(text, value);
}

fn encode(text: &mut String, part: &str) {
    for byte in part.bytes() {
        match byte {
            b'%' | b'=' | 0..=31 | 127.. => {
                text.push('%');
                for digit in [byte >> 4, byte & 15] {
                    text.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
                }
            }
            _ => text.push(char::from(byte)),
        }
    }
}

pub(crate) fn read(metadata: &Metadata) -> Fields {
    let mut fields = Fields::default();
    for line in metadata.as_bytes().split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let (key, value) = match line.iter().position(|&byte| byte == b'=') {
            Some(at) => (decode(&line[..at]), decode(&line[at + 1..])),
            None => (decode(line), String::new()),
        };
        match key.as_str() {
            "!host" => fields.host = Some(value),
            "!pid" => fields.pid = value.parse().ok(),
            "!permits" => fields.permits = value.parse().ok(),
            "!label" => fields.label = Some(value),
            _ => {
                fields.user.insert(key, value);
            }
        }
    }
    fields
}

fn decode(part: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)).map(|(h, l)| h << 4 | l),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            host in prop::option::of(any::<String>()),
            label in prop::option::of(any::<String>()),
            user in prop::collection::btree_map("[^!].{0,8}", any::<String>(), 0..4),
        ) {
            let own = own(host.as_deref(), 7);
            if let Ok(metadata) = write(&own, label.as_deref(), &user) {
                prop_assert!(metadata.as_bytes().is_ascii());
                let expected = Fields { host, pid: Some(7), permits: None, label, user };
                prop_assert_eq!(read(&metadata), expected);
            }
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _fields = read(&Metadata::new(bytes).expect("it is short"));
        }
    }

    #[test]
    fn keys_of_the_library_are_refused() {
        for key in ["", "!host", "!x"] {
            let user = BTreeMap::from([(key.to_owned(), String::new())]);
            let error = write("", None, &user).expect_err("the key is not for users");
            assert!(error.is_config(), "{key:?}: {error}");
        }
    }

    #[test]
    fn one_byte_too_many_is_refused() {
        let user = |length| BTreeMap::from([("k".to_owned(), "v".repeat(length))]);
        assert!(write("", None, &user(1022)).is_ok());
        assert!(write("", None, &user(1023)).expect_err("too large").is_config());
    }
}
