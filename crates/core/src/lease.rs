//! The state of a lease as its holder knows it.
//!
//! ```text
//!            renewed              renewed
//!          +--------+  failed   +---------+
//!   grant  |        v --------> |         v      at the deadline, or the store says no
//!  -------> Held  <------------ Suspect ----------------------------------> Lost (final)
//!             |     renewed        |
//!             +---- release -------+----> Released (final)
//! ```

use core::{fmt, time::Duration};

use crate::{Drift, Moment, Ttl};

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseState {
    /// Granted, and the last renewal (if any) succeeded.
    Held,
    /// A renewal failed for a reason that may pass. Still valid until the deadline.
    Suspect,
    /// It can't be assumed any more that we hold the lock. Final.
    Lost(LossReason),
    /// Given back. Final.
    Released,
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Validity ended before a renewal succeeded.
    Expired,
    /// The store's record is gone: deleted, evicted, flushed, or lost in a restart.
    Disappeared,
    /// The store says that the lease had ended.
    ExpiredAtStore,
    /// Somebody else holds the lock.
    Taken,
    /// Something that is not ours sits at the key.
    Foreign,
    /// The store's clock stepped forward by more than was left.
    ClockStep,
    /// The client was closed.
    Closed,
    /// The process was forked and this is the copy.
    Forked,
    /// It was held for as long as the holder itself had allowed.
    MaxHold,
    /// The holder did not report progress, so it was not renewed any more.
    NoProgress,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "validity ended before a renewal succeeded",
            Self::Disappeared => "it disappeared from the store (deleted, evicted or flushed)",
            Self::ExpiredAtStore => "the store had let it expire",
            Self::Taken => "somebody else holds the lock now",
            Self::Foreign => "something else was written over it",
            Self::ClockStep => "the clock of the store stepped forward past its end",
            Self::Closed => "the client was closed",
            Self::Forked => "it belongs to the process that was forked",
            Self::MaxHold => "it was held for as long as its hold limit allows",
            Self::NoProgress => "its holder reported no progress, so it was not renewed",
        })
    }
}

/// One lease: its deadline and state. Lost is final, and so is released.
#[derive(Clone, Debug)]
pub struct Lease {
    ttl: Ttl,
    drift: Drift,
    deadline: Moment,
    last_success: Moment,
    /// What the store was last known to grant, and the moment that it is counted from.
    term: Duration,
    since: Moment,
    state: LeaseState,
    /// Validity never goes beyond this.
    limit: Moment,
    /// Renewal was given up since the holder reports no progress.
    stalled: bool,
}

impl Lease {
    /// A lease that was granted: the request was sent at `sent`, and when the store executed it
    /// the lease had `left` to run (its whole ttl, unless the request was a repeated one).
    #[must_use]
    pub fn granted(ttl: Ttl, left: Duration, drift: Drift, sent: Moment) -> Self {
        let deadline = drift.deadline(left, sent);
        let term = left.min(ttl.as_duration());
        Self {
            ttl,
            drift,
            deadline,
            last_success: sent,
            term,
            since: sent,
            state: LeaseState::Held,
            limit: Moment::NEVER,
            stalled: false,
        }
    }

    /// A lease that was handed over while we waited: `left` counts from `sent`, when the last
    /// answered question was sent, and the news of it came at `heard`. It runs for `claim` only,
    /// until it is renewed.
    #[must_use]
    pub fn handed(
        ttl: Ttl,
        claim: Duration,
        left: Duration,
        drift: Drift,
        sent: Moment,
        heard: Moment,
    ) -> Self {
        let term = claim.min(ttl.as_duration());
        Self { term, since: heard, ..Self::granted(ttl, left, drift, sent) }
    }

    /// The same lease, whose validity ends at `limit` at the latest, whatever is renewed: it is
    /// lost by [`LossReason::MaxHold`] then.
    #[must_use]
    pub fn limited(self, limit: Moment) -> Self {
        Self { deadline: self.deadline.min(limit), limit, ..self }
    }

    /// Whether the end of validity, should it come now, is due to a holder that reports no
    /// progress.
    pub fn set_stalled(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// A renewal that was sent at `sent` was answered with `left` to run.
    ///
    /// Returns the state. A success that is answered after the old deadline does not revive the
    /// lease: the caller then releases what the store still has.
    pub fn handle_renewed(&mut self, left: Duration, sent: Moment, now: Moment) -> LeaseState {
        if self.poll_state(now).is_final() {
            return self.state;
        }
        self.deadline = self.deadline.max(self.drift.deadline(left, sent)).min(self.limit);
        self.last_success = self.last_success.max(sent);
        self.since = self.last_success;
        self.term = left.min(self.ttl.as_duration());
        self.state = LeaseState::Held;
        self.state
    }

    /// A renewal failed for a reason that may pass; the deadline stays.
    pub fn handle_renewal_failed(&mut self, now: Moment) -> LeaseState {
        if !self.poll_state(now).is_final() {
            self.state = LeaseState::Suspect;
        }
        self.state
    }

    /// Before a request to shorten is *sent* at `now`: the deadline comes nearer, whatever the
    /// store will answer.
    pub fn handle_shortening(&mut self, ttl: Ttl, now: Moment) {
        self.ttl = ttl;
        self.deadline = self.deadline.min(self.drift.deadline(ttl.as_duration(), now));
    }

    /// The ttl that later renewals ask for.
    pub fn set_ttl(&mut self, ttl: Ttl) {
        self.ttl = ttl;
    }

    /// The lease is known to be lost. That validity ended is told by its cause.
    pub fn handle_lost(&mut self, reason: LossReason) -> LeaseState {
        if !self.state.is_final() {
            let reason = if reason == LossReason::Expired { self.expiry() } else { reason };
            self.state = LeaseState::Lost(reason);
            self.deadline = Moment::START;
        }
        self.state
    }

    /// Before a release is *sent*: validity ends now.
    pub fn handle_releasing(&mut self, now: Moment) -> LeaseState {
        if !self.poll_state(now).is_final() {
            self.state = LeaseState::Released;
            self.deadline = Moment::START;
        }
        self.state
    }

    /// The state at `now`: past the deadline it turns into lost.
    pub fn poll_state(&mut self, now: Moment) -> LeaseState {
        if !self.state.is_final() && now >= self.deadline {
            self.handle_lost(LossReason::Expired);
        }
        self.state
    }

    /// Why the lease is lost when validity ends now.
    #[must_use]
    pub fn expiry(&self) -> LossReason {
        if self.is_at_limit() {
            LossReason::MaxHold
        } else if self.stalled {
            LossReason::NoProgress
        } else {
            LossReason::Expired
        }
    }

    /// Whether no renewal can move the deadline any more.
    #[must_use]
    pub fn is_at_limit(&self) -> bool {
        self.deadline >= self.limit
    }

    /// The state as last seen; [`Lease::poll_state`] looks at the clock too.
    #[must_use]
    pub const fn state(&self) -> LeaseState {
        self.state
    }

    /// When validity ends; the start of the clock once it has.
    #[must_use]
    pub const fn deadline(&self) -> Moment {
        self.deadline
    }

    /// When the last successful acquire or renewal was sent.
    #[must_use]
    pub const fn last_success(&self) -> Moment {
        self.last_success
    }

    /// How long the store was last known to grant, at most the ttl: less after a hand-over.
    #[must_use]
    pub fn term(&self) -> Duration {
        self.term.min(self.ttl.as_duration())
    }

    /// From when renewals are planned.
    #[must_use]
    pub const fn since(&self) -> Moment {
        self.since
    }

    /// The ttl that renewals ask for.
    #[must_use]
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// Whether the holder may act at `now`.
    #[must_use]
    pub fn is_valid(&self, now: Moment) -> bool {
        !self.state.is_final() && now < self.deadline
    }
}

impl LeaseState {
    /// Whether nothing can change it any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Lost(_) | Self::Released)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn lease() -> Lease {
        let ttl = Ttl::from_millis(1_000).expect("a ttl");
        // A rate of zero makes the deadline a round number: 998 ms after sending.
        Lease::granted(ttl, millis(1_000), Drift::DEFAULT.rate_ppm(0), at(0))
    }

    #[test]
    fn it_is_valid_until_the_instant_before_the_deadline() {
        let mut lease = lease();
        assert_eq!(lease.deadline(), at(998));
        assert!(lease.is_valid(Moment::from_nanos(998_000_000 - 1)));
        assert!(!lease.is_valid(at(998)));
        assert_eq!(lease.poll_state(at(998)), LeaseState::Lost(LossReason::Expired));
    }

    #[test]
    fn a_renewal_that_is_answered_too_late_does_not_revive_it() {
        let mut lease = lease();
        let state = lease.handle_renewed(millis(1_000), at(900), at(998));
        assert_eq!(state, LeaseState::Lost(LossReason::Expired));
        assert!(!lease.is_valid(at(998)));
    }

    #[test]
    fn a_renewal_counts_from_its_sending_and_never_moves_the_end_back() {
        let mut lease = lease();
        assert_eq!(lease.handle_renewed(millis(1_000), at(300), at(500)), LeaseState::Held);
        assert_eq!(lease.deadline(), at(1_298));
        lease.handle_renewed(millis(1_000), at(200), at(600));
        assert_eq!(lease.deadline(), at(1_298));
    }

    #[test]
    fn a_failed_renewal_leaves_the_rest_of_the_lease() {
        let mut lease = lease();
        assert_eq!(lease.handle_renewal_failed(at(400)), LeaseState::Suspect);
        assert!(lease.is_valid(at(997)));
        assert_eq!(lease.handle_renewed(millis(1_000), at(500), at(510)), LeaseState::Held);
    }

    #[test]
    fn shortening_counts_before_it_is_sent() {
        let mut lease = lease();
        lease.handle_shortening(Ttl::from_millis(100).expect("a ttl"), at(10));
        assert_eq!(lease.deadline(), at(108));
    }

    #[test]
    fn no_renewal_goes_beyond_the_limit_and_its_end_has_its_own_reason() {
        let mut lease = lease().limited(at(1_500));
        assert!(!lease.is_at_limit());
        lease.handle_renewed(millis(1_000), at(400), at(410));
        assert_eq!((lease.deadline(), lease.is_at_limit()), (at(1_398), false));
        lease.handle_renewed(millis(1_000), at(900), at(910));
        assert_eq!((lease.deadline(), lease.is_at_limit()), (at(1_500), true));
        assert!(lease.is_valid(Moment::from_nanos(1_500_000_000 - 1)));
        assert_eq!(lease.poll_state(at(1_500)), LeaseState::Lost(LossReason::MaxHold));
    }

    #[test]
    fn before_the_limit_the_end_of_validity_is_no_hold_limit() {
        let mut lease = lease().limited(at(1_500));
        assert_eq!(lease.poll_state(at(998)), LeaseState::Lost(LossReason::Expired));
    }

    #[test]
    fn a_lease_that_ends_for_want_of_progress_says_so() {
        let mut lease = lease();
        lease.set_stalled(true);
        assert_eq!(
            lease.handle_lost(LossReason::Expired),
            LeaseState::Lost(LossReason::NoProgress)
        );
        let mut lease = self::lease();
        lease.set_stalled(true);
        // What the store says counts more.
        assert_eq!(lease.handle_lost(LossReason::Taken), LeaseState::Lost(LossReason::Taken));
    }

    #[derive(Clone, Debug)]
    enum Event {
        Renewed(u64),
        Failed,
        Shortened(u64),
        Lost,
        Releasing,
    }

    proptest! {
        #[test]
        fn final_states_stay_and_validity_never_comes_back(
            events in prop::collection::vec(
                (0u64..400, prop_oneof![
                    (0u64..500).prop_map(Event::Renewed),
                    Just(Event::Failed),
                    (10u64..2_000).prop_map(Event::Shortened),
                    Just(Event::Lost),
                    Just(Event::Releasing),
                ]),
                1..30,
            )
        ) {
            let mut lease = lease();
            let mut now = 0;
            let mut was_invalid = false;
            for (step, event) in events {
                now += step;
                let before = lease.poll_state(at(now));
                match event {
                    Event::Renewed(ago) => {
                        lease.handle_renewed(millis(1_000), at(now.saturating_sub(ago)), at(now));
                    }
                    Event::Failed => { lease.handle_renewal_failed(at(now)); }
                    Event::Shortened(ms) => {
                        lease.handle_shortening(Ttl::from_millis(ms).expect("a ttl"), at(now));
                    }
                    Event::Lost => { lease.handle_lost(LossReason::Taken); }
                    Event::Releasing => { lease.handle_releasing(at(now)); }
                }
                if before.is_final() {
                    prop_assert_eq!(lease.poll_state(at(now)), before);
                }
                let valid = lease.is_valid(at(now));
                prop_assert!(!(was_invalid && valid), "validity came back");
                was_invalid |= !valid;
                prop_assert_eq!(valid, !lease.poll_state(at(now)).is_final());
            }
        }
    }
}
