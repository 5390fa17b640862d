//! Futures that are dropped while they wait in a line with others before and behind them.

use fencelock::{Client, Guard, Mutex, Released, Revoked};
use tokio::task::JoinHandle;

use crate::stores::{MOST_POLLS, Stores, TTL, is_free, poll_then_drop, soon, take, until_waiting};

/// Somebody else, who waits until a test lets the guard go.
fn waits(client: &Client) -> JoinHandle<Guard> {
    let mutex = client.mutex("job").ttl(TTL).strict_fifo();
    tokio::spawn(async move { mutex.lock().await.expect("the store works") })
}

/// Somebody else, who waits and gives the lock back at once.
fn is_served(client: &Client) -> JoinHandle<Released> {
    let waits = waits(client);
    tokio::spawn(async move { waits.await.expect("no panic").release().await })
}

/// By then a wait has its place, has subscribed and has told the store of it.
const LINE_POLLS: usize = 7;

/// How one waits.
const ORDERS: [&str; 3] = ["default", "strict", "barging"];

fn ordered(mutex: Mutex, order: &str) -> Mutex {
    match order {
        "strict" => mutex.strict_fifo(),
        "barging" => mutex.barging(),
        _ => mutex,
    }
}

/// Goal: a wait that is dropped in a line is as if it had never been, for whoever waits before and
/// behind it, in its own process and in others. Method: it is dropped after every number of polls,
/// while the lock is held, or released before one of them.
#[tokio::test]
async fn a_wait_that_is_dropped_in_a_line_keeps_nobody_waiting_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for order in ORDERS {
            for release_at in [usize::MAX, 1, 3] {
                for polls in 0..=LINE_POLLS {
                    let what = format!(
                        "{} {order} release {release_at} polls {polls}",
                        own.store_display()
                    );
                    let mut holder = Some(take(other.mutex("job")).await);
                    let before = waits(other);
                    until_waiting(other, "job", 1, &what).await;
                    let mut behind = None;
                    let mutex = ordered(own.mutex("job").ttl(TTL), order);
                    let subject = Box::pin(async { drop(mutex.lock().await) });
                    let ended = poll_then_drop(subject, polls, async |poll| {
                        if poll == 2 {
                            behind = Some((is_served(own), is_served(other)));
                        }
                        if poll == release_at {
                            assert_eq!(holder.take().unwrap().release().await, Released::Held);
                        }
                    })
                    .await;
                    if let Some(guard) = holder {
                        // The place of the dropped one is gone, those of the others are there.
                        let places = if behind.is_some() { 3 } else { 1 };
                        until_waiting(other, "job", places, &what).await;
                        assert_eq!(guard.release().await, Released::Held, "{what}");
                    }
                    let before = soon(&what, before).await.unwrap();
                    assert_eq!(before.release().await, Released::Held, "{what}");
                    if let Some((first, second)) = behind {
                        // Which of them came first, nobody knows.
                        let served = async {
                            for waiter in [first, second] {
                                assert_eq!(waiter.await.unwrap(), Released::Held, "{what}");
                            }
                        };
                        soon(&what, served).await;
                    }
                    is_free(own, other, &["job"], &what).await;
                    assert!(!ended, "{what}: the one before it still held the lock");
                }
            }
        }
        own.clone().close().await;
        other.clone().close().await;
    }
}

/// Goal: a place outlives a wait for it that was dropped, and what was granted meanwhile is not lost.
/// Method: `granted` is dropped after every number of polls, and called again.
#[tokio::test]
async fn a_place_outlives_a_dropped_wait_for_it_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for release_at in [usize::MAX, 0, 1, 2] {
            for polls in 0..MOST_POLLS {
                let what = format!("{} release {release_at} polls {polls}", own.store_display());
                let mut holder = Some(take(other.mutex("job")).await);
                let mut queued = own.mutex("job").ttl(TTL).enqueue().await.unwrap();
                let behind = waits(other);
                until_waiting(other, "job", 2, &what).await;
                let mut guard = None;
                let subject = Box::pin(async { guard = Some(queued.granted().await.unwrap()) });
                let ended = poll_then_drop(subject, polls, async |poll| {
                    if poll == release_at {
                        assert_eq!(holder.take().unwrap().release().await, Released::Held);
                    }
                })
                .await;
                assert_eq!(ended, guard.is_some(), "{what}");
                if let Some(holder) = holder {
                    // Still the first, and the other behind it.
                    until_waiting(other, "job", 2, &what).await;
                    assert_eq!(holder.release().await, Released::Held, "{what}");
                }
                let guard = match guard {
                    Some(guard) => guard,
                    None => soon(&what, queued.granted()).await.unwrap(),
                };
                assert!(guard.is_valid() && !behind.is_finished(), "{what}");
                assert_eq!(guard.release().await, Released::Held, "{what}");
                drop(queued);
                let behind = soon(&what, behind).await.unwrap();
                assert_eq!(behind.release().await, Released::Held, "{what}");
                is_free(own, other, &["job"], &what).await;
                if ended || (polls > 5 && release_at == usize::MAX) {
                    break;
                }
            }
        }
    }
}

/// Goal: an `enqueue` that is dropped leaves no place.
#[tokio::test]
async fn a_dropped_enqueue_leaves_no_place_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", own.store_display());
            let holder = take(other.mutex("job")).await;
            let mutex = own.mutex("job").ttl(TTL);
            let subject = Box::pin(async { drop(mutex.enqueue().await.unwrap()) });
            let ended = poll_then_drop(subject, polls, async |_| {}).await;
            until_waiting(other, "job", 0, &what).await;
            assert_eq!(holder.release().await, Released::Held, "{what}");
            is_free(own, other, &["job"], &what).await;
            if ended {
                break;
            }
        }
    }
}

/// Goal: who stopped to wait for being asked back still holds the lock, and is told the next time.
/// Method: `revoked` is dropped after every number of polls, and the lock is asked back before one
/// of them, or afterwards.
#[tokio::test]
async fn a_dropped_wait_for_a_revocation_changes_nothing_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for revoke_at in [usize::MAX, 0, 1, 2] {
            for polls in 0..MOST_POLLS {
                let what = format!("{} revoke {revoke_at} polls {polls}", own.store_display());
                let guard = take(own.mutex("job")).await;
                let ask = async || match other.revoke("job").await.unwrap() {
                    Revoked::Requested(holder) => assert!(!holder.unattended, "{what}"),
                    answer => panic!("{what}: {answer:?}"),
                };
                let mut asked = false;
                let ended = poll_then_drop(Box::pin(guard.revoked()), polls, async |poll| {
                    if poll == revoke_at {
                        ask().await;
                        asked = true;
                    }
                })
                .await;
                assert!(asked || !ended, "{what}: nobody asked");
                if !asked {
                    ask().await;
                }
                soon(&what, guard.revoked()).await;
                assert!(guard.is_revoked() && guard.is_valid(), "{what}");
                assert_eq!(guard.release().await, Released::Held, "{what}");
                is_free(own, other, &["job"], &what).await;
                if ended || (polls > 5 && revoke_at == usize::MAX) {
                    break;
                }
            }
        }
    }
}
