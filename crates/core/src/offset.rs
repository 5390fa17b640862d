//! The offset between the store's clock and ours, learned from replies.
//!
//! An answer that was sent at `t0`, arrived at `t1` and carries the store's time `s` says that the
//! offset lies between `s - t1` and `s - t0`. The intervals of all answers overlap as long as
//! nobody steps the clock; when they stop overlapping, somebody did.

use core::time::Duration;

use crate::{Moment, StoreTime};

/// What is known of the offset. Microseconds, store minus client.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOffset {
    bounds: Option<Bounds>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: i128,
    most: i128,
}

/// The store's clock was stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockStep {
    /// Forward, by at least so much: leases ended that much too early.
    Forward(Duration),
    /// Back, by at least so much: leases last that much longer.
    Back(Duration),
}

impl StoreOffset {
    /// A jump of the offset below this is the noise of slewing and scheduling.
    pub const STEP: Duration = Duration::from_millis(100);

    /// Nothing known yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { bounds: None }
    }

    /// An answer with the store's time. Says so when that can only be explained by a step.
    pub fn handle_answer(
        &mut self,
        at: StoreTime,
        sent: Moment,
        received: Moment,
    ) -> Option<ClockStep> {
        let at = i128::from(at.as_micros());
        let seen = Bounds {
            least: at - micros_up(received),
            most: at - i128::from(sent.as_nanos() / 1_000),
        };
        let Some(known) = self.bounds else {
            self.bounds = Some(seen);
            return None;
        };
        // Clocks drift, so old bounds are only widened by what the new ones exclude.
        let step = i128::try_from(Self::STEP.as_micros()).unwrap_or(i128::MAX);
        if seen.least > known.most.saturating_add(step) {
            self.bounds = Some(seen);
            return Some(ClockStep::Forward(span(seen.least - known.most)));
        }
        if seen.most < known.least.saturating_sub(step) {
            self.bounds = Some(seen);
            return Some(ClockStep::Back(span(known.least - seen.most)));
        }
        let both = Bounds { least: known.least.max(seen.least), most: known.most.min(seen.most) };
        self.bounds = Some(if both.least <= both.most { both } else { seen });
        None
    }

    /// The store's time that will certainly have been reached at `moment`: what a request carries
    /// as the instant after which it must not be executed. Nothing before the first answer.
    #[must_use]
    pub fn latest_at(&self, moment: Moment) -> Option<StoreTime> {
        let bounds = self.bounds?;
        let micros = micros_up(moment).saturating_add(bounds.most).max(0);
        Some(StoreTime::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }
}

fn micros_up(moment: Moment) -> i128 {
    i128::from(moment.as_nanos().div_ceil(1_000))
}

fn span(micros: i128) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn store(ms: u64) -> StoreTime {
        StoreTime::from_micros(ms * 1_000)
    }

    #[test]
    fn nothing_is_known_before_the_first_answer() {
        assert_eq!(StoreOffset::new().latest_at(at(5)), None);
    }

    #[test]
    fn a_step_is_seen_in_either_direction() {
        let mut offset = StoreOffset::new();
        assert_eq!(offset.handle_answer(store(1_000), at(10), at(12)), None);
        assert_eq!(offset.handle_answer(store(1_010), at(20), at(22)), None);
        let forward = offset.handle_answer(store(32_020), at(30), at(32));
        assert!(matches!(forward, Some(ClockStep::Forward(by)) if by > Duration::from_secs(30)));
        let back = offset.handle_answer(store(1_030), at(40), at(42));
        assert!(matches!(back, Some(ClockStep::Back(by)) if by > Duration::from_secs(30)));
    }

    proptest! {
        #[test]
        fn slow_answers_and_slewing_are_no_step_and_the_bound_holds(
            true_offset_ms in 0u64..1_000_000,
            answers in prop::collection::vec((0u64..5_000, 0u64..2_000, 0u64..2_000), 1..20),
        ) {
            let mut offset = StoreOffset::new();
            let mut now = 0;
            for (pause, out, back) in answers {
                let sent = now + pause;
                let executed = sent + out;
                now = executed + back;
                let answer = offset.handle_answer(
                    store(executed + true_offset_ms), at(sent), at(now),
                );
                prop_assert_eq!(answer, None);
                let latest = offset.latest_at(at(now)).expect("known");
                prop_assert!(latest >= store(now + true_offset_ms));
            }
        }
    }
}
