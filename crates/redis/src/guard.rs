//! The restart guard: a server that restarted may have forgotten leases that still run, so it gives
//! no new ones until the last of them must have ended.
//!
//! ```text
//!   start ............................. start + max_ttl + 1 s ..........
//!   young: no new grants                counts
//!     `-- its marker names this life of it: counts at once
//! ```
//!
//! The marker is the key `!boot` behind the prefix: `run_id|since_us|max_ttl_ms|how`, the life of
//! the server that counts from `since_us` on. `how` says who wrote it: `i` [`seed`](crate::native),
//! else a script, which found no marker (`n`) or that of another life (`r`).
//!
//! Here are the setting, its arithmetic and its words; who waits for the answers of the server is
//! `connection/admission.rs`, and what scripts check is `scripts/native/boot.lua`. Renewals,
//! releases, heals and looks are never refused: they grant nothing that was not granted before.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{Drift, LockName, Moment, Names, RenewRequest, StoreTime, Ttl};
use fencelock_store::{Outcome, StoreError, StoreErrorKind};

use crate::{
    connection::{Again, Answer, Greeting, Order},
    error::{self, Failure},
    reply::Fields,
    script::{Admission, Question, Script},
    wire::Wire,
};

/// Who may be granted something.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) form: Form,
    /// No lease is longer, so that all of them are over when a server counts again.
    pub(crate) max_ttl: Ttl,
    /// The allowance between our clock and those of holders.
    pub(crate) drift: Drift,
    /// Where the marker is.
    pub(crate) marker: Vec<u8>,
}

/// How a server is found to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// It forgets nothing: it always counts.
    Durable,
    /// By its uptime, once on each connection.
    Uptime,
    /// By its marker, in each script that grants.
    Scripts,
}

/// The key of the marker, behind the prefix.
pub(crate) const MARKER: &str = "boot";

/// A server says its uptime in whole seconds, as the difference of two clock readings that were
/// both cut: it may be up to a second less in truth.
const ROUNDING: Duration = Duration::from_secs(1);

/// How long it is before a server counts that has just said this uptime.
pub(crate) fn left(max_ttl: Ttl, uptime: Duration) -> Duration {
    left_after(max_ttl, uptime, Drift::DEFAULT)
}

fn left_after(max_ttl: Ttl, uptime: Duration, drift: Drift) -> Duration {
    let span = max_ttl.as_duration() + ROUNDING;
    // Our clock may run faster than that of a holder.
    drift.longest(span.saturating_sub(uptime))
}

impl Guard {
    /// How long it is before a server counts that said this uptime so long ago.
    pub(crate) fn left(&self, uptime: Duration, ago: Duration) -> Duration {
        left_after(self.max_ttl, uptime, self.drift).saturating_sub(ago)
    }

    /// The error for a server that restarted.
    pub(crate) fn restarted(&self, at: &str, uptime: Duration, left: Duration) -> Failure {
        let ago = uptime.as_secs();
        young(at, &format!("{at} restarted {ago} s ago and counts again in {} s", round_up(left)))
    }

    /// The error for a server that does not say what the guard must know.
    pub(crate) fn unsaid(at: &str) -> Failure {
        let message = format!(
            "{at} does not say how long it has been running, so its restart guard refuses new \
             locks; grant +info"
        );
        Failure { kind: StoreErrorKind::Denied, message, ..error::unreachable(at, "") }
    }

    fn too_long(&self, ttl: Ttl, at: &str) -> StoreError {
        StoreError::unsupported(format!(
            "a ttl of {:?} is more than the {:?} that the restart guard of {at} allows; ask for \
             less, or raise max_ttl everywhere",
            ttl.as_duration(),
            self.max_ttl.as_duration()
        ))
    }
}

fn young(at: &str, what: &str) -> Failure {
    let message = format!("{what}; if it was never used before, run `fencelock init --store {at}`");
    // Refused before anything was sent, or by the script before it wrote.
    Failure { message, is_too_soon: true, ..error::unreachable(at, "") }
}

fn round_up(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// What the marker of a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) since: StoreTime,
    /// The longest lease that it is good for.
    max_ttl: Duration,
}

impl<'a> Marker<'a> {
    /// Reads it; nothing where it is none.
    pub(crate) fn read(raw: &'a [u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(raw).ok()?.split('|');
        let run_id = parts.next().filter(|id| !id.is_empty())?;
        let since = parts.next()?.parse().ok().map(StoreTime::from_micros)?;
        let max_ttl = parts.next()?.parse().ok().map(Duration::from_millis)?;
        Some(Self { run_id, since, max_ttl })
    }

    /// Whether it lets leases of this guard be granted: one for shorter ones was written by somebody
    /// who waited only as long as those may run.
    pub(crate) fn is_good_for(&self, guard: &Guard) -> bool {
        self.max_ttl >= guard.max_ttl.as_duration()
    }
}

/// What the verbs of the native format ask of the guard.
impl Wire {
    fn strict(&self) -> Option<&Guard> {
        self.connections.guard().filter(|guard| guard.form == Form::Scripts)
    }

    /// Refuses a lease that would outlive the guard's patience.
    pub(crate) fn check_ttl(&self, ttl: Ttl) -> Result<(), StoreError> {
        match self.connections.guard() {
            Some(guard) if ttl > guard.max_ttl => Err(self.too_long(ttl, guard)),
            _ => Ok(()),
        }
    }

    /// Takes the leases out of a batch that ask for more than that: the others must not be lost
    /// with them. Nothing where there is none.
    ///
    /// # Errors
    /// All of them ask for more.
    pub(crate) fn bearable(
        &self,
        batch: &[RenewRequest],
    ) -> Result<Option<Vec<RenewRequest>>, StoreError> {
        let Some(guard) = self.connections.guard() else { return Ok(None) };
        let Some(longest) = batch.iter().map(|request| request.ttl).max() else { return Ok(None) };
        if longest <= guard.max_ttl {
            return Ok(None);
        }
        let bearable = batch.iter().filter(|request| request.ttl <= guard.max_ttl);
        match bearable.cloned().collect::<Vec<_>>() {
            none if none.is_empty() => Err(self.too_long(longest, guard)),
            some => Ok(Some(some)),
        }
    }

    fn too_long(&self, ttl: Ttl, guard: &Guard) -> StoreError {
        match self.connections.check_open() {
            Ok(()) => guard.too_long(ttl, self.connections.at()),
            Err(closed) => closed,
        }
    }

    /// What a server says of itself now.
    pub(crate) async fn look_at_server(&self, by: Moment) -> Result<Greeting, StoreError> {
        let mut info = redis::Cmd::with_capacity(2, 16);
        info.arg("INFO").arg("server");
        let mut question = Question::command(info, Again::Harmless, Order::Any);
        let answer = self.ask(&mut question, by).await?;
        match Greeting::read(&answer.value) {
            Some(greeting) if greeting.incarnation.is_some() => Ok(greeting),
            _ => Err(Guard::unsaid(self.connections.at()).into()),
        }
    }

    /// A call of a script that grants: only to a server that counts.
    pub(crate) fn granting(
        &self,
        usual: &'static LazyLock<Script>,
        strict: &'static LazyLock<Script>,
        names: &Names,
        sizes: (usize, usize),
    ) -> Question {
        match self.strict() {
            Some(guard) => {
                self.marked(strict, names.iter(), sizes, guard).admission(Admission::Counted)
            }
            None => self.script(usual, names, sizes.0, sizes.1).admission(Admission::Counted),
        }
    }

    /// A call of a script that may hand a name over: it goes on where nothing is granted, but the
    /// strict form must know whether the server counts.
    pub(crate) fn handing_over<'n>(
        &self,
        usual: &'static LazyLock<Script>,
        strict: &'static LazyLock<Script>,
        names: impl Iterator<Item = &'n LockName> + Clone,
        sizes: (usize, usize),
    ) -> Question {
        match self.strict() {
            Some(guard) => self.marked(strict, names, sizes, guard).admission(Admission::Told),
            None => self.script_on(usual, names, sizes.0, sizes.1),
        }
    }

    /// A call of a script that has the marker as its last key.
    fn marked<'n>(
        &self,
        script: &'static LazyLock<Script>,
        names: impl Iterator<Item = &'n LockName> + Clone,
        sizes: (usize, usize),
        guard: &Guard,
    ) -> Question {
        let keys = names.clone().count() + 1;
        let mut question = Question::script(script, keys, (keys + sizes.0 + 2, sizes.1));
        let mut key = Vec::new();
        for name in names {
            self.keys.write(name, &mut key);
            question.arg(&key);
        }
        question.arg(&guard.marker);
        question
    }

    /// Ends the arguments of such a call: whatever is added behind them says who the server is.
    pub(crate) fn seal(&self, question: &mut Question) {
        if let Some(guard) = self.strict() {
            question.arg(&crate::native::ttl_digits(guard.max_ttl));
        }
    }

    /// What a strict script refused, if it did.
    pub(crate) fn refused_by_guard(&self, answer: &Answer) -> Option<StoreError> {
        self.strict()?;
        let mut fields = Fields::new(&answer.value).ok()?;
        let (now, letter) = (fields.time().ok()?, fields.letter().ok()?);
        let at = self.connections.at();
        match letter {
            b'z' => {
                let left = fields.time().ok()?.saturating_since(now);
                let what = format!(
                    "{at} restarted, or lost its data, and counts again in {} s",
                    round_up(left)
                );
                let outcome = if answer.resent { Outcome::Unknown } else { Outcome::NotDone };
                Some(Failure { outcome, ..young(at, &what) }.into())
            }
            b'm' => Some(StoreError::unsupported(format!(
                "the ttl is more than the {:?} that {at} was initialised for; ask for less, or \
                 raise it with `fencelock init --max-ttl`",
                fields.millis().ok()?
            ))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(max_ttl_ms: u64) -> Guard {
        let max_ttl = Ttl::from_millis(max_ttl_ms).expect("a ttl");
        Guard { form: Form::Uptime, max_ttl, drift: Drift::DEFAULT, marker: Vec::new() }
    }

    #[test]
    fn a_server_counts_a_whole_second_after_the_longest_lease() {
        let guard = guard(60_000);
        let left =
            |uptime, ago_ms| guard.left(Duration::from_secs(uptime), Duration::from_millis(ago_ms));
        assert_eq!(left(61, 0), Duration::ZERO);
        assert_eq!(left(1_000_000, 0), Duration::ZERO);
        // It may have begun a second later than it says.
        assert_eq!(left(60, 0), Duration::from_millis(1_010));
        assert_eq!(left(60, 1_009), Duration::from_millis(1));
        assert_eq!(left(60, 1_010), Duration::ZERO);
        assert_eq!(left(0, 0), Duration::from_millis(61_610));
        let guard = Guard { drift: Drift::DEFAULT.rate_ppm(100_000), ..guard };
        assert_eq!(guard.left(Duration::ZERO, Duration::ZERO), Duration::from_millis(67_100));
    }

    #[test]
    fn the_refusal_says_how_long_and_names_the_way_out() {
        let guard = guard(60_000);
        let failure = guard.restarted(
            "redis://b:6379/0",
            Duration::from_secs(12),
            Duration::from_millis(48_001),
        );
        assert_eq!(
            (failure.kind, failure.outcome),
            (StoreErrorKind::Unavailable, Outcome::NotDone)
        );
        assert_eq!(
            failure.message,
            "redis://b:6379/0 restarted 12 s ago and counts again in 49 s; if it was never used \
             before, run `fencelock init --store redis://b:6379/0`"
        );
    }

    #[test]
    fn a_marker_is_read_and_anything_else_is_none() {
        let marker = Marker::read(b"abc|0000000000000012|00060000|i").expect("a marker");
        assert_eq!((marker.run_id, marker.since.as_micros()), ("abc", 12));
        assert!(marker.is_good_for(&guard(60_000)) && !marker.is_good_for(&guard(60_001)));
        for raw in [&b""[..], b"abc", b"|1|2", b"abc|x|1", b"\xff|1|1"] {
            assert_eq!(Marker::read(raw), None, "{raw:?}");
        }
    }
}
