//! Where there was a line when we last looked: the scripts ask for it first there.
//!
//! A hint only. A wrong one costs the server a command, and a script never believes it.

use std::sync::atomic::{AtomicU64, Ordering};

use fencelock_core::Names;

/// Names by hash, a bit for each.
#[derive(Debug, Default)]
pub(crate) struct LineHints([AtomicU64; 16]);

impl LineHints {
    /// Whether the only name had a line.
    pub(super) fn is_probable(&self, names: &Names) -> bool {
        let (word, bit) = Self::place(names);
        names.len() == 1 && self.0[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Notes whether there is one.
    pub(super) fn learn(&self, names: &Names, has_line: bool) {
        if names.len() != 1 || self.is_probable(names) == has_line {
            return;
        }
        let (word, bit) = Self::place(names);
        match has_line {
            true => self.0[word].fetch_or(bit, Ordering::Relaxed),
            false => self.0[word].fetch_and(!bit, Ordering::Relaxed),
        };
    }

    fn place(names: &Names) -> (usize, u64) {
        // FNV-1a: only to spread names over bits.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for name in names.iter().take(1) {
            for byte in name.as_bytes() {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        (usize::from(hash.to_be_bytes()[0] & 15), 1 << (hash.to_be_bytes()[1] & 63))
    }
}

#[cfg(test)]
mod tests {
    use fencelock_core::LockName;

    use super::*;

    #[test]
    fn a_name_is_noted_and_forgotten_and_a_set_never_is() {
        let name = |text: &str| LockName::new(text).expect("a name");
        let (one, hints) = (Names::from(name("k")), LineHints::default());
        let set = Names::new(vec![name("k"), name("l")]).expect("names");
        for has_line in [true, false] {
            hints.learn(&one, has_line);
            hints.learn(&set, true);
            assert_eq!((hints.is_probable(&one), hints.is_probable(&set)), (has_line, false));
        }
    }
}
