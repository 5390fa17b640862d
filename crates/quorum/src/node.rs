//! One node: a store, what is known of its clock, and whether it was restarted.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fencelock_core::{Incarnation, Moment, StoreOffset, StoreTime};
use fencelock_store::{Clock, Reply, Store, StoreError, StoreResult};

use crate::pace::Pace;

/// A member of the quorum.
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    /// How messages call it.
    pub(crate) at: String,
    clock: Clock,
    quarantine: Duration,
    known: Mutex<Known>,
    /// Of what is given back by itself.
    pub(crate) pace: Pace,
}

#[derive(Default)]
struct Known {
    offset: StoreOffset,
    life: Option<Incarnation>,
    /// When a new life was first seen.
    restarted: Option<Moment>,
}

impl Node {
    pub(crate) fn new(store: Arc<dyn Store>, quarantine: Duration) -> Self {
        let (at, clock) = (store.to_string(), store.clock());
        Self { store, at, clock, quarantine, known: Mutex::default(), pace: Pace::default() }
    }

    /// Waits for an answer and learns from it.
    pub(crate) async fn ask<A>(
        &self,
        call: impl Future<Output = StoreResult<A>>,
    ) -> Result<Reply<A>, StoreError> {
        let sent = self.clock.now();
        let result = call.await;
        if let Ok(reply) = &result {
            self.learn(reply.at, reply.incarnation.as_ref(), sent);
        }
        result
    }

    fn learn(&self, at: Option<StoreTime>, life: Option<&Incarnation>, sent: Moment) {
        let now = self.clock.now();
        let mut known = self.known();
        if let Some(at) = at
            && let Some(step) = known.offset.handle_answer(at, sent, now)
        {
            tracing::warn!(node = %self.at, ?step, "the clock of a node stepped");
        }
        let Some(life) = life else { return };
        if known.life.as_ref() == Some(life) {
            return;
        }
        // The first life that is seen says nothing of an earlier one.
        if known.life.replace(life.clone()).is_some() && !self.quarantine.is_zero() {
            known.restarted = Some(now);
            tracing::warn!(node = %self.at, out_for = ?self.quarantine, "a node was restarted");
        }
    }

    /// The life of the server that answered last, where it says so.
    pub(crate) fn life(&self) -> Option<Incarnation> {
        self.known().life.clone()
    }

    /// The node's own time that will certainly have been reached at `moment`, where it is known.
    pub(crate) fn latest_at(&self, moment: Moment) -> Option<StoreTime> {
        self.known().offset.latest_at(moment)
    }

    /// Why the node may not be asked for a new grant: it may have forgotten leases that still run.
    pub(crate) fn quarantined(&self, now: Moment) -> Option<StoreError> {
        let restarted = self.known().restarted?;
        let since = now.saturating_since(restarted);
        let left = self.quarantine.checked_sub(since).filter(|left| !left.is_zero())?;
        let why =
            format!("restarted {}s ago, counts again in {}s", since.as_secs(), left.as_secs() + 1);
        // It has answered: that is how it is known.
        Some(StoreError::unavailable(why).of_a_part())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing under this lock can panic half way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("at", &self.at).finish_non_exhaustive()
    }
}
