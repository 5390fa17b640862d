//! Where a lock is kept: the one place that knows how names become keys, and back.
//!
//! ```text
//!   native   prefix + name, in which only `%`, control bytes and a leading `!` are encoded
//!   plain    a prefix of the other library's, if it has one, and the bytes of the name
//! ```
//!
//! Braces stay as they are, so that a user's own hash tag picks the slot of a cluster; one in the
//! prefix puts all locks into one slot. Keys of the
//! library itself begin with `!` behind the prefix, and no name becomes one of those.

use fencelock_core::{ListenerId, LockName};

use crate::cluster;

/// How names become keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyMapping {
    /// The native format.
    Prefixed(Vec<u8>),
    /// What another library writes before a name, and the name itself.
    After(Vec<u8>),
}

/// Why a prefix can't be one.
pub(crate) const PREFIX_LIMITS: &str = "a key prefix has at most 128 bytes, no control characters, and no { } but those of one hash \
     tag with something in it";
const PREFIX_BYTES_MAX: usize = 128;

/// The prefix unless another is asked for.
pub(crate) const DEFAULT_PREFIX: &str = "fencelock:";

impl KeyMapping {
    /// A prefix; nothing when it breaks [`PREFIX_LIMITS`].
    pub(crate) fn prefixed(prefix: &str) -> Option<Self> {
        let without_tag = match prefix
            .split_once('{')
            .map(|(front, rest)| (front, rest.split_once('}')))
        {
            None => prefix.to_owned(),
            Some((front, Some((tag, back)))) if !tag.is_empty() => format!("{front}{tag}{back}"),
            Some(_) => return None,
        };
        let bad = |byte: u8| matches!(byte, b'{' | b'}') || byte.is_ascii_control();
        if prefix.len() > PREFIX_BYTES_MAX || without_tag.bytes().any(bad) {
            return None;
        }
        Some(Self::Prefixed(prefix.as_bytes().to_vec()))
    }

    /// What another library writes before names: any bytes. Nothing when there are too many.
    pub(crate) fn after(prefix: &str) -> Option<Self> {
        (prefix.len() <= PREFIX_BYTES_MAX).then(|| Self::After(prefix.as_bytes().to_vec()))
    }

    /// Writes the key of a name over what is there.
    pub(crate) fn write(&self, name: &LockName, key: &mut Vec<u8>) {
        key.clear();
        match self {
            Self::Prefixed(prefix) => encode(prefix, name.as_bytes(), key),
            Self::After(prefix) => {
                key.extend_from_slice(prefix);
                key.extend_from_slice(name.as_bytes());
            }
        }
    }

    /// The name of a key; nothing for keys that no name has.
    pub(crate) fn name(&self, key: &[u8]) -> Option<LockName> {
        match self {
            Self::Prefixed(prefix) => LockName::new(decode(key.strip_prefix(&prefix[..])?)?).ok(),
            Self::After(prefix) => LockName::new(key.strip_prefix(&prefix[..])?).ok(),
        }
    }

    /// What channels begin with, on a cluster for names of a slot; and before it the mark of
    /// `line.lua`. On one server the count of `PUBSUB NUMSUB` is that of all who listen.
    pub(crate) fn channels(&self, slot: Option<u16>) -> Vec<u8> {
        let mut channels = if slot.is_some() { b"2".to_vec() } else { b"1".to_vec() };
        let (Self::Prefixed(prefix) | Self::After(prefix)) = self;
        channels.extend_from_slice(prefix);
        channels.extend_from_slice(b"!wake:");
        if let Some(slot) = slot {
            channels.extend_from_slice(format!("{{{}}}", cluster::tag_of(slot)).as_bytes());
        }
        channels
    }

    /// The channel of a listener, on a cluster that of a slot.
    pub(crate) fn channel(&self, slot: Option<u16>, listener: ListenerId) -> Vec<u8> {
        let mut channel = self.channels(slot).split_off(1);
        channel.extend_from_slice(listener.to_string().as_bytes());
        channel
    }

    /// A key of the library's own: no name has it.
    pub(crate) fn own(&self, word: &str) -> Vec<u8> {
        let (Self::Prefixed(prefix) | Self::After(prefix)) = self;
        let mut key = prefix.clone();
        key.push(b'!');
        key.extend_from_slice(word.as_bytes());
        key
    }

    /// The pattern for SCAN that matches the keys of all names with a prefix.
    pub(crate) fn pattern(&self, prefix: &[u8]) -> Vec<u8> {
        let literal = match self {
            Self::Prefixed(own) => {
                let mut literal = Vec::new();
                encode(own, prefix, &mut literal);
                literal
            }
            Self::After(own) => [own, prefix].concat(),
        };
        let mut pattern = Vec::with_capacity(literal.len() + 8);
        for byte in literal {
            if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        pattern
    }
}

fn encode(prefix: &[u8], name: &[u8], key: &mut Vec<u8>) {
    key.reserve(prefix.len() + name.len() + 8);
    key.extend_from_slice(prefix);
    // Most names need no look at each byte.
    if !name.starts_with(b"!") && !name.iter().any(|&byte| is_encoded(byte, 1)) {
        key.extend_from_slice(name);
        return;
    }
    for (index, &byte) in name.iter().enumerate() {
        if is_encoded(byte, index) {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            let high = DIGITS[usize::from(byte >> 4)];
            key.extend_from_slice(&[b'%', high, DIGITS[usize::from(byte & 15)]]);
        } else {
            key.push(byte);
        }
    }
}

fn is_encoded(byte: u8, index: usize) -> bool {
    byte == b'%' || byte.is_ascii_control() || (byte == b'!' && index == 0)
}

/// Undoes [`encode`] and nothing else: a key that it would not have written is not ours.
fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(encoded.len());
    let mut rest = encoded.iter();
    while let Some(&byte) = rest.next() {
        let index = name.len();
        if byte == b'%' {
            let decoded = digit(*rest.next()?)? << 4 | digit(*rest.next()?)?;
            name.push(is_encoded(decoded, index).then_some(decoded)?);
        } else {
            name.push((!is_encoded(byte, index)).then_some(byte)?);
        }
    }
    Some(name)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn native() -> KeyMapping {
        KeyMapping::prefixed(DEFAULT_PREFIX).expect("a prefix")
    }

    fn written(mapping: &KeyMapping, name: &LockName) -> Vec<u8> {
        let mut key = b"what was there".to_vec();
        mapping.write(name, &mut key);
        key
    }

    fn key(name: &[u8]) -> Vec<u8> {
        let name = LockName::new(name).expect("a name");
        written(&native(), &name)
    }

    #[test]
    fn only_percent_control_and_a_leading_mark_are_encoded() {
        assert_eq!(key(b"job:{1}"), b"fencelock:job:{1}");
        assert_eq!(key(b"!a!"), b"fencelock:%21a!");
        assert_eq!(key(b"100%"), b"fencelock:100%25");
        assert_eq!(key(b"a\0\n\x7f b"), b"fencelock:a%00%0A%7F b");
        assert_eq!(key("naïve 🔒".as_bytes()), "fencelock:naïve 🔒".as_bytes());
        assert_eq!(key(b"\xff*?[x]"), b"fencelock:\xff*?[x]");
    }

    #[test]
    fn a_key_that_no_name_has_is_not_a_name() {
        for key in [
            "fencelock:",
            "fencelock:!boot",
            "fencelock:%41",
            "fencelock:%2",
            "fencelock:a%21",
            "fencelock:%0a",
            "other:x",
            "fencelock:a\n",
        ] {
            assert_eq!(native().name(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn a_prefix_has_limits() {
        assert!(KeyMapping::prefixed("").is_some());
        assert!(KeyMapping::prefixed("app:*").is_some());
        assert!(KeyMapping::prefixed("{app}:").is_some());
        for prefix in ["{}x", "{a", "a}", "{a}{b}", "{a}}", "{{a}", "a\n", &"x".repeat(129)] {
            assert_eq!(KeyMapping::prefixed(prefix), None, "{prefix}");
        }
    }

    #[test]
    fn a_pattern_takes_names_literally() {
        assert_eq!(native().pattern(b"a*[b]?\\"), b"fencelock:a\\*\\[b\\]\\?\\\\*");
        assert_eq!(native().pattern(b"!"), b"fencelock:%21*");
        assert_eq!(KeyMapping::After(Vec::new()).pattern(b""), b"*");
        assert_eq!(KeyMapping::After(b"r*:".to_vec()).pattern(b"a?"), b"r\\*:a\\?*");
    }

    proptest! {
        #[test]
        fn a_name_comes_back_and_no_other_has_its_key(
            name in prop::collection::vec(any::<u8>(), 1..64),
            other in prop::collection::vec(any::<u8>(), 1..64),
        ) {
            let (name, other) = (LockName::new(name).expect("a name"), LockName::new(other).expect("a name"));
            for mapping in [native(), KeyMapping::After(Vec::new()), KeyMapping::After(b"r:{".to_vec())] {
                let key = written(&mapping, &name);
                prop_assert_eq!(mapping.name(&key), Some(name.clone()));
                prop_assert_eq!(written(&mapping, &other) == key, name == other);
            }
        }

        #[test]
        fn a_key_that_is_a_name_is_written_so(key in "fencelock:[%!0-9A-Fa-f\\n]{1,6}") {
            if let Some(name) = native().name(key.as_bytes()) {
                prop_assert_eq!(written(&native(), &name), key.as_bytes());
            }
        }
    }
}
