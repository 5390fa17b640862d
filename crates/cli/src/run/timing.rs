//! The instants of a lease at which the command is told to stop, and killed.
//!
//! ```text
//!    t0                              TERM          KILL      D          store's end
//!    |===== the command may run =======|--- grace ---|-margin-|--- drift ---|
//! ```
//!
//! Renewals move all of them on. A ttl that leaves no room for grace and margin is refused: the
//! command would be told to stop before the first renewal could save it. A `--max-hold` is such an end
//! of validity, too.

use std::time::Duration;

use fencelock::Moment;

use crate::context::TTL_DEFAULT;
use crate::failure::Failure;
use crate::settings::{Origin, Settings, Sourced};
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
    /// How long the lock stays held at least.
    pub(super) min_hold: Duration,
    /// How long it is held at most.
    pub(super) max_hold: Option<Duration>,
}

impl Timing {
    /// Reads the settings.
    ///
    /// # Errors
    /// The ttl or the longest hold is too short for `run`, or leaves no room for the grace.
    pub(super) fn of(settings: &Settings) -> Result<Self, Failure> {
        let ttl = settings.ttl.as_ref().map_or(TTL_DEFAULT, |ttl| ttl.value);
        if let Some(setting) = settings.ttl.as_ref().filter(|ttl| ttl.value < TTL_MIN) {
            return Err(setting.origin.fail(&format!(
                "is at least {} for run, not {}: a command could not be stopped in time",
                span::show(TTL_MIN),
                span::show(ttl)
            )));
        }
        let (min_hold, max_hold) = holds(settings)?;
        // The command has at most this before it has to be dead, be it by the one or the other.
        let span = ttl.min(max_hold.unwrap_or(ttl));
        let kill_margin = KILL_MARGIN_MIN.max(span / KILL_MARGIN_SHARE);
        let grace = match &settings.grace {
            None => GRACE_MAX.min(span / 4),
            Some(explicit) if explicit.value.saturating_add(kill_margin) > span / 2 => {
                let bounds = if span < ttl { &settings.max_hold } else { &settings.ttl };
                let longer = if span < ttl { "max-hold" } else { "ttl" };
                let most = (span / 2).saturating_sub(kill_margin);
                let failure = explicit.origin.fail(&format!(
                    "of {} is too long for a {longer} of {}: at most {}, or a longer --{longer}",
                    span::show(explicit.value),
                    span::show(span),
                    span::show(most)
                ));
                return Err(blame_flag(failure, bounds.as_ref()));
            }
            Some(explicit) => explicit.value,
        };
        Ok(Self { ttl, grace, kill_margin, min_hold, max_hold })
    }

    /// How long the lease lasts at most when nobody renews it.
    pub(super) fn lease(&self) -> Duration {
        self.ttl.min(self.max_hold.unwrap_or(self.ttl))
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

/// How long the lock is held at least and at most.
fn holds(settings: &Settings) -> Result<(Duration, Option<Duration>), Failure> {
    let min_hold = settings.min_hold.as_ref().map_or(Duration::ZERO, |min_hold| min_hold.value);
    let Some(most) = &settings.max_hold else { return Ok((min_hold, None)) };
    if most.value < TTL_MIN {
        return Err(most.origin.fail(&format!(
            "is at least {}, not {}: a command could not be stopped in time",
            span::show(TTL_MIN),
            span::show(most.value)
        )));
    }
    if most.value < min_hold {
        let failure = most.origin.fail(&format!(
            "of {} is shorter than the --min-hold of {}",
            span::show(most.value),
            span::show(min_hold)
        ));
        return Err(blame_flag(failure, settings.min_hold.as_ref()));
    }
    Ok((min_hold, Some(most.value)))
}

/// Two settings do not fit: either can be what was mistyped just now.
fn blame_flag(failure: Failure, other: Option<&Sourced<Duration>>) -> Failure {
    match other.map(|other| &other.origin) {
        Some(Origin::Flag(_)) => failure.with_code(crate::exit::Exit::Usage),
        _ => failure,
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

    fn holding(settings: &[(Key, &str)]) -> Result<Timing, Failure> {
        let mut layer = Layer::default();
        for (key, text) in settings {
            layer.flag(*key, Some(&(*text).to_owned()));
        }
        Timing::of(&Settings::of_flags(layer)?)
    }

    #[test]
    fn a_longest_hold_leaves_room_for_the_command_to_die_in() {
        let timing = holding(&[(Key::MaxHold, "2s")]).expect("it fits");
        assert_eq!(timing.grace, Duration::from_millis(500));
        assert_eq!(timing.kill_margin, Duration::from_millis(40));
        assert_eq!(timing.lease(), Duration::from_secs(2));
        let long = holding(&[(Key::MaxHold, "2h")]).expect("it fits");
        assert_eq!((long.grace, long.lease()), (Duration::from_secs(2), Duration::from_secs(30)));
        let failure = holding(&[(Key::MaxHold, "2s"), (Key::Grace, "961ms")]).expect_err("long");
        assert!(failure.message().is_some_and(|text| text.contains("--max-hold")), "{failure}");
        assert!(holding(&[(Key::MaxHold, "2s"), (Key::Grace, "960ms")]).is_ok());
        assert!(holding(&[(Key::MaxHold, "99ms")]).is_err());
        assert!(holding(&[(Key::MaxHold, "1s"), (Key::MinHold, "1001ms")]).is_err());
        assert!(holding(&[(Key::MaxHold, "1s"), (Key::MinHold, "1s")]).is_ok());
    }

    #[test]
    fn term_comes_before_kill_and_kill_before_the_end() {
        let timing = timing("30s", None).expect("it fits");
        let deadline = Moment::from_nanos(100_000_000_000);
        assert_eq!(timing.kill_at(deadline), Moment::from_nanos(99_400_000_000));
        assert_eq!(timing.term_at(deadline), Moment::from_nanos(97_400_000_000));
    }
}
