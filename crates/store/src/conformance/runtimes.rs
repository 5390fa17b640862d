//! Order, dropped futures, and more than one runtime (rules 6 and 9 of the Contract).

use std::sync::Arc;

use fencelock_core::{Acquired, ReleaseRequest, Released};

use super::{
    Harness,
    support::{Ask as _, name, on_another_runtime, poll_once, request, token},
};
use crate::{Store, rt};

pub async fn a_dropped_acquire_and_then_a_release_leave_the_name_free(harness: &impl Harness) {
    let store = harness.fresh().await;
    let _ = store.connect(store.by()).await.expect("the store answers");
    for round in 0..20 {
        // A fresh name each time: if the acquire was never carried out, the record of an earlier
        // round would rightly say that another token was granted last.
        let at = name(format!("k{round}"));
        let asked = request(at.clone(), token());
        let _ = poll_once(store.acquire(&asked, store.by())).await;
        let released = store.give_back(at.clone(), asked.token).await;
        assert!(matches!(released, Released::Held | Released::Expired), "{released:?}");
        store.assert_free(&at).await;
        // A late arrival would be seen by the next, and would make it busy.
        let next = token();
        let _ = store.take(at.clone(), next).await;
        assert_eq!(store.give_back(at.clone(), next).await, Released::Held);
    }
}

pub async fn requests_reach_the_store_in_the_order_of_their_first_polls(harness: &impl Harness) {
    let store = harness.fresh().await;
    let _ = store.connect(store.by()).await.expect("the store answers");
    for _ in 0..20 {
        let asked = request(name("k"), token());
        let release = ReleaseRequest::new(name("k"), asked.token);
        let mut acquire = store.acquire(&asked, store.by());
        let mut release = store.release(&release, store.by());
        let early = poll_once(&mut acquire).await;
        let late = poll_once(&mut release).await;
        // The second is awaited first: it is not its turn that counts, but its first poll.
        let released = match late {
            Some(result) => result,
            None => release.await,
        };
        let granted = match early {
            Some(result) => result,
            None => acquire.await,
        };
        let granted = granted.expect("the store answers").answer;
        assert!(matches!(granted, Acquired::Granted(_)), "{granted:?}");
        assert_eq!(released.expect("the store answers").answer, Released::Held);
        store.assert_free(&name("k")).await;
    }
}

pub async fn the_end_of_one_runtime_does_not_harm_another(harness: &impl Harness) {
    let store = Arc::new(harness.fresh().await);
    // First used, and so perhaps connected, in a runtime that ends.
    for at in ["first", "second"] {
        let theirs = Arc::clone(&store);
        let holder = token();
        let granted = on_another_runtime(async move {
            theirs.acquire(&request(name(at), holder), theirs.by()).await
        })
        .await
        .expect("the store answers");
        assert!(matches!(granted.answer, Acquired::Granted(_)), "{granted:?}");
        // And now here, where it goes on living.
        store.assert_held_by(&name(at), holder).await;
        assert_eq!(store.give_back(name(at), holder).await, Released::Held);
    }
}

pub async fn a_runtime_that_ends_in_the_middle_of_a_call_harms_nobody(harness: &impl Harness) {
    let store = Arc::new(harness.fresh().await);
    for _ in 0..5 {
        let theirs = Arc::clone(&store);
        let asked = request(name("k"), token());
        let theirs_asked = asked.clone();
        on_another_runtime(async move {
            let _ = poll_once(theirs.acquire(&theirs_asked, theirs.by())).await;
        })
        .await;
        // Whether it was carried out nobody knows; a copy of it is granted either way, or it was
        // executed late and is found so.
        let answer = store.ask_acquire(&asked).await;
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
        assert_eq!(store.give_back(name("k"), asked.token).await, Released::Held);
    }
}

pub async fn threads_with_their_own_runtimes_exclude_each_other(harness: &impl Harness) {
    let store = Arc::new(harness.fresh().await);
    let inside = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (store, inside) = (Arc::clone(&store), Arc::clone(&inside));
            rt::blocking(move || rt::block_on(take_turns(store, inside)))
        })
        .collect();
    let turns = super::support::all_at_once(workers).await;
    let turns: u32 = turns.into_iter().map(|turns| turns.expect("no worker panicked")).sum();
    assert_eq!(turns, 4 * TURNS);
    store.assert_free(&name("k")).await;
}

/// How often each worker takes the lock.
const TURNS: u32 = 10;

/// More tries than any worker needs; a bound, so that a lock that is never free fails the case.
const TRIES_MAX: u32 = 1_000_000;

async fn take_turns(store: Arc<impl Store>, inside: Arc<std::sync::atomic::AtomicU32>) -> u32 {
    use std::sync::atomic::Ordering::SeqCst;
    let mut turns = 0;
    for _ in 0..TRIES_MAX {
        if turns == TURNS {
            break;
        }
        let asked = request(name("k"), token());
        let answer = store.acquire(&asked, store.by()).await.expect("the store answers").answer;
        if !matches!(answer, Acquired::Granted(_)) {
            rt::yield_now().await;
            continue;
        }
        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are inside");
        rt::yield_now().await;
        assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two are inside");
        let release = ReleaseRequest::new(name("k"), asked.token);
        let released = store.release(&release, store.by()).await.expect("the store answers");
        assert_eq!(released.answer, Released::Held);
        turns += 1;
    }
    turns
}
