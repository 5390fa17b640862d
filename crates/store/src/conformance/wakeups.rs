//! What is told, and to whom.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, ListenerId, LockName, PlaceRequest, Released, Token, Wakeup,
};

use super::{
    Harness,
    support::{Ask as _, MINUTE, assert_unsupported, name, request, secs, token, ttl},
};
use crate::{Store, Subscription, WakeupSink, rt};

/// Keeps what it hears.
#[derive(Default)]
pub(super) struct Ear {
    heard: Mutex<Vec<Wakeup>>,
    broken: Mutex<bool>,
    news: rt::sync::Notify,
}

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(wakeup);
        self.news.notify_one();
    }

    fn broken(&self) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.news.notify_one();
    }
}

impl Ear {
    /// The bound of what is due at once; a store that never tells anybody fails by it.
    const HEARS_WITHIN: Duration = secs(20);

    pub(super) fn heard(&self) -> Vec<Wakeup> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the first message that fits.
    pub(super) async fn hears<T>(&self, what: impl Fn(&Wakeup) -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = self.heard().iter().find_map(&what) {
                    return found;
                }
                self.news.notified().await;
            }
        };
        match rt::timeout(Self::HEARS_WITHIN, found).await {
            Some(found) => found,
            None => panic!("it was not told; it heard {:?}", self.heard()),
        }
    }
}

/// A subscription; nothing where the store has none, and says so.
pub(super) async fn listening(store: &impl Store) -> Option<(Arc<Ear>, Subscription)> {
    let ear = Arc::new(Ear::default());
    let result = store.listen(Arc::clone(&ear) as Arc<dyn WakeupSink>, store.by()).await;
    if store.capabilities().wakeups {
        return Some((ear, result.expect("the store can be listened to")));
    }
    assert_unsupported(result.map(|_| "a subscription"));
    None
}

/// A request that waits, and is told at `listener`.
pub(super) fn waiting(at: LockName, token: Token, listener: Option<ListenerId>) -> AcquireRequest {
    let mut waits = request(at, token);
    waits.listener = listener;
    waits.place = Some(PlaceRequest::new(ttl(secs(10)), MINUTE));
    waits
}

pub async fn a_release_hands_the_lease_to_the_next_and_tells_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let (first, second) = (token(), token());
    let Some((ear, subscription)) = listening(&other).await else { return };
    let held = store.take_fenced(name("k"), first).await;
    let waits = waiting(name("k"), second, Some(subscription.listener));
    match other.ask_acquire(&waits).await {
        Acquired::Queued(queued) => assert_eq!(queued.position, 1),
        answer => panic!("there was no place: {answer:?}"),
    }
    assert_eq!(store.give_back(name("k"), first).await, Released::Held);
    let hand_off = ear
        .hears(|wakeup| match wakeup {
            Wakeup::Granted(hand_off) => Some(*hand_off),
            _ => None,
        })
        .await;
    assert_eq!(hand_off.token, second);
    assert!(hand_off.fencing_token > Some(held), "{hand_off:?} after {held}");
    assert_eq!(hand_off.claim, secs(10));
    other.assert_held_by(&name("k"), second).await;
}
