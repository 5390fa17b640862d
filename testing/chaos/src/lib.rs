//! What tests of chaos share: choices that can be made again, and the clock that all processes
//! have in common.
//!
//! The tests themselves are in `tests/`. `FENCELOCK_SEED` repeats the choices of a run (not the
//! moments at which processes and servers get to run), `FENCELOCK_SOAK=1` runs the long forms.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the boot, suspends included: the same for all processes.
///
/// # Panics
/// Never: the clock counts from the boot.
#[must_use]
pub fn boottime_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let part = |value: i64| u64::try_from(value).expect("it counts from the boot");
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Whether the long forms are asked for.
#[must_use]
pub fn is_soak() -> bool {
    std::env::var_os("FENCELOCK_SOAK").is_some()
}

/// Choices that a seed repeats: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The choices of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed of the environment, or one of the moment; printed, so that the run can be repeated.
    #[must_use]
    pub fn of_this_run() -> Self {
        let given = std::env::var("FENCELOCK_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(boottime_ns);
        println!("FENCELOCK_SEED={seed}");
        Self(seed)
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices_and_another_makes_others() {
        let choices = |seed| {
            let mut random = Random::new(seed);
            (0..20).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
        assert!(choices(7).iter().all(|choice| *choice < 1_000));
    }
}
