//! What a guard and the keeper share of one lease.
//!
//! Deadline and state are atomics beside the locked [`Lease`], so that `is_valid` costs two loads
//! and a look at the clock, waits for nobody, and works in any thread. After a fork the copy in the
//! child is invalid: the lease belongs to the parent.

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fencelock_core::{
    Binding, Drift, FencingToken, Holder, Lease, LeaseState, LossReason, Metadata, Mode, Moment,
    Names, ReleaseRequest, RenewRequest, RenewalSchedule, Retain, Token, Ttl, min_validity,
};
use fencelock_store::{Clock, rt};

use crate::{
    Renew,
    keeper::Copies,
    line::Turn,
    listening::Routed,
    policy::{Policy, Terms},
    shared::{Shared, Tenure},
    state::{decode, encode},
    telemetry::Meter,
};

/// What of a lease never changes.
pub(crate) struct Fixed {
    pub(crate) names: Names,
    pub(crate) token: Token,
    pub(crate) retain: Retain,
    pub(crate) renewal: Renew,
    /// What it ends with besides its ttl.
    pub(crate) binding: Binding,
    /// The process that was granted it.
    pub(crate) process: u32,
    /// What the holder says of itself.
    pub(crate) metadata: Metadata,
    /// Copies of its request that may still arrive, and until when they matter.
    pub(crate) stray: Option<Stray>,
    /// How long it may be held.
    pub(crate) policy: Policy,
    /// How it lives beside others.
    pub(crate) mode: Mode,
}

/// Copies of a request whose answers were not seen, although another was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stray {
    pub(crate) copies: Copies,
    pub(crate) until: Moment,
}

/// What a grant said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) ttl: Ttl,
    /// What the lease had to run when the store executed the request of `sent`.
    pub(crate) left: Duration,
    pub(crate) sent: Moment,
    pub(crate) answered: Moment,
    /// It was handed over while we waited, for so long.
    pub(crate) claim: Option<Duration>,
    pub(crate) fencing_token: Option<FencingToken>,
    /// The end of the range of fencing tokens that belongs to the lease.
    pub(crate) last_fence: Option<FencingToken>,
    /// Others wait for it at the store.
    pub(crate) waited_for: bool,
}

impl Granted {
    /// Since when it is held: when it was asked for, or heard of.
    pub(crate) fn since(&self) -> Moment {
        if self.claim.is_some() { self.answered } else { self.sent }
    }
}

/// One lease.
pub(crate) struct LeaseCell {
    pub(crate) fixed: Fixed,
    pub(crate) terms: Terms,
    clock: Clock,
    drift: Drift,
    /// For how long the store granted it.
    granted: Duration,
    deadline: AtomicU64,
    state: AtomicU8,
    lease: Mutex<Tracked>,
    /// Where the keeper has it, plus one; zero when it does not.
    pub(crate) slot: AtomicUsize,
    changed: rt::sync::Notify,
    pub(crate) shared: Shared,
    /// Where messages for it arrive.
    pub(crate) route: OnceLock<Routed>,
    /// The turn of its holder in the line of this process. It is not the guard's: a lease that is
    /// lost stalls nobody, however long its guard is kept.
    turn: Mutex<Option<Turn>>,
}

struct Tracked {
    lease: Lease,
    /// When the last renewal was sent, if one was since the last success.
    last_try: Option<Moment>,
    /// When the store ends the lease at the latest, unanswered renewals included.
    store_end: Moment,
    /// How far the store's clock has stepped since the grant, and when the question was sent whose
    /// answer told the last step.
    stepped: Option<(Duration, Moment)>,
}

/// What the answer to a renewal came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The deadline is later now.
    Done,
    /// Validity was over when it arrived; the lease is not lost *yet*: the caller ends it.
    Late,
    /// The lease was over.
    Over,
}

/// How a lease stood when its release began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    WasHeld,
    /// Its validity had ended, and nobody had noticed yet.
    Expired(LossReason),
    WasLost(LossReason),
    WasReleased,
}

/// What the keeper has to do for a lease.
#[derive(Debug)]
pub(crate) enum Step {
    /// Its validity is over.
    Expired,
    /// A renewal is due; it counts as sent, and may take so long.
    Renew(RenewRequest, Duration),
    /// Nothing yet.
    Wait(Look),
    /// Nothing any more.
    Over,
}

/// What the keeper plans by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// When it has to look again: at the end at the latest.
    pub(crate) due: Moment,
    /// When validity ends, as things are.
    pub(crate) end: Moment,
    /// How long the store was last known to grant.
    pub(crate) term: Duration,
    /// How many keys a renewal has.
    pub(crate) keys: usize,
}

impl LeaseCell {
    pub(crate) fn new(fixed: Fixed, grant: Granted, drift: Drift, clock: Clock) -> Self {
        let Granted { ttl, left, sent, answered, .. } = grant;
        let lease = match grant.claim {
            None => Lease::granted(ttl, left, drift, sent),
            Some(claim) => Lease::handed(ttl, claim, left, drift, sent, answered),
        };
        let terms = Terms::new(fixed.policy, grant.since(), answered);
        let lease = lease.limited(terms.limit);
        let granted = grant.claim.unwrap_or(left);
        let store_end = store_end(drift, granted, answered);
        Self {
            fixed,
            terms,
            clock,
            drift,
            granted,
            deadline: AtomicU64::new(lease.deadline().as_nanos()),
            state: AtomicU8::new(encode(lease.state())),
            lease: Mutex::new(Tracked { lease, last_try: None, store_end, stepped: None }),
            slot: AtomicUsize::new(0),
            changed: rt::sync::Notify::new(),
            shared: Shared::new(&grant),
            route: OnceLock::new(),
            turn: Mutex::new(None),
        }
    }

    /// Its holder has the turn, until it ends it or the lease is over.
    pub(crate) fn set_turn(&self, turn: Turn) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
        // Whoever ended the lease meanwhile found none.
        if self.is_over() {
            drop(self.end_turn());
        }
    }

    /// Takes the turn away. Its drop gives it to the next, and runs wakers.
    pub(crate) fn end_turn(&self) -> Option<Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Hands the lease to the next holder in this process, if it may be: a hold of its own, with
    /// the next fencing token. The hold before is over from then on.
    pub(crate) fn pass(&self) -> Option<Tenure> {
        let now = self.clock.now();
        let tracked = self.tracked();
        let lease = &tracked.lease;
        let fit = lease.state() == LeaseState::Held
            && now.saturating_add(min_validity(lease.ttl())) < lease.deadline();
        if !fit || self.is_forked() {
            return None;
        }
        // Under the lock: whoever loses or releases the lease does it before or after, not between.
        self.shared.pass(now, lease.ttl())
    }

    /// Somebody asked for the lease back: tells whoever waits for that. It goes on.
    pub(crate) fn set_revoked(&self) {
        self.shared.set_revoked();
        let wake = AssertUnwindSafe(|| self.changed.notify_waiters());
        let _panicked = panic::catch_unwind(wake);
    }

    /// For how long the store granted it, before any renewal.
    pub(crate) const fn remaining_at_grant(&self) -> Duration {
        self.granted
    }

    /// What an answer to a renewal says besides.
    pub(crate) fn learn(&self, waiting: u32, revoked: bool) {
        if waiting > 0 {
            self.set_waited_for();
        }
        if revoked {
            self.set_revoked();
        }
    }

    /// The lease as another would see it.
    pub(crate) fn as_holder(&self) -> Holder {
        let mut holder = Holder::new(Some(self.validity_left()));
        holder.metadata = self.fixed.metadata.clone();
        holder.fencing_token = self.fencing_token();
        holder
    }

    /// Others wait for it at the store.
    pub(crate) fn set_waited_for(&self) {
        self.shared.set_waited_for();
    }

    fn tracked(&self) -> MutexGuard<'_, Tracked> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the lease, shows the change to the readers of the atomics, wakes who waits for it.
    fn change<T>(&self, change: impl FnOnce(&mut Tracked) -> T) -> T {
        let mut tracked = self.tracked();
        let (state, deadline) = (tracked.lease.state(), tracked.lease.deadline());
        let result = change(&mut tracked);
        let changed = state != tracked.lease.state() || deadline != tracked.lease.deadline();
        if changed {
            debug_assert!(!state.is_final(), "what is over does not change");
            self.deadline.store(tracked.lease.deadline().as_nanos(), Ordering::Release);
            self.state.store(encode(tracked.lease.state()), Ordering::Release);
        }
        let over = changed && tracked.lease.state().is_final();
        drop(tracked);
        if over && self.fixed.mode.kind().is_held() {
            Meter::held(|| self.shared.measured(self.clock.now()));
        }
        if changed {
            // This runs the wakers of whoever waits, which are the user's code: a panic in one
            // must not keep the caller from removing, reporting and giving back the lease.
            let wake = AssertUnwindSafe(|| self.changed.notify_waiters());
            let _panicked = panic::catch_unwind(wake);
        }
        result
    }

    /// A renewal was answered.
    pub(crate) fn renewed(&self, left: Duration, sent: Moment, now: Moment) -> Renewal {
        self.change(|tracked| {
            if tracked.lease.state().is_final() {
                return Renewal::Over;
            }
            // Past the deadline nothing is changed here: whoever ends the lease reports it, too.
            if now >= tracked.lease.deadline() {
                return Renewal::Late;
            }
            tracked.last_try = None;
            // What was sent before a step was noticed may have been carried out before it: it
            // lasts that much shorter, and where that is nothing, the next one is due at once.
            let left = match tracked.stepped {
                Some((by, seen)) if sent < seen => left.saturating_sub(by),
                _ => left,
            };
            if left >= Ttl::MIN.as_duration() {
                tracked.lease.handle_renewed(left, sent, now);
            }
            Renewal::Done
        })
    }

    /// A renewal failed for a reason that may pass.
    pub(crate) fn renewal_failed(&self, now: Moment) {
        self.shared.meter.get().renewal_failed();
        self.change(|tracked| {
            if now < tracked.lease.deadline() {
                tracked.lease.handle_renewal_failed(now);
            }
        });
    }

    /// Later renewals ask for this.
    pub(crate) fn set_ttl(&self, ttl: Ttl) {
        self.change(|tracked| tracked.lease.set_ttl(ttl));
    }

    /// The lease is over. True for the one caller who may say so.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        self.change(|tracked| {
            let first = !tracked.lease.state().is_final();
            tracked.lease.handle_lost(reason);
            first
        })
    }

    /// Ends validity before a release is sent, and says how the lease stood.
    pub(crate) fn releasing(&self) -> Ending {
        let now = self.clock.now();
        self.change(|tracked| match tracked.lease.state() {
            LeaseState::Lost(reason) => Ending::WasLost(reason),
            LeaseState::Released => Ending::WasReleased,
            _ => match tracked.lease.handle_releasing(now) {
                LeaseState::Lost(reason) => Ending::Expired(reason),
                _ => Ending::WasHeld,
            },
        })
    }

    /// The store's clock stepped forward, as an answer at `seen` told: a lease that was last
    /// confirmed before that ends so much earlier. True when nothing is left of it.
    pub(crate) fn clock_stepped(&self, by: Duration, seen: Moment) -> bool {
        let now = self.clock.now();
        self.change(|tracked| {
            let before = tracked.stepped;
            if before.is_some_and(|(_, known)| known >= seen) {
                return false;
            }
            let all = before.map_or(by, |(earlier, _)| by.saturating_add(earlier));
            tracked.stepped = Some((all, seen));
            let lease = &mut tracked.lease;
            if lease.state().is_final() || lease.last_success() >= seen {
                return false;
            }
            let left = lease.deadline().saturating_since(now).saturating_sub(by);
            let Ok(rest) = Ttl::new(left) else { return left < Ttl::MIN.as_duration() };
            if self.drift.validity(rest.as_duration()).is_zero() {
                return true;
            }
            let ttl = lease.ttl();
            lease.handle_shortening(rest, now);
            lease.set_ttl(ttl);
            false
        })
    }

    /// When the keeper has to look at it.
    pub(crate) fn look(&self, schedule: RenewalSchedule) -> Look {
        self.look_at(&self.tracked(), schedule)
    }

    fn look_at(&self, tracked: &Tracked, schedule: RenewalSchedule) -> Look {
        let Tracked { lease, last_try, .. } = tracked;
        let end = lease.deadline();
        let due = match self.fixed.renewal {
            // No renewal would move the end.
            Renew::Auto if lease.is_at_limit() => end,
            // Of the moments at which it may be tried again the first: which it is, the keeper says.
            Renew::Auto => schedule.next(lease, *last_try, u32::MAX).unwrap_or(end).min(end),
            Renew::Manual => end,
        };
        Look { due, end, term: lease.term(), keys: self.fixed.names.len() }
    }

    /// What is to do at `now`. A renewal that is due soon counts as due.
    pub(crate) fn step(&self, schedule: RenewalSchedule, now: Moment) -> Step {
        let mut tracked = self.tracked();
        if tracked.lease.state().is_final() {
            return Step::Over;
        }
        if now >= tracked.lease.deadline() {
            return Step::Expired;
        }
        let look = self.look_at(&tracked, schedule);
        let early = look.term / if tracked.last_try.is_none() { EARLY } else { EARLY_AGAIN };
        let is_due = look.due <= now.saturating_add(early) && look.due < look.end;
        if !is_due || now > schedule.latest_start(&tracked.lease) {
            // Where there is no time left to renew it, only its end is to come.
            let due = if look.due > now { look.due } else { look.end };
            return Step::Wait(Look { due, ..look });
        }
        let stalled = self.terms.check_stalled(now);
        tracked.lease.set_stalled(stalled);
        if stalled {
            // A report of progress wakes the keeper; without one, only the end is to come.
            return Step::Wait(Look { due: look.end, ..look });
        }
        tracked.last_try = Some(now);
        let request = self.request(tracked.lease.ttl(), now);
        let timeout = schedule.timeout_of(&tracked.lease);
        self.prolonged(&mut tracked, request.ttl, now.saturating_add(timeout));
        Step::Renew(request, timeout)
    }

    pub(crate) fn renew_request(&self) -> RenewRequest {
        self.request(self.ttl(), self.clock.now())
    }

    fn request(&self, ttl: Ttl, now: Moment) -> RenewRequest {
        let ttl = self.terms.cut(ttl, self.drift, now);
        let mut request = RenewRequest::new(self.fixed.names.clone(), self.fixed.token, ttl);
        request.retain = self.fixed.retain;
        request.unattended = self.terms.is_unattended();
        request
    }

    /// What of a ttl is worth asking for now.
    pub(crate) fn cut(&self, ttl: Ttl) -> Ttl {
        self.terms.cut(ttl, self.drift, self.clock.now())
    }

    /// Waits until somebody asked for the lease back; for ever, when nobody does.
    pub(crate) async fn revoked(&self) {
        loop {
            let changed = self.changed.notified();
            rt::pin!(changed);
            changed.as_mut().enable();
            if self.shared.is_revoked() {
                return;
            }
            changed.await;
        }
    }

    /// The work got on. True when the keeper has to be woken.
    pub(crate) fn report_progress(&self) -> bool {
        self.terms.report(self.clock.now())
    }

    pub(crate) fn release_request(&self) -> ReleaseRequest {
        let mut request = ReleaseRequest::new(self.fixed.names.clone(), self.fixed.token);
        request.retain = self.fixed.retain;
        request
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.tracked().lease.ttl()
    }

    /// When the store ends the lease at the latest: no clean-up is needed after that.
    pub(crate) fn store_end(&self) -> Moment {
        self.tracked().store_end
    }

    /// A renewal is about to be sent: whether or not it is answered, the store may have prolonged
    /// the lease. False when the lease is over: then it must not be sent, since whoever ended the
    /// lease has read when the store ends it.
    #[must_use]
    pub(crate) fn renewal_sent(&self, ttl: Ttl, by: Moment) -> bool {
        let mut tracked = self.tracked();
        let goes_on = !tracked.lease.state().is_final();
        if goes_on {
            self.prolonged(&mut tracked, ttl, by);
        }
        goes_on
    }

    fn prolonged(&self, tracked: &mut Tracked, ttl: Ttl, by: Moment) {
        let end = store_end(self.drift, ttl.as_duration(), by);
        tracked.store_end = tracked.store_end.max(end);
    }

    /// Whether the holder may act, by the clock alone.
    fn is_valid_at(&self, now: Moment) -> bool {
        now < Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid_at(self.clock.now()) && !self.is_forked()
    }

    pub(crate) fn validity_left(&self) -> Duration {
        if self.is_forked() {
            Duration::ZERO
        } else {
            self.deadline().saturating_since(self.clock.now())
        }
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// The state, looking at the clock too.
    pub(crate) fn state(&self) -> LeaseState {
        let state = decode(self.state.load(Ordering::Acquire));
        if self.is_forked() {
            LeaseState::Lost(LossReason::Forked)
        } else if !state.is_final() && !self.is_valid_at(self.clock.now()) {
            // Read again: between the two loads it may have come to its real end.
            let again = decode(self.state.load(Ordering::Acquire));
            if again.is_final() { again } else { self.state_past_deadline() }
        } else {
            state
        }
    }

    /// Whether it has come to its end, not looking at the clock: nothing changes it any more.
    pub(crate) fn is_over(&self) -> bool {
        decode(self.state.load(Ordering::Acquire)).is_final()
    }

    /// The state when the clock says that validity is over and nobody has noticed yet.
    fn state_past_deadline(&self) -> LeaseState {
        let tracked = self.tracked();
        match tracked.lease.state() {
            state if state.is_final() => state,
            _ => LeaseState::Lost(tracked.lease.expiry()),
        }
    }

    /// Why it was lost, where it was.
    pub(crate) fn loss(&self) -> LossReason {
        match self.state() {
            LeaseState::Lost(reason) => reason,
            _ => LossReason::Expired,
        }
    }

    /// Whether this is a copy in a forked process.
    pub(crate) fn is_forked(&self) -> bool {
        self.fixed.process != rt::process_id()
    }

    /// How long ago its present holder was granted it.
    pub(crate) fn age(&self) -> Duration {
        self.clock.now().saturating_since(self.shared.tenure().since)
    }

    /// The fencing token of its present holder.
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.shared.tenure().fencing_token
    }

    /// Whether this hold is still the one that counts.
    pub(crate) fn is_current(&self, hold: &Tenure) -> bool {
        self.shared.generation() == hold.generation
    }

    /// Waits until the deadline differs from the one that was seen.
    pub(crate) async fn deadline_changed(&self, seen: Moment) -> Moment {
        loop {
            let changed = self.changed.notified();
            rt::pin!(changed);
            // Registered before the look, so that a change in between is not missed.
            changed.as_mut().enable();
            let deadline = self.deadline();
            if deadline != seen {
                return deadline;
            }
            changed.await;
        }
    }

    /// Waits until the lease is lost; for ever, when it is released instead.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let changed = self.changed.notified();
            rt::pin!(changed);
            changed.as_mut().enable();
            // Not by the clock: whoever waits here is woken by the keeper's timer at the deadline.
            if let LeaseState::Lost(reason) = self.state() {
                return reason;
            }
            changed.await;
        }
    }
}

/// The end of a lease that runs for `left` from `answered` at the latest, on a store whose clock
/// may be as slow as the drift allows.
fn store_end(drift: Drift, left: Duration, answered: Moment) -> Moment {
    let allowance = left.saturating_sub(drift.validity(left));
    answered.saturating_add(left).saturating_add(allowance)
}

/// A renewal may be sent early by this part of the term, to go along with others,
const EARLY: u32 = 30;
/// and a try after one that failed by this: what the grain of the keeper's timers may come to.
const EARLY_AGAIN: u32 = 500;

impl fmt::Debug for LeaseCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("names", &self.fixed.names)
            .field("fencing_token", &self.fencing_token())
            .field("state", &self.state())
            .field("validity_left", &self.validity_left())
            .finish()
    }
}
