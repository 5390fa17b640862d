//! The instants of a lease at which the command is told to stop, and killed.
//!
//! ```text
//!    t0                              TERM          KILL      D          store's end
//!    |===== the command may run =======|--- grace ---|-margin-|--- drift ---|
//! ```
//!
//! Renewals move all of them on. A ttl that leaves no room for grace and margin is refused: the
//! command would be told to stop before the first renewal could save it.

use std::time::Duration;

use fencelock::Moment;

use crate::context::TTL_DEFAULT;
use crate::failure::Failure;
use crate::settings::{Origin, Settings};
use crate::span;

/// How long everything takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// The lease.
    pub(super) ttl: Duration,
    /// Between TERM and KILL.
    pub(super) grace: Duration,
    /// Between KILL and the end of validity: for the signal to be delivered and the processes to be
    /// torn down.
    pub(super) kill_margin: Duration,
}

impl Timing {
    /// Reads the settings.
    ///
    /// # Errors
    /// The ttl is too short for `run`, or leaves no room for the grace.
    pub(super) fn of(settings: &Settings) -> Result<Self, Failure> {
        let ttl = settings.ttl.as_ref().map_or(TTL_DEFAULT, |ttl| ttl.value);
        if let Some(setting) = settings.ttl.as_ref().filter(|ttl| ttl.value < TTL_MIN) {
            return Err(setting.origin.fail(&format!(
                "is at least {} for run, not {}: a command could not be stopped in time",
                span::show(TTL_MIN),
                span::show(ttl)
            )));
        }
        let kill_margin = KILL_MARGIN_MIN.max(ttl / KILL_MARGIN_SHARE);
        let Some(explicit) = &settings.grace else {
            return Ok(Self { ttl, grace: GRACE_MAX.min(ttl / 4), kill_margin });
        };
        let grace = explicit.value;
        if grace.saturating_add(kill_margin) > ttl / 2 {
            let most = (ttl / 2).saturating_sub(kill_margin);
            let sentence = format!(
                "of {} is too long for a ttl of {}: at most {}, or a longer --ttl",
                span::show(grace),
                span::show(ttl),
                span::show(most)
            );
            let failure = explicit.origin.fail(&sentence);
            let ttl_is_flag = settings.ttl.as_ref().map(|ttl| &ttl.origin);
            return Err(match ttl_is_flag {
                // Either of the two can be what was mistyped just now.
                Some(Origin::Flag(_)) => failure.with_code(crate::exit::Exit::Usage),
                _ => failure,
            });
        }
        Ok(Self { ttl, grace, kill_margin })
    }

    /// When the command must be dead.
    pub(super) fn kill_at(&self, deadline: Moment) -> Moment {
        deadline.saturating_sub(self.kill_margin)
    }

    /// When the command is told to stop, if no renewal comes before.
    pub(super) fn term_at(&self, deadline: Moment) -> Moment {
        self.kill_at(deadline).saturating_sub(self.grace)
    }
}

/// Below it, starting a process takes a large part of the lease.
const TTL_MIN: Duration = Duration::from_millis(100);
/// Two per cent of the ttl.
const KILL_MARGIN_SHARE: u32 = 50;
/// What a loaded machine needs to deliver a signal and tear a process down.
const KILL_MARGIN_MIN: Duration = Duration::from_millis(20);
/// Longer than that a program that acts on TERM at all seldom needs.
const GRACE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Key, Layer};

    fn timing(ttl: &str, grace: Option<&str>) -> Result<Timing, Failure> {
        let mut layer = Layer::default();
        layer.flag(Key::Ttl, Some(&ttl.to_owned()));
        layer.flag(Key::Grace, grace.map(str::to_owned).as_ref());
        Timing::of(&Settings::of_flags(layer)?)
    }

    #[test]
    fn the_default_grace_always_fits() {
        for ttl in ["100ms", "1s", "30s", "24h"] {
            let timing = timing(ttl, None).expect("it fits");
            assert!(timing.grace + timing.kill_margin <= timing.ttl / 2, "{timing:?}");
            assert!(timing.grace <= Duration::from_secs(2));
        }
        assert_eq!(timing("30s", None).expect("it fits").grace, Duration::from_secs(2));
        assert_eq!(timing("2s", None).expect("it fits").grace, Duration::from_millis(500));
    }

    #[test]
    fn a_grace_is_refused_from_the_first_millisecond_that_does_not_fit() {
        // Half of 10 s, less 2 %.
        assert!(timing("10s", Some("4800ms")).is_ok());
        let failure = timing("10s", Some("4801ms")).expect_err("too long");
        assert_eq!(failure.code(), 64);
        assert!(timing("99ms", None).is_err());
        assert!(timing("100ms", Some("0s")).is_ok());
    }

    #[test]
    fn term_comes_before_kill_and_kill_before_the_end() {
        let timing = timing("30s", None).expect("it fits");
        let deadline = Moment::from_nanos(100_000_000_000);
        assert_eq!(timing.kill_at(deadline), Moment::from_nanos(99_400_000_000));
        assert_eq!(timing.term_at(deadline), Moment::from_nanos(97_400_000_000));
    }
}
