//! When to renew.
//!
//! ```text
//!   last success (sent)                                  latest start        deadline
//!   |------ ttl/3 ------|-- ttl/10 --|-- ttl/10 --| ...  | request_timeout  |
//!                       renewal      again, jittered     no more after this
//! ```

use core::time::Duration;

use crate::{Lease, Moment, Ttl};

/// When the next renewal of a lease is due, and how long it may take.
///
/// Two thirds of the ttl are left when the first try is due, so that several can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalSchedule {
    request_timeout: Duration,
}

impl RenewalSchedule {
    /// A schedule for a store whose calls are given up after `request_timeout`.
    #[must_use]
    pub const fn new(request_timeout: Duration) -> Self {
        Self { request_timeout }
    }

    /// How long one renewal may take: `min(request_timeout, ttl / 6)`.
    #[must_use]
    pub fn request_timeout(&self, ttl: Ttl) -> Duration {
        self.request_timeout.min(ttl.as_duration() / 6)
    }

    /// The same for a lease whose present term is shorter than its ttl.
    #[must_use]
    pub fn timeout_of(&self, lease: &Lease) -> Duration {
        self.request_timeout(lease.ttl()).min(lease.term() / 6)
    }

    /// When the first renewal after a success is due: after a third of the ttl. A lease that was
    /// handed over for a short claim is renewed soon, though not at once: work that takes less than
    /// that is given back without a renewal.
    fn first(lease: &Lease) -> Duration {
        let term = lease.term();
        if term < lease.ttl().as_duration() / 2 { (term / 8).min(CLAIM_PAUSE) } else { term / 3 }
    }

    /// When the next renewal is due.
    ///
    /// `last_try` is when the last one was sent, if one was since the last success. `chance` is a
    /// random number that spreads the retries: a tenth of the ttl, less up to a quarter of that.
    ///
    /// Nothing when the lease is over, or when a renewal can't be answered in time any more.
    #[must_use]
    pub fn next(&self, lease: &Lease, last_try: Option<Moment>, chance: u32) -> Option<Moment> {
        if lease.state().is_final() {
            return None;
        }
        let due = match last_try {
            None => lease.since().saturating_add(Self::first(lease)),
            Some(last_try) => last_try.saturating_add(Self::pause(lease.term(), chance)),
        };
        (due <= self.latest_start(lease)).then_some(due)
    }

    /// How long after a try the next one is sent, when a term is that long: a tenth of it, less up
    /// to a quarter of that by a random number.
    #[must_use]
    pub fn pause(term: Duration, chance: u32) -> Duration {
        let pause = term / 10;
        // Whole numbers: this is computed for each renewal.
        let part = (pause.as_nanos() >> 2) * u128::from(chance) / u128::from(u32::MAX);
        pause.saturating_sub(Duration::from_nanos(u64::try_from(part).unwrap_or(0)))
    }

    /// The last moment at which a renewal may be sent: later, even its success would come too late.
    #[must_use]
    pub fn latest_start(&self, lease: &Lease) -> Moment {
        lease.deadline().saturating_sub(self.timeout_of(lease))
    }
}

/// The longest that a lease of a short claim goes without its first renewal.
const CLAIM_PAUSE: Duration = Duration::from_millis(50);

/// A random number as a share from 0 (inclusive) to 1 (inclusive).
pub(crate) fn share(chance: u32) -> f64 {
    f64::from(chance) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Drift, LossReason};

    fn lease(ttl_ms: u64) -> Lease {
        let ttl = Ttl::from_millis(ttl_ms).expect("a ttl");
        Lease::granted(ttl, ttl.as_duration(), Drift::DEFAULT, Moment::from_nanos(0))
    }

    #[test]
    fn the_first_is_due_after_a_third() {
        let schedule = RenewalSchedule::new(Duration::from_secs(1));
        let due = schedule.next(&lease(30_000), None, 0);
        assert_eq!(due, Some(Moment::from_nanos(10_000_000_000)));
        assert_eq!(schedule.request_timeout(Ttl::MIN), Ttl::MIN.as_duration() / 6);
        assert_eq!(schedule.request_timeout(Ttl::MAX), Duration::from_secs(1));
    }

    #[test]
    fn a_finished_lease_is_never_renewed() {
        let schedule = RenewalSchedule::new(Duration::from_secs(1));
        let mut lost = lease(30_000);
        lost.handle_lost(LossReason::Taken);
        assert_eq!(schedule.next(&lost, None, 0), None);
        let mut released = lease(30_000);
        released.handle_releasing(Moment::from_nanos(1));
        assert_eq!(schedule.next(&released, None, 0), None);
    }

    proptest! {
        #[test]
        fn at_least_three_tries_fit_and_none_starts_too_late(
            ttl_ms in 10u64..86_400_000,
            chance in any::<u32>(),
        ) {
            let schedule = RenewalSchedule::new(Duration::from_secs(1));
            let lease = lease(ttl_ms);
            let mut last_try = None;
            let mut tries = 0;
            while let Some(due) = schedule.next(&lease, last_try, chance) {
                tries += 1;
                prop_assert!(
                    due.saturating_add(schedule.request_timeout(lease.ttl())) <= lease.deadline()
                );
                prop_assert!(last_try.is_none_or(|last| due > last));
                last_try = Some(due);
            }
            prop_assert!(tries >= 3, "{}", tries);
            prop_assert!(tries <= 9, "{}", tries);
        }
    }
}
