//! Who listens to a cluster: for each listener one sharded channel in every slot that it uses.
//!
//! ```text
//!   listen --> a listener, with a first channel: rights and the server's age are known then
//!   a request names it, in a slot where it has no channel yet
//!          --> SSUBSCRIBE at the slot's primary, confirmed --> the request
//!   a connection ends, or a slot moves away (sunsubscribe) --> the whole listener is broken, once
//! ```
//! A listener that is broken is made anew by whoever has it, and every place is asked for again.
//! Slots are at most 16,384, so that is the bound of channels for each listener. A request that has
//! to wait for its channel may be overtaken by later ones; that is once for each slot.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock_core::{ListenerId, Moment};
use fencelock_store::{Clock, StoreError, rt};

use super::{Cluster, redirect::Redirect, route::Route, slot::slot_of};
use crate::{
    connection::{Channels, Ear, Hearer, NoAnswer},
    keys::KeyMapping,
};

/// Those of one store.
#[derive(Default)]
pub(crate) struct Listeners(Arc<Mutex<HashMap<ListenerId, Arc<One>>>>);

/// One listener.
struct One {
    hearer: Arc<Once>,
    channels: Mutex<HashMap<u16, Ear>>,
    /// Whoever makes a channel: two of the same would end each other.
    turn: rt::sync::Mutex<()>,
}

/// A listener, which ends with it.
pub(crate) struct Listener {
    pub(crate) id: ListenerId,
    all: Arc<Mutex<HashMap<ListenerId, Arc<One>>>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let one = lock(&self.all).remove(&self.id);
        // Its channels end outside of the lock.
        drop(one);
    }
}

impl Cluster {
    /// How long a request waits for its channel, before it goes out without.
    const CHANNEL_WITHIN: Duration = Duration::from_millis(500);

    /// Begins to listen.
    pub(crate) async fn listen(
        &self,
        keys: &KeyMapping,
        hearer: Arc<dyn Hearer>,
        clock: &Clock,
        by: Moment,
    ) -> Result<Listener, StoreError> {
        let id = rt::fresh_listener();
        let hearer = Arc::new(Once { hearer, was_broken: AtomicBool::new(false) });
        let one =
            Arc::new(One { hearer, channels: Mutex::default(), turn: rt::sync::Mutex::new(()) });
        lock(&self.listeners.0).insert(id, Arc::clone(&one));
        let listener = Listener { id, all: Arc::clone(&self.listeners.0) };
        let primaries = Box::pin(self.primaries(clock, by)).await?;
        // There is one: a map without any is refused.
        let slot = primaries.into_keys().next().unwrap_or_default();
        Box::pin(self.channel(&one, keys, (id, slot), clock, by)).await?;
        Ok(listener)
    }

    /// Has a listener hear what is told in a slot. Where that can't be had it is broken: a message
    /// that never comes must not be waited for.
    pub(crate) async fn attend(
        &self,
        keys: &KeyMapping,
        id: ListenerId,
        slot: u16,
        clock: &Clock,
        by: Moment,
    ) {
        let Some(one) = lock(&self.listeners.0).get(&id).map(Arc::clone) else { return };
        if one.has(slot) {
            return;
        }
        let by = by.min(clock.now().saturating_add(Self::CHANNEL_WITHIN));
        let made = clock.until(by, async {
            let _turn = one.turn.lock().await;
            if one.has(slot) {
                return Ok(());
            }
            self.channel(&one, keys, (id, slot), clock, by).await
        });
        match made.await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::debug!(store = self.at(), %error, "no channel for a slot");
                one.hearer.broken();
            }
            None => one.hearer.broken(),
        }
    }

    /// Begins to hear what others say, on a channel that is said by its slot's primary. Where the map
    /// was out of date, it is not any more, and the next try comes with the next question.
    pub(crate) async fn hear(
        &self,
        (kind, channel): (Channels, &[u8]),
        route: &Route,
        hearer: Arc<dyn Hearer>,
        clock: &Clock,
        by: Moment,
    ) -> Result<Ear, StoreError> {
        let node = self.primary(route, clock, by).await?;
        match node.ears.hear(kind, channel, hearer, clock, by).await {
            Ok(ear) => Ok(ear),
            Err(refused) => {
                self.shared.refresh(None, Some(&node.address), clock, by).await;
                Err(StoreError::from(refused))
            }
        }
    }

    async fn channel(
        &self,
        one: &One,
        keys: &KeyMapping,
        (id, slot): (ListenerId, u16),
        clock: &Clock,
        by: Moment,
    ) -> Result<(), StoreError> {
        /// A map that is out of date is mended by the first refusal, and a slot may be moving on.
        const TRIES: usize = 3;
        let channel = keys.channel(Some(slot), id);
        // Not always that of the tag: a prefix may have one of its own, and then all are there.
        let route = Route::Slot(slot_of(&channel));
        let mut failed = None;
        for _ in 0..TRIES {
            let node = self.primary(&route, clock, by).await?;
            let hearer = Arc::clone(&one.hearer) as Arc<dyn Hearer>;
            match node.ears.listen(Channels::Sharded, &channel, hearer, clock, by).await {
                Ok(ear) => {
                    let before = lock(&one.channels).insert(slot, ear);
                    debug_assert!(before.is_none(), "the turn is for one at a time");
                    return Ok(());
                }
                Err(refused) => {
                    let redirect = match &refused {
                        NoAnswer::Failed(failure) => Redirect::of(failure, &node.address),
                        NoAnswer::Ended(_) => None,
                    };
                    failed = Some(StoreError::from(refused));
                    match redirect {
                        Some(Redirect::Moved(slot, to)) => self.shared.moved(slot, &to),
                        _ => self.shared.refresh(None, Some(&node.address), clock, by).await,
                    }
                }
            }
        }
        Err(failed.unwrap_or_else(|| crate::error::overdue(self.at(), false)))
    }
}

impl One {
    fn has(&self, slot: u16) -> bool {
        lock(&self.channels).contains_key(&slot)
    }
}

/// Tells a hearer that it is broken, once, however many of its channels are.
struct Once {
    hearer: Arc<dyn Hearer>,
    was_broken: AtomicBool,
}

impl Hearer for Once {
    fn hear(&self, message: &[u8]) {
        self.hearer.hear(message);
    }

    fn broken(&self) {
        if !self.was_broken.swap(true, Ordering::AcqRel) {
            self.hearer.broken();
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listeners({})", lock(&self.0).len())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
