//! What one client knows and does.

use std::time::Duration;

use fencelock_core::{
    Acquired, Drift, Fence, HandOff, Moment, Released, Renewed, StoreTime, Ttl, min_validity,
};

use super::Fault;

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not asked yet.
    Idle,
    /// It has asked, and has not been granted the lock.
    Waiting,
    /// It holds the lock, until the deadline at the latest.
    Holding {
        /// By its own clock.
        deadline: Moment,
        /// Whether a renewal was answered, or need not be sent.
        claimed: bool,
    },
    /// It gives back what it has.
    Leaving,
    /// It has come to its end.
    Done,
    /// It is dead.
    Dead,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To be granted the lock or a place.
    Ask,
    /// To prolong the lease.
    Claim,
    /// To take the lease or the place back.
    GiveBack,
}

/// A request, with the attempt that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub verb: Verb,
    /// Of which attempt.
    pub attempt: u8,
}

/// An answer of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// To a question, and when the store executed it.
    Acquired(Acquired, StoreTime),
    /// To a claim.
    Renewed(Renewed),
    /// To a release.
    Released(Released),
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its own clock.
    pub clock: Moment,
    /// What it does.
    pub phase: Phase,
    /// Which token it uses.
    pub attempt: u8,
    /// The request whose answer it waits for, and when that was sent.
    pub pending: Option<(Request, Moment)>,
    /// The store's time of the last answered question, and when that was sent.
    pub place: Option<(StoreTime, Moment)>,
    /// When the last question was sent; only for a fault.
    pub last_asked: Moment,
    /// When it asks again.
    pub timer: Option<Moment>,
    /// It acts on a message alone.
    pub started_by_message: bool,
}

impl Client {
    /// One tick of the store by an exact clock.
    pub const TICK: Duration = Duration::from_secs(1);
    /// How long it waits for an answer, by its own clock: request and answer take a tick at most.
    const PATIENCE: Duration = Duration::from_secs(2);
    /// How often a waiter says that it is there.
    const HEART_BEAT: Duration = Duration::from_secs(2);

    /// A client that has not asked yet.
    pub(super) fn new() -> Self {
        Self {
            clock: Moment::START.saturating_add(Duration::from_secs(1_000)),
            phase: Phase::Idle,
            attempt: 0,
            pending: None,
            place: None,
            last_asked: Moment::START,
            timer: None,
            started_by_message: false,
        }
    }

    /// Slow clocks lose a quarter: a rate of one to three quarters is a third more.
    pub(super) fn drift() -> Drift {
        Drift::DEFAULT.rate_ppm(333_334)
    }

    /// Whether nothing is to come.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Dead)
    }

    /// Whether it thinks that it may act.
    pub fn is_valid(&self) -> bool {
        matches!(self.phase, Phase::Holding { deadline, .. } if self.clock < deadline)
    }

    pub(super) fn may_ask(&self) -> bool {
        match self.phase {
            Phase::Idle => true,
            Phase::Waiting => {
                self.pending.is_none() && self.timer.is_some_and(|timer| timer <= self.clock)
            }
            _ => false,
        }
    }

    pub(super) fn may_claim(&self) -> bool {
        matches!(self.phase, Phase::Holding { claimed: false, .. })
            && self.pending.is_none()
            && self.is_valid()
    }

    pub(super) fn has_timed_out(&self) -> bool {
        self.pending.is_some_and(|(_, sent)| sent.saturating_add(Self::PATIENCE) <= self.clock)
    }

    /// Whether time must not pass before it has done something.
    pub(super) fn is_urgent(&self) -> bool {
        let over = matches!(self.phase, Phase::Holding { .. }) && !self.is_valid();
        let asks = self.phase == Phase::Waiting && self.may_ask();
        over || asks || self.has_timed_out() || self.may_claim()
    }

    /// Sends a request, and says which.
    pub(super) fn send(&mut self, verb: Verb) -> Request {
        let request = Request { verb, attempt: self.attempt };
        if verb == Verb::Ask {
            self.phase = Phase::Waiting;
            self.last_asked = self.clock;
            self.timer = None;
        }
        if verb == Verb::GiveBack {
            // It stops first, and sends then.
            self.phase = Phase::Leaving;
            (self.timer, self.place, self.started_by_message) = (None, None, false);
        }
        self.pending = Some((request, self.clock));
        request
    }

    /// No answer came: it asks again, or leaves the rest to the end of the lease.
    pub(super) fn handle_time_out(&mut self, attempts: u8) {
        let Some((request, _)) = self.pending.take() else { return };
        match (request.verb, self.phase) {
            (Verb::Ask, Phase::Waiting) => self.timer = Some(self.clock),
            (Verb::GiveBack, _) => self.begin_again(attempts),
            _ => {}
        }
    }

    /// Says with which fencing token it begins to act, if it does.
    pub(super) fn handle_reply(
        &mut self,
        reply: Reply,
        attempts: u8,
        fault: Option<Fault>,
    ) -> Option<u64> {
        let (_, sent) = self.pending.take()?;
        let counted = if fault == Some(Fault::ValidityFromReply) { self.clock } else { sent };
        match (reply, self.phase) {
            (Reply::Acquired(Acquired::Granted(grant), _), Phase::Waiting) => {
                let deadline = Self::drift().deadline(grant.remaining, counted);
                let Fence::Token(fence) = grant.fence else { return None };
                // What was handed over runs for the claim only.
                let claimed = grant.remaining >= ttl().as_duration();
                if self.start(deadline, claimed) {
                    return Some(fence.as_u64());
                }
                // Too late: it is given back.
                self.timer = None;
                self.phase = Phase::Holding { deadline: self.clock, claimed: true };
                None
            }
            // It was started by a message meanwhile.
            (
                Reply::Acquired(Acquired::Granted(grant), _),
                Phase::Holding { deadline, claimed },
            ) if self.is_valid() => {
                let later = Self::drift().deadline(grant.remaining, counted);
                self.phase = Phase::Holding { deadline: deadline.max(later), claimed };
                None
            }
            (Reply::Acquired(Acquired::Queued(queued), at), Phase::Waiting) => {
                self.place = Some((at, sent));
                let left = queued.busy.holder.remaining.unwrap_or(Self::HEART_BEAT);
                if fault != Some(Fault::NoTimer) {
                    let pause = left.min(Self::HEART_BEAT);
                    self.timer = Some(self.clock.saturating_add(pause));
                }
                None
            }
            (Reply::Acquired(Acquired::Refused(_), _), Phase::Waiting) => {
                self.begin_again(attempts);
                None
            }
            (Reply::Renewed(Renewed::Extended { remaining, .. }), Phase::Holding { deadline, .. })
                // Lost is final: an answer after the deadline revives nothing.
                if self.is_valid() =>
            {
                let later = Self::drift().deadline(remaining, counted);
                self.phase = Phase::Holding { deadline: deadline.max(later), claimed: true };
                None
            }
            (Reply::Renewed(Renewed::NotHeld(_)), Phase::Holding { .. }) => {
                self.begin_again(attempts);
                None
            }
            (Reply::Released(_), Phase::Leaving) => {
                self.begin_again(attempts);
                None
            }
            _ => None,
        }
    }

    /// A hand-over was told. If it answers the very question whose answer is known here, validity
    /// counts from the sending of that question; else it is a hint to ask. Says with which fencing
    /// token it begins to act, if it does.
    pub(super) fn handle_message(
        &mut self,
        hand_off: &HandOff,
        fault: Option<Fault>,
    ) -> Option<u64> {
        if self.phase != Phase::Waiting {
            return None;
        }
        let span = |seen: StoreTime| hand_off.at.saturating_since(seen) + hand_off.claim;
        let deadline = match (fault, self.place) {
            (Some(Fault::ValidityFromMessage), _) => {
                Some(Self::drift().deadline(hand_off.claim, self.clock))
            }
            (Some(Fault::AnyQuestion), _) => {
                Some(Self::drift().deadline(span(hand_off.seen), self.last_asked))
            }
            (_, Some((seen, sent))) if seen == hand_off.seen => {
                Some(Self::drift().deadline(span(seen), sent))
            }
            _ => None,
        };
        if let Some(deadline) = deadline
            && self.start(deadline, false)
        {
            self.started_by_message = true;
            return hand_off.fencing_token.map(|token| token.as_u64());
        }
        if self.pending.is_none() {
            self.timer = Some(self.clock);
        }
        None
    }

    /// Begins to act, if that is worth it.
    fn start(&mut self, deadline: Moment, claimed: bool) -> bool {
        if self.clock.saturating_add(min_validity(ttl())) >= deadline {
            return false;
        }
        self.phase = Phase::Holding { deadline, claimed };
        (self.timer, self.place) = (None, None);
        true
    }

    /// With a fresh token, if there is one.
    fn begin_again(&mut self, attempts: u8) {
        (self.timer, self.place, self.started_by_message) = (None, None, false);
        if self.attempt + 1 < attempts {
            self.attempt += 1;
            self.phase = Phase::Idle;
        } else {
            self.phase = Phase::Done;
        }
    }
}

/// How long a lease runs unless renewed.
pub(super) fn ttl() -> Ttl {
    Ttl::new(Client::TICK * 6).expect("a ttl within the limits")
}

/// How long a lease runs that is handed over.
pub(super) fn claim() -> Ttl {
    Ttl::new(Client::TICK * 4).expect("a ttl within the limits")
}
