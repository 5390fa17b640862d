//! How often a node that does not answer is tried, whatever is left on it.
//!
//! A node that is down for a while collects a release of each lease that was given back meanwhile.
//! Were each of them tried again by itself, a busy client would do little else. So while a node
//! fails they take turns: one at a time, with a pause that grows. The first answer lets all go on.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fencelock_core::Moment;
use fencelock_store::{Clock, rt};

/// The pace of one node.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    turns: rt::sync::Mutex<()>,
    state: Mutex<State>,
}

/// Set while the node fails.
type State = Option<Failing>;

#[derive(Clone, Copy, Debug)]
struct Failing {
    pause: Duration,
    again_at: Moment,
}

impl Pace {
    pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
    pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(500);

    /// Waits until the node may be tried; what comes back is kept until it has answered, or not.
    /// Nothing when `until` came first.
    pub(crate) async fn turn(
        &self,
        clock: &Clock,
        until: Moment,
    ) -> Option<Option<rt::sync::MutexGuard<'_, ()>>> {
        if self.state().is_none() {
            return Some(None);
        }
        let turn = clock.until(until, self.turns.lock()).await?;
        // Those before may have found that it answers again.
        let Some(Failing { again_at, .. }) = *self.state() else { return Some(None) };
        clock.sleep_until(again_at.min(until)).await;
        (clock.now() < until).then_some(Some(turn))
    }

    /// The node answered.
    pub(crate) fn answered(&self) {
        *self.state() = None;
    }

    /// It did not.
    pub(crate) fn failed(&self, now: Moment) {
        let mut state = self.state();
        let longer = |failing: Failing| failing.pause.saturating_mul(2).min(Self::LONGEST_PAUSE);
        let pause = state.map_or(Self::FIRST_PAUSE, longer);
        let chance = f64::from(rt::chance()) / f64::from(u32::MAX);
        let again_at = now.saturating_add(pause - pause.mul_f64(chance / 4.0));
        *state = Some(Failing { pause, again_at });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use fencelock_store::ManualClock;

    use super::*;

    #[test]
    fn the_pause_grows_to_its_limit_and_begins_anew_after_an_answer() {
        let (pace, now) = (Pace::default(), Moment::START);
        let pause = || {
            pace.failed(now);
            pace.state().expect("it fails").pause.as_millis()
        };
        let grown: Vec<_> = (0..7).map(|_| pause()).collect();
        assert_eq!(grown, [20, 40, 80, 160, 320, 500, 500]);
        pace.answered();
        assert!(pace.state().is_none());
        assert_eq!(pause(), 20);
    }

    #[tokio::test]
    async fn who_takes_turns_gives_up_at_its_own_end() {
        let (pace, manual) = (Pace::default(), ManualClock::new());
        let clock = Clock::Manual(manual.clone());
        let end = manual.now().saturating_add(Duration::from_millis(1));
        let nobody = pace.turn(&clock, end).await;
        assert!(matches!(nobody, Some(None)), "nothing failed: no turns are taken");
        pace.failed(manual.now());
        let mut waiting = std::pin::pin!(pace.turn(&clock, end));
        let early = rt::first(waiting.as_mut(), rt::yield_now()).await;
        assert!(early.is_none(), "it waits for the pause");
        manual.advance(Duration::from_millis(1));
        assert!(waiting.await.is_none(), "its end came before the end of the pause");
    }
}
