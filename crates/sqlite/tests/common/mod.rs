//! What the integration tests share.
#![allow(dead_code)]
#![allow(clippy::unwrap_used)]

use std::{path::Path, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, Grant, LockName, Moment, ReleaseRequest, Released, Token, Ttl,
};
use fencelock_sqlite::SqliteStore;
use fencelock_store::{Clock, ManualClock, Store, StoreError, rt};

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
