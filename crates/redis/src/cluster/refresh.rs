//! How a cluster's map is got, the first time and when it is out of date, and how often at most.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use fencelock_core::Moment;
use fencelock_store::{Clock, StoreError, rt};
use redis::Cmd;

use super::{
    Shared,
    map::{Address, SlotMap},
    nodes::Node,
    route::Route,
};
use crate::{
    connection::{Again, NoAnswer, Order},
    error,
    script::{Believed, Question},
};

/// When the last look was.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Moment>);

impl Pace {
    /// The shortest time between two looks of one store: a cluster in trouble is not made better by
    /// its clients' questions, and a failover takes seconds.
    const BETWEEN: Duration = Duration::from_millis(100);

    /// Whether it is time for another one; whoever hears so does it.
    fn is_due(&self, now: Moment) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = *last == Moment::START || now.saturating_since(*last) >= Self::BETWEEN;
        if is_due {
            *last = now;
        }
        is_due
    }
}

impl Shared {
    /// How long one server is given to say what it knows, before another is asked.
    const SAID_WITHIN: Duration = Duration::from_millis(500);

    /// Gets the first map.
    ///
    /// # Errors
    /// Nobody could be asked: what the last one said.
    pub(super) async fn load(&self, clock: &Clock, by: Moment) -> Result<(), StoreError> {
        let mut last = None;
        for node in self.nodes.candidates(None, rt::chance()) {
            match self.slots_of(&node, clock, by).await {
                Ok(map) => {
                    self.learn(map);
                    return Ok(());
                }
                Err(error) => last = Some(error),
            }
            if clock.now() >= by {
                break;
            }
        }
        Err(last.unwrap_or_else(|| error::overdue(&self.at, false)))
    }

    /// Gets a new map, if it is time for one, from `first` if it answers, and not from `failed`
    /// while others do.
    pub(super) async fn refresh(
        &self,
        first: Option<&Address>,
        failed: Option<&Address>,
        clock: &Clock,
        by: Moment,
    ) {
        if !self.pace.is_due(clock.now()) {
            return;
        }
        let mut candidates = self.nodes.candidates(first, rt::chance());
        candidates.sort_by_key(|node| Some(&node.address) == failed);
        for node in candidates {
            match Box::pin(self.slots_of(&node, clock, by)).await {
                Ok(map) => return self.learn(map),
                Err(error) => {
                    tracing::debug!(asked = %node.address, %error, "no map of the cluster");
                }
            }
            if clock.now() >= by {
                return;
            }
        }
    }

    /// The same in the background, for who has no time to wait for it.
    pub(super) fn look_anew(self: &Arc<Self>, first: Option<&Address>) {
        let (shared, first) = (Arc::clone(self), first.map(Arc::clone));
        rt::try_spawn(async move {
            let clock = Clock::Boottime;
            let by = clock.now().saturating_add(Self::SAID_WITHIN * 4);
            shared.refresh(first.as_ref(), None, &clock, by).await;
        });
    }

    /// A server said who serves a slot; there may be more that it did not say.
    pub(super) fn moved(self: &Arc<Self>, slot: u16, to: &Address) {
        self.map.write().unwrap_or_else(PoisonError::into_inner).moved(slot, Arc::clone(to));
        self.look_anew(Some(to));
    }

    fn learn(&self, map: SlotMap) {
        let primaries: HashSet<Address> = map.primaries().into_values().collect();
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
        self.nodes.keep(&primaries);
        self.is_known.store(true, Ordering::Release);
    }

    async fn slots_of(
        &self,
        node: &Node,
        clock: &Clock,
        by: Moment,
    ) -> Result<SlotMap, StoreError> {
        let mut command = Cmd::with_capacity(2, 16);
        command.arg("CLUSTER").arg("SLOTS");
        let mut question = Question::command(command, Again::Harmless, Order::Any);
        question.route = Route::Server(Arc::clone(&node.address));
        // A replica knows as well as a primary: after a failover it may be all that a URL names.
        question.believed = Believed::Anybody;
        let by = by.min(clock.now().saturating_add(Self::SAID_WITHIN));
        match node.requests.answer(&mut question, clock, by).await {
            Ok(answer) => SlotMap::read(&answer.value, &node.address)
                .map_err(|odd| error::odd(node.requests.at(), odd.0).into()),
            Err(NoAnswer::Failed(failure))
                if failure.cause.contains("cluster support disabled") =>
            {
                Err(error::no_cluster(node.requests.at()).into())
            }
            Err(refused) => Err(refused.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_no_closer_than_their_bound() {
        let pace = Pace::default();
        let start = Moment::START.saturating_add(Duration::from_secs(7));
        assert!(pace.is_due(start));
        assert!(!pace.is_due(start.saturating_add(Duration::from_millis(99))));
        assert!(pace.is_due(start.saturating_add(Duration::from_millis(100))));
        assert!(!pace.is_due(start.saturating_add(Duration::from_millis(101))));
    }
}
