//! What the integration tests share.
#![allow(dead_code)]
#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, Grant, HandOff, ListenerId, LockName, Moment, PlaceRequest,
    ReleaseRequest, Released, Token, Ttl, Wakeup,
};
use fencelock_sqlite::SqliteStore;
use fencelock_store::{Clock, ManualClock, Store, StoreError, Subscription, WakeupSink, rt};

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn ttl(millis: u64) -> Ttl {
    Ttl::from_millis(millis).unwrap()
}

/// A moment of the real clock that a healthy call never reaches.
pub(crate) fn soon() -> Moment {
    Clock::Monotonic.now().saturating_add(Duration::from_secs(20))
}

pub(crate) fn manual(path: &Path, clock: &ManualClock) -> SqliteStore {
    SqliteStore::builder(path).manual(clock.clone()).build().unwrap()
}

pub(crate) async fn acquire(
    store: &SqliteStore,
    request: &AcquireRequest,
) -> Result<Acquired, StoreError> {
    Ok(store.acquire(request, Moment::NEVER).await?.answer)
}

/// Takes a lock that is free.
pub(crate) async fn take(store: &SqliteStore, lock: &str, millis: u64) -> (Token, Grant) {
    let token = rt::fresh_token();
    match acquire(store, &AcquireRequest::new(name(lock), token, ttl(millis))).await.unwrap() {
        Acquired::Granted(grant) => (token, grant),
        other => panic!("{lock} was not free: {other:?}"),
    }
}

pub(crate) async fn is_free(store: &SqliteStore, lock: &str) -> bool {
    let token = rt::fresh_token();
    match acquire(store, &AcquireRequest::new(name(lock), token, ttl(1_000))).await.unwrap() {
        Acquired::Granted(_) => {
            let request = ReleaseRequest::new(name(lock), token);
            let reply = store.release(&request, Moment::NEVER).await.unwrap();
            assert_eq!(reply.answer, Released::Held);
            true
        }
        _ => false,
    }
}

pub(crate) fn bare(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

/// A request that waits, for ten seconds at most if it is handed the lease.
pub(crate) fn waits(lock: &str, token: Token, listener: Option<ListenerId>) -> AcquireRequest {
    let mut request = AcquireRequest::new(name(lock), token, ttl(60_000));
    request.place = Some(PlaceRequest::new(ttl(10_000), Duration::from_secs(60)));
    request.listener = listener;
    request
}

/// Takes a place in the line of a busy lock, and says which.
pub(crate) async fn queue(store: &SqliteStore, request: &AcquireRequest) -> u32 {
    match acquire(store, request).await.unwrap() {
        Acquired::Queued(queued) => queued.position,
        other => panic!("there was no place: {other:?}"),
    }
}

pub(crate) async fn give_back(store: &SqliteStore, lock: &str, token: Token) -> Released {
    let request = ReleaseRequest::new(name(lock), token);
    store.release(&request, Moment::NEVER).await.unwrap().answer
}

/// Keeps what it is told.
#[derive(Default)]
pub(crate) struct Ear {
    heard: Mutex<(Vec<Wakeup>, u32)>,
    news: rt::sync::Notify,
}

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        self.heard.lock().unwrap().0.push(wakeup);
        self.news.notify_one();
    }

    fn broken(&self) {
        self.heard.lock().unwrap().1 += 1;
        self.news.notify_one();
    }
}

impl Ear {
    pub(crate) async fn listening(store: &SqliteStore) -> (Arc<Self>, Subscription) {
        let ear = Arc::new(Self::default());
        let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
        let subscription = store.listen(sink, Moment::NEVER).await.unwrap();
        (ear, subscription)
    }

    pub(crate) fn heard(&self) -> Vec<Wakeup> {
        self.heard.lock().unwrap().0.clone()
    }

    pub(crate) fn breaks(&self) -> u32 {
        self.heard.lock().unwrap().1
    }

    /// Waits for ever.
    pub(crate) async fn until_ever(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            self.news.notified().await;
        }
    }

    /// Waits until there is an answer, for as long as a healthy machine never takes.
    pub(crate) async fn until<T>(&self, what: impl Fn(&Self) -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = what(self) {
                    return found;
                }
                self.news.notified().await;
            }
        };
        match rt::timeout(Duration::from_secs(20), found).await {
            Some(found) => found,
            None => panic!("it heard {:?}, and {} breaks", self.heard(), self.breaks()),
        }
    }

    /// Waits for the lease of a token.
    pub(crate) async fn is_granted(&self, token: Token) -> HandOff {
        self.until(|ear| {
            ear.heard().into_iter().find_map(|wakeup| match wakeup {
                Wakeup::Granted(hand_off) if hand_off.token == token => Some(hand_off),
                _ => None,
            })
        })
        .await
    }

    /// Waits until it has heard all of this, and says what it heard when that is not it.
    pub(crate) async fn hears_all(&self, told: &[Wakeup]) {
        self.until(|ear| (ear.heard().len() >= told.len()).then_some(())).await;
        assert_eq!(self.heard(), told);
    }
}
