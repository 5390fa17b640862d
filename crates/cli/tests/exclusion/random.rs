//! Reproducible choices: splitmix64, which needs no crate and no state beyond one number.

/// A source of choices.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same choices.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed of a test: `FENCELOCK_SEED` where one is to be tried again, else a fresh one.
    pub(crate) fn seed() -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};

        match std::env::var("FENCELOCK_SEED") {
            Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("FENCELOCK_SEED is no number")),
            Err(_) => RandomState::new().build_hasher().finish(),
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Yes, `percent` times of 100.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
