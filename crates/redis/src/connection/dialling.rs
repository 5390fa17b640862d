//! The attempt to connect that runs, and the pause after those that failed.

use std::{sync::Arc, time::Duration};

use fencelock_core::Moment;
use fencelock_store::rt;

use super::link::Link;
use crate::error::Failure;

/// What an attempt comes to.
pub(super) type Dialled = Result<Arc<Link>, Failure>;

/// The attempt that runs, and the attempts that failed.
#[derive(Debug, Default)]
pub(super) struct Dialling {
    pub(super) attempt: Option<rt::sync::watch::Receiver<Option<Dialled>>>,
    pub(super) failures: u32,
    pub(super) not_before: Moment,
}

impl Dialling {
    const PAUSE_MIN: Duration = Duration::from_millis(5);
    /// So that the first success comes within half a second of a server's return.
    const PAUSE_MAX: Duration = Duration::from_millis(400);

    /// The pause after so many failures in a row, with jitter: many clients that lost one server
    /// shall not come back in one wave.
    fn pause(failures: u32, chance: u32) -> Duration {
        let grown = Self::PAUSE_MIN.saturating_mul(1 << failures.min(16)).min(Self::PAUSE_MAX);
        let half = grown / 2;
        half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }

    pub(super) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let pause = Self::pause(self.failures, rt::chance());
        self.not_before = rt::boottime_now().saturating_add(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_jitter_and_stays_below_half_a_second() {
        assert!(Dialling::pause(1, u32::MAX) <= Duration::from_millis(10));
        for failures in 0..40 {
            let (least, most) = (Dialling::pause(failures, 0), Dialling::pause(failures, u32::MAX));
            assert!(least < most && most <= Dialling::PAUSE_MAX, "{failures}: {least:?} {most:?}");
        }
        assert_eq!(Dialling::pause(40, u32::MAX), Dialling::PAUSE_MAX);
    }
}
