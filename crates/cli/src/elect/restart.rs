//! What happens when the command of a leader has ended.
//!
//! | the command                        | `never` | `on-failure`      | `always`          |
//! |------------------------------------|---------|-------------------|-------------------|
//! | was told to end by a signal to us  | the end | the end           | the end           |
//! | lost its minder (a fault here)     | the end | the end           | the end           |
//! | was stopped: lost, or asked back   | the end | again, at once    | again, at once    |
//! | ended well by itself               | the end | the end           | again, after a pause |
//! | failed                             | the end | again, after a pause | again, after a pause |
//!
//! "Well" is what systemd means by it: code 0, or a death by HUP, INT, TERM or PIPE. Whoever campaigns
//! again has resigned before: a machine on which the command fails does not keep it from the others.

use std::time::Duration;

use fencelock::{Released, RetryStrategy};
use rustix::process::Signal;

use crate::child::{Status, StopReason};
use crate::failure::Failure;
use crate::run::Ended;

/// Whether a command that has ended is started again, here or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Restart {
    Always,
    #[default]
    OnFailure,
    Never,
}

/// What comes after a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    End,
    Campaign,
    CampaignAfterPause,
}

impl Restart {
    /// Reads what was typed.
    ///
    /// # Errors
    /// It is none of the three.
    pub(super) fn of(text: Option<&str>) -> Result<Self, Failure> {
        match text {
            None => Ok(Self::default()),
            Some("always") => Ok(Self::Always),
            Some("on-failure") => Ok(Self::OnFailure),
            Some("never") => Ok(Self::Never),
            Some(other) => Err(Failure::usage(format!(
                "--restart is always, on-failure or never, not `{}`",
                other.escape_debug()
            ))),
        }
    }

    /// Decides: see the table above.
    pub(super) fn after(self, ended: &Ended) -> Next {
        let outcome = &ended.outcome;
        let is_over = self == Self::Never
            || outcome.told_to_end
            || outcome.stopped_by_us == Some(StopReason::MinderDied);
        let was_stopped = ended.lost
            || ended.asked_back
            || outcome.stopped_by_us.is_some()
            || matches!(ended.released, Released::Expired | Released::Taken);
        if is_over {
            Next::End
        } else if was_stopped {
            Next::Campaign
        } else if self == Self::OnFailure && is_well(outcome.status) {
            Next::End
        } else {
            Next::CampaignAfterPause
        }
    }
}

fn is_well(status: Status) -> bool {
    let by_signal = |signal: &Signal| status == Status::Signal(signal.as_raw());
    status == Status::Code(0)
        || [Signal::HUP, Signal::INT, Signal::TERM, Signal::PIPE].iter().any(by_signal)
}

/// Pauses that grow with each command that ends soon.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    in_a_row: u32,
}

impl Pauses {
    /// The pause after a term that took so long, with the wait for it.
    pub(super) fn after(&mut self, term: Duration) -> Duration {
        self.in_a_row = if term >= LONGEST_PAUSE { 0 } else { self.in_a_row.saturating_add(1) };
        let strategy = RetryStrategy::exponential(FIRST_PAUSE, LONGEST_PAUSE);
        let mut pauses = strategy.start();
        let mut pause = FIRST_PAUSE;
        // As many steps as it takes from the first pause to the longest.
        for _ in 0..self.in_a_row.clamp(1, 10) {
            pause = pauses.next_delay(fencelock::store::rt::chance()).unwrap_or(LONGEST_PAUSE);
        }
        pause
    }
}

/// systemd's own.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A command that can't run costs two starts a minute, and is back half a minute after its repair.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Outcome;

    fn ended(status: Status) -> Ended {
        let outcome = Outcome {
            status,
            stopped_by_us: None,
            told_to_end: false,
            left_behind: 0,
            typed: None,
        };
        Ended { outcome, lost: false, asked_back: false, released: Released::Held }
    }

    fn all(ended: &Ended) -> [Next; 3] {
        [Restart::Never, Restart::OnFailure, Restart::Always].map(|restart| restart.after(ended))
    }

    #[test]
    fn the_table_is_kept() {
        use Next::{Campaign, CampaignAfterPause, End};

        for well in [Status::Code(0), Status::Signal(15), Status::Signal(1), Status::Signal(13)] {
            assert_eq!(all(&ended(well)), [End, End, CampaignAfterPause], "{well:?}");
        }
        for failed in [Status::Code(1), Status::Code(143), Status::Signal(9), Status::Signal(11)] {
            assert_eq!(all(&ended(failed)), [End, CampaignAfterPause, CampaignAfterPause]);
            let mut told = ended(failed);
            told.outcome.told_to_end = true;
            assert_eq!(all(&told), [End; 3]);
        }
        for status in [Status::Code(0), Status::Code(1)] {
            let mut stopped: [Ended; 4] = std::array::from_fn(|_| ended(status));
            stopped[0].lost = true;
            stopped[1].asked_back = true;
            stopped[2].released = Released::Taken;
            stopped[3].outcome.stopped_by_us = Some(StopReason::Deadline);
            for ended in &stopped {
                assert_eq!(all(ended), [End, Campaign, Campaign], "{ended:?}");
            }
        }
        let mut fault = ended(Status::Signal(9));
        fault.outcome.stopped_by_us = Some(StopReason::MinderDied);
        assert_eq!(all(&fault), [End; 3]);
    }

    #[test]
    fn pauses_grow_to_a_limit_and_a_long_term_makes_them_short_again() {
        let mut pauses = Pauses::default();
        for most in [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let pause = pauses.after(Duration::from_secs(1));
            let most = Duration::from_millis(most);
            assert!(pause >= most / 2 && pause <= most, "{pause:?} of {most:?}");
        }
        assert!(pauses.after(LONGEST_PAUSE) <= FIRST_PAUSE);
    }

    #[test]
    fn what_is_none_of_the_three_is_refused() {
        assert_eq!(Restart::of(None).expect("the default"), Restart::OnFailure);
        assert!(Restart::of(Some("on_failure")).is_err() && Restart::of(Some("")).is_err());
    }
}
