//! Futures that are dropped after every number of polls.

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use fencelock::{Client, Guard, Released};
use tokio::sync::Notify;

use crate::stores::{
    MOST_POLLS, QUIET, Stores, Subject, TTL, Woken, is_free, poll_then_drop, runtime, soon, take,
    until_waiting,
};

/// Drops a wait after every number of polls; the lock is released before each of them, or after all.
async fn waits_are_dropped(names: &[&str], subject_of: impl Fn(&Client) -> Subject<'_>) {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        // The first round connects all that is needed, and subscribes.
        let mut connections = None;
        for release_at in (0..6).chain([usize::MAX]) {
            for polls in 0..MOST_POLLS {
                let what = format!("{} release {release_at} polls {polls}", own.store_display());
                let mut holder = Some(take(other.mutex(names[0])).await);
                let ended = poll_then_drop(subject_of(own), polls, async |poll| {
                    if poll == release_at {
                        holder.take().unwrap().release().await;
                    }
                })
                .await;
                if let Some(guard) = holder {
                    until_waiting(other, names[0], 0, &what).await;
                    assert_eq!(guard.release().await, Released::Held, "{what}");
                }
                is_free(own, other, names, &what).await;
                if ended || (polls > 8 && release_at == usize::MAX) {
                    break;
                }
            }
            let now = stores.connections();
            assert!(now <= *connections.get_or_insert(now), "connections stay");
        }
        own.clone().close().await;
        other.clone().close().await;
    }
    let gone = async {
        while !stores.channels().contains("[]") {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon("nobody listens", gone).await;
}

#[tokio::test]
async fn a_dropped_wait_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job"], |client| {
        Box::pin(async { drop(client.mutex("job").ttl(TTL).lock().await) })
    })
    .await;
}

/// Where a store has only mutexes it is refused at once, and that leaves nothing either.
#[tokio::test]
async fn a_dropped_wait_for_a_lock_that_others_may_join_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job"], |client| {
        Box::pin(async {
            drop(client.rwlock("job").ttl(TTL).read().await);
            drop(client.reentrant("job", "me").ttl(TTL).lock().await);
        })
    })
    .await;
    waits_are_dropped(&["job"], |client| {
        Box::pin(async { drop(client.rwlock("job").ttl(TTL).write().await) })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_place_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job"], |client| {
        Box::pin(async {
            let mut queued = client.mutex("job").ttl(TTL).enqueue().await.unwrap();
            drop(queued.granted().await);
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_set_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job", "zeta"], |client| {
        Box::pin(async { drop(client.mutexes(["zeta", "job"]).ttl(TTL).lock().await) })
    })
    .await;
}

/// Drops what is done with a guard after every number of polls.
async fn uses_are_dropped<F>(use_of: F)
where
    F: for<'a> Fn(&'a Client, Guard) -> Subject<'a>,
{
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", own.store_display());
            let guard = take(own.mutex("job")).await;
            let ended = poll_then_drop(use_of(own, guard), polls, async |_| {}).await;
            is_free(own, other, &["job"], &what).await;
            if ended {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_release_is_finished_on_every_store() {
    uses_are_dropped(|_, guard| {
        Box::pin(async {
            let _released = guard.release().await;
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_renewal_gives_back_on_every_store() {
    uses_are_dropped(|_, guard| {
        Box::pin(async move {
            let _renewed = guard.renew(TTL).await;
        })
    })
    .await;
}

/// Goal: what a dropped `detach` or `adopt` leaves is nothing, or the lease of the ticket. Method: as
/// above; the ticket's lease, if there is one, is released by its token.
#[tokio::test]
async fn a_dropped_hand_over_leaves_its_ticket_at_most_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", own.store_display());
            let guard = take(own.mutex("job")).await;
            let mut ticket = None;
            let detached = async { ticket = guard.detach().await.ok() };
            let ended = poll_then_drop(Box::pin(detached), polls, async |_| {}).await;
            assert_eq!(ended, ticket.is_some(), "{what}");
            if let Some(ticket) = ticket {
                let lease = other.lease(ticket.names().clone(), ticket.token());
                assert_eq!(lease.release().await.unwrap(), Released::Held, "{what}");
            }
            is_free(own, other, &["job"], &what).await;
            if ended {
                break;
            }
        }
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", own.store_display());
            let ticket = take(own.mutex("job")).await.leak().await.unwrap();
            let lease = other.lease(ticket.names().clone(), ticket.token());
            let adopted = async { drop(own.adopt(ticket).await) };
            let ended = poll_then_drop(Box::pin(adopted), polls, async |_| {}).await;
            // Either it was not adopted, and this ends it; or what was adopted is given back.
            let _released = lease.release().await.unwrap();
            is_free(own, other, &["job"], &what).await;
            if ended {
                break;
            }
        }
    }
}

/// A future may be moved out of its runtime and be dropped anywhere.
#[test]
fn a_wait_that_is_dropped_outside_of_every_runtime_leaves_nothing_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let main = runtime();
        for strict in [false, true] {
            for polls in 1..8 {
                let guard = main.block_on(take(other.mutex("job")));
                let mutex = own.mutex("job").ttl(TTL);
                let mutex = if strict { mutex.strict_fifo() } else { mutex };
                let mut wait = Box::pin(mutex.lock());
                main.block_on(async {
                    let woken = Arc::new(Woken(Notify::new()));
                    let waker = Waker::from(Arc::clone(&woken));
                    for _ in 0..polls {
                        let mut context = Context::from_waker(&waker);
                        assert!(wait.as_mut().poll(&mut context).is_pending());
                        let _quiet = tokio::time::timeout(QUIET, woken.0.notified()).await;
                    }
                });
                drop(wait);
                drop(guard);
                main.block_on(is_free(own, other, &["job"], &what));
            }
        }
    }
}
