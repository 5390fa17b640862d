//! How a call waits while others are inside the file, without holding a thread.

use std::time::Duration;

use fencelock_core::Moment;
use fencelock_store::{Clock, rt};

use crate::connection::Access;

/// The pauses of one call while the file is busy.
#[derive(Debug)]
pub(crate) struct Pause {
    tries: u32,
    tries_at_once: u32,
    longest: Duration,
}

impl Pause {
    /// The first one.
    pub(crate) const SHORTEST: Duration = Duration::from_micros(100);

    /// A transaction takes some ten microseconds: the next try may well succeed.
    ///
    /// Others come back soon after they left. Who looks once now and then can miss every moment
    /// between two of them, and a lease that is not renewed in time is lost: renewals look longer,
    /// and more often.
    pub(crate) fn of(access: Access) -> Self {
        let (tries_at_once, longest) = match access {
            Access::Renew => (16, Duration::from_millis(1)),
            Access::Read | Access::Write => (4, Duration::from_millis(5)),
        };
        Self { tries: 0, tries_at_once, longest }
    }

    /// Lets others go on.
    pub(crate) async fn wait(&mut self, clock: &Clock, by: Moment) {
        self.tries = self.tries.saturating_add(1);
        if !self.tries.is_multiple_of(self.tries_at_once) {
            return std::thread::yield_now();
        }
        let step = self.tries / self.tries_at_once - 1;
        let span = Self::SHORTEST.saturating_mul(1 << step.min(6)).min(self.longest);
        // Between a half and the whole, so that those who wait spread out.
        let jittered = span / 2 + (span / 2).mul_f64(f64::from(rt::chance()) / f64::from(u32::MAX));
        let left = by.saturating_since(clock.now());
        rt::sleep(jittered.min(left)).await;
    }
}
