//! One lease, held by several tasks of this process one after the other.
//!
//! ```text
//!   lease at the store   |==================== renewed ====================|
//!   range of fences      | 100 ........................ 163 | 164 ......    |
//!   holds                | A: 100 | B: 101 | C: 102 | ...
//! ```
//! A pass needs nobody outside: the next fencing token comes from the range that was minted with
//! the lease, and the deadline is the lease's own. How often and for how long the lease may stay in
//! one process is bounded, so that those who wait at the store have their turn.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fencelock_core::{AcquireRequest, FencingToken, Moment, Ttl};

use crate::{
    cell::Granted,
    line::FIRST_RANGE,
    telemetry::{Meter, MeterCell},
};

/// Passes in a row while others wait at the store.
const MOST_PASSES: u32 = 32;
/// How long a process keeps a lease for itself while others wait at the store.
const LONGEST_TURN: Duration = Duration::from_millis(20);
const LARGEST_RANGE: u32 = AcquireRequest::MAX_RESERVE;

/// One grant of a lease to one holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenure {
    pub(crate) fencing_token: Option<FencingToken>,
    /// When it was asked for, or passed on.
    pub(crate) since: Moment,
    pub(crate) generation: u64,
}

/// What the holders of one lease share.
pub(crate) struct Shared {
    generation: AtomicU64,
    waited_for: AtomicBool,
    revoked: AtomicBool,
    private: AtomicBool,
    /// Whose hold it is, as it is measured.
    pub(crate) meter: MeterCell,
    state: Mutex<State>,
}

struct State {
    tenure: Tenure,
    last_fence: Option<FencingToken>,
    passes: u32,
    /// Since when this process has the lease.
    turn_began: Moment,
    /// How large the next range is; nothing while one is being fetched.
    next_range: Option<u32>,
    range: u32,
}

impl Shared {
    pub(crate) fn new(grant: &Granted) -> Self {
        let tenure =
            Tenure { fencing_token: grant.fencing_token, since: grant.since(), generation: 0 };
        let bounds = grant.fencing_token.zip(grant.last_fence);
        let range = bounds.map_or(0, |(own, last)| last.as_u64().saturating_sub(own.as_u64()));
        let range = u32::try_from(range).unwrap_or(LARGEST_RANGE);
        let state = State {
            tenure,
            last_fence: grant.last_fence,
            passes: 0,
            turn_began: grant.answered,
            next_range: Some(range.saturating_mul(2).clamp(FIRST_RANGE, LARGEST_RANGE)),
            range,
        };
        Self {
            generation: AtomicU64::new(0),
            waited_for: AtomicBool::new(grant.waited_for),
            revoked: AtomicBool::new(false),
            private: AtomicBool::new(false),
            meter: MeterCell::new(),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tenure(&self) -> Tenure {
        self.state().tenure
    }

    /// Whose hold it is, and since how long.
    pub(crate) fn measured(&self, now: Moment) -> (Meter, Duration) {
        (self.meter.get(), now.saturating_since(self.tenure().since))
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Others wait at the store: from now on the turn is bounded tightly.
    pub(crate) fn set_waited_for(&self) {
        self.waited_for.store(true, Ordering::Release);
    }

    pub(crate) fn set_revoked(&self) {
        self.revoked.store(true, Ordering::Release);
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// The token of the lease got out: whoever has it can end the lease, so it is never passed on.
    pub(crate) fn set_private(&self) {
        self.private.store(true, Ordering::Release);
    }

    /// The next hold, within the bounds.
    pub(crate) fn pass(&self, now: Moment, ttl: Ttl) -> Option<Tenure> {
        let ended = [&self.private, &self.revoked].into_iter().any(|b| b.load(Ordering::Acquire));
        let mut state = self.state();
        let turn = now.saturating_since(state.turn_began);
        let within = if self.waited_for.load(Ordering::Acquire) {
            state.passes < MOST_PASSES && turn < LONGEST_TURN.min(ttl.as_duration() / 2)
        } else {
            turn < ttl.as_duration() / 2
        };
        let next = state.tenure.fencing_token.and_then(FencingToken::next);
        let next = next.filter(|next| state.last_fence.is_some_and(|last| *next <= last));
        if ended || !within || next.is_none() {
            return None;
        }
        state.passes += 1;
        let generation = state.tenure.generation + 1;
        state.tenure = Tenure { fencing_token: next, since: now, generation };
        self.generation.store(generation, Ordering::Release);
        Some(state.tenure)
    }

    /// How often the lease was passed on.
    pub(crate) fn passes(&self) -> u32 {
        self.state().passes
    }

    /// Whether no fencing token is left for another holder.
    pub(crate) fn is_used_up(&self) -> bool {
        let state = self.state();
        state.last_fence.is_none_or(|last| Some(last) <= state.tenure.fencing_token)
    }

    /// How many more fencing tokens to ask for, when half of them are used and nobody asks yet:
    /// whoever is told asks, and then says [`Shared::widened`].
    pub(crate) fn wants_range(&self) -> Option<u32> {
        let mut state = self.state();
        let own = state.tenure.fencing_token?.as_u64();
        let left = state.last_fence.map_or(0, |last| last.as_u64().saturating_sub(own));
        if left > u64::from(state.range) / 2 {
            return None;
        }
        state.next_range.take()
    }

    /// The store gave a larger range (or did not).
    pub(crate) fn widened(&self, asked: u32, last: Option<FencingToken>) {
        let mut state = self.state();
        let grown = last > state.last_fence;
        state.last_fence = state.last_fence.max(last);
        state.range = if grown { asked } else { state.range };
        let next = if grown { asked.saturating_mul(2).min(LARGEST_RANGE) } else { asked };
        state.next_range = Some(next);
    }
}
