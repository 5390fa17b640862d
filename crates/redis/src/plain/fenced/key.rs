//! Where the counter of a lock is.

use fencelock_core::LockName;

use crate::{cluster::slot_of, wire::Wire};

/// The key of a lock's counter: the key of the lock with something before or behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FenceKey {
    before: Vec<u8>,
    behind: Vec<u8>,
}

const BYTES_MAX: usize = 128;

impl FenceKey {
    /// As redislock's readme has it.
    pub(super) const DEFAULT: &'static str = "*:fence";

    /// Reads a pattern, in which `*` is the key of the lock.
    ///
    /// # Errors
    /// What is wrong about it.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let parts = pattern.split_once('*').filter(|(_, behind)| !behind.contains('*'));
        match parts {
            // A counter of several locks could not be asked again: another's number may be there by then.
            None => Err("a fence key has one *, which stands for the key of its lock".to_owned()),
            Some(("", "")) => Err("a fence key is not the key of its lock".to_owned()),
            Some(_) if pattern.len() > BYTES_MAX => {
                Err("a fence key has at most 128 bytes".to_owned())
            }
            Some((before, behind)) => Ok(Self { before: before.into(), behind: behind.into() }),
        }
    }

    pub(super) fn of(&self, key: &[u8]) -> Vec<u8> {
        [&self.before, key, &self.behind].concat()
    }

    /// Whether a key is that of a counter.
    pub(super) fn is(&self, key: &[u8]) -> bool {
        let without = key.strip_prefix(&self.before[..]);
        without
            .and_then(|key| key.strip_suffix(&self.behind[..]))
            .is_some_and(|key| !key.is_empty())
    }

    /// Whether a lock and its counter are in different slots of a cluster.
    pub(super) fn is_apart(&self, wire: &Wire, name: &LockName) -> bool {
        wire.slot(name).is_some_and(|slot| slot != slot_of(&self.of(&wire.key(name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_says_where_the_counter_is() {
        let key = |pattern: &str| FenceKey::new(pattern).expect("a pattern").of(b"job");
        assert_eq!(key(FenceKey::DEFAULT), b"job:fence");
        assert_eq!(key("{*}:fence"), b"{job}:fence");
        assert_eq!(key("fence:*"), b"fence:job");
    }

    #[test]
    fn a_pattern_that_would_be_no_counter_of_one_lock_is_refused() {
        for pattern in ["", "*", "fence", "*:*", &format!("*{}", "x".repeat(128))] {
            assert!(FenceKey::new(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_counter_is_told_from_a_lock() {
        let fence = FenceKey::new("f:*:n").expect("a pattern");
        assert!(fence.is(b"f:job:n") && fence.is(&fence.of(b"f:n")));
        for key in ["job", "f:job", "job:n", "f::n", "f:n"] {
            assert!(!fence.is(key.as_bytes()), "{key}");
        }
    }
}
