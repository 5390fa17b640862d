//! What one client knows and does.

use std::time::Duration;

use fencelock_core::{
    Acquired, Downgraded, Fence, HandOff, Mode, Released, StoreTime, Ttl, Wakeup,
};

use super::{Fault, Wish};

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not asked yet.
    Idle,
    /// It has asked, and has not been granted anything.
    Waiting,
    /// It holds the name, until the deadline at the latest.
    Holding {
        /// By the clock that all have in common.
        deadline: StoreTime,
        /// Beside other readers.
        reads: bool,
    },
    /// It has stopped to write, and does not read yet.
    Between {
        /// When its lease is over.
        deadline: StoreTime,
    },
    /// It gives back what it has.
    Leaving,
    /// It has come to its end.
    Done,
    /// It is dead.
    Dead,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// To be granted a lease or a place.
    Ask,
    /// To make the lease of a writer one of a reader.
    Downgrade,
    /// To take the lease or the place back.
    GiveBack,
}

/// An answer of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// To a question, and when the store executed it.
    Acquired(Acquired, StoreTime),
    /// To a downgrade.
    Downgraded(Downgraded),
    /// To a release.
    Released(Released),
}

/// One client. It uses one token.
#[derive(Clone, Debug)]
pub struct Client {
    /// What it wants.
    pub wish: Wish,
    /// What it does.
    pub phase: Phase,
    /// The request whose answer it waits for, and when that was sent.
    pub pending: Option<(Verb, StoreTime)>,
    /// The store's time of the last answered question, and when that was sent.
    pub place: Option<(StoreTime, StoreTime)>,
    /// When it asks again.
    pub timer: Option<StoreTime>,
    /// It acts on a message alone.
    pub started_by_message: bool,
}

impl Client {
    /// One tick.
    pub const TICK: Duration = Duration::from_secs(1);
    /// How often a waiter says that it is there, in ticks.
    pub(super) const HEART_BEAT: Duration = Duration::from_secs(2);

    pub(super) fn new(wish: Wish) -> Self {
        Self {
            wish,
            phase: Phase::Idle,
            pending: None,
            place: None,
            timer: None,
            started_by_message: false,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        match self.wish {
            Wish::Read => Mode::Shared,
            Wish::Write | Wish::WriteThenRead => Mode::Exclusive,
        }
    }

    /// Whether nothing is to come.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Dead)
    }

    pub(super) fn reads(&self, now: StoreTime) -> bool {
        matches!(self.phase, Phase::Holding { deadline, reads: true } if now < deadline)
    }

    pub(super) fn writes(&self, now: StoreTime, fault: Option<Fault>) -> bool {
        match self.phase {
            Phase::Holding { deadline, reads: false } => now < deadline,
            Phase::Between { deadline } => fault == Some(Fault::WritesOn) && now < deadline,
            _ => false,
        }
    }

    pub(super) fn may_ask(&self, now: StoreTime) -> bool {
        match self.phase {
            Phase::Idle => true,
            Phase::Waiting => {
                self.pending.is_none() && self.timer.is_some_and(|timer| timer <= now)
            }
            _ => false,
        }
    }

    pub(super) fn may_downgrade(&self, now: StoreTime) -> bool {
        let writes =
            matches!(self.phase, Phase::Holding { deadline, reads: false } if now < deadline);
        writes && self.wish == Wish::WriteThenRead && self.pending.is_none()
    }

    /// Whether its lease is over, and it still has to give it back.
    pub(super) fn is_late(&self, now: StoreTime) -> bool {
        match self.phase {
            Phase::Holding { deadline, .. } | Phase::Between { deadline } => deadline <= now,
            _ => false,
        }
    }

    /// Sends a request.
    pub(super) fn send(&mut self, verb: Verb, now: StoreTime) {
        match (verb, self.phase) {
            (Verb::Ask, _) => {
                self.phase = Phase::Waiting;
                self.timer = None;
            }
            (Verb::Downgrade, Phase::Holding { deadline, .. }) => {
                // The right to write ends first.
                self.phase = Phase::Between { deadline };
            }
            _ => {
                self.phase = Phase::Leaving;
                (self.timer, self.place, self.started_by_message) = (None, None, false);
            }
        }
        self.pending = Some((verb, now));
    }

    /// No answer comes: it asks again, or leaves the rest to the end of the lease.
    pub(super) fn handle_time_out(&mut self, now: StoreTime) {
        let Some((verb, _)) = self.pending.take() else { return };
        match (verb, self.phase) {
            (Verb::Ask, Phase::Waiting) => self.timer = Some(now),
            (Verb::GiveBack, _) => self.phase = Phase::Done,
            _ => {}
        }
    }

    /// Says with which number it begins to act, if it does.
    pub(super) fn handle_reply(
        &mut self,
        reply: Reply,
        now: StoreTime,
        fault: Option<Fault>,
    ) -> Option<u64> {
        let (_, sent) = self.pending.take()?;
        match (reply, self.phase) {
            (Reply::Acquired(Acquired::Granted(grant), _), Phase::Waiting) => {
                let Fence::Token(fence) = grant.fence else { return None };
                let deadline = sent.saturating_add(grant.remaining);
                self.start(deadline);
                self.is_valid(now).then(|| fence.as_u64())
            }
            (Reply::Acquired(Acquired::Queued(queued), at), Phase::Waiting) => {
                self.place = Some((at, sent));
                let left = queued.busy.holder.remaining.unwrap_or(Self::HEART_BEAT);
                if fault != Some(Fault::NoTimer) {
                    self.timer = Some(now.saturating_add(left.min(Self::HEART_BEAT)));
                }
                None
            }
            // What it was handed ran out, or is not to be had with this token.
            (Reply::Acquired(Acquired::Refused(_), _), Phase::Waiting) => {
                self.phase = Phase::Done;
                None
            }
            (Reply::Downgraded(Downgraded::Shared { .. }), Phase::Between { deadline }) => {
                self.phase = Phase::Holding { deadline, reads: true };
                None
            }
            (Reply::Downgraded(_), Phase::Between { .. })
            | (Reply::Released(_), Phase::Leaving) => {
                self.phase = Phase::Done;
                None
            }
            _ => None,
        }
    }

    /// A message came. A hand-over that answers the very question whose answer is known here starts
    /// it; all else is a hint to ask.
    pub(super) fn handle_message(&mut self, wakeup: Wakeup, now: StoreTime) -> Option<u64> {
        if self.phase != Phase::Waiting {
            return None;
        }
        if let (Wakeup::Granted(hand_off), Some((seen, sent))) = (wakeup, self.place)
            && seen == hand_off.seen
        {
            self.start(sent.saturating_add(span(&hand_off)));
            if self.is_valid(now) {
                self.started_by_message = true;
                return hand_off.fencing_token.map(|token| token.as_u64());
            }
            return None;
        }
        if self.pending.is_none() {
            self.timer = Some(now);
        }
        None
    }

    fn is_valid(&self, now: StoreTime) -> bool {
        self.reads(now) || self.writes(now, None)
    }

    fn start(&mut self, deadline: StoreTime) {
        let reads = self.wish == Wish::Read;
        self.phase = Phase::Holding { deadline, reads };
        (self.timer, self.place) = (None, None);
    }
}

fn span(hand_off: &HandOff) -> Duration {
    hand_off.at.saturating_since(hand_off.seen) + hand_off.claim
}

/// How long a lease runs.
pub(super) fn ttl() -> Ttl {
    Ttl::new(Client::TICK * 2).expect("a ttl within the limits")
}

/// How long a lease runs that is handed over.
pub(super) fn claim() -> Ttl {
    Ttl::new(Client::TICK).expect("a ttl within the limits")
}

/// How long a place outlives the last word of its waiter.
pub(super) const LIVE: Duration = Duration::from_secs(6);
