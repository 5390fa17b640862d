//! Sets of names across the slots of a real cluster, and waiting in a slot that moves.
#![cfg(all(target_os = "linux", feature = "redis"))]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fencelock::{
    AcrossGuard, Attempt, Client, ErrorKind, FencingToken, Inspection, Released, RetryAdvice,
};
use fencelock_testkit::RedisCluster;

/// In three slots, of all three servers.
const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

const SOON: Duration = Duration::from_secs(30);

async fn client(cluster: &RedisCluster) -> Client {
    fencelock::connect(cluster.url()).await.unwrap()
}

/// Waits until nobody holds any of the names: drops give back in the background.
async fn all_free(locks: &Client) {
    for name in NAMES {
        let guard = locks.mutex(name).wait(SOON).lock().await.unwrap();
        assert_eq!(guard.release().await, Released::Held);
    }
}

#[tokio::test]
async fn a_set_across_slots_needs_to_be_asked_for() {
    let cluster = RedisCluster::start();
    let locks = client(&cluster).await;
    let error = locks.mutexes(NAMES).lock().await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::CrossSlot, RetryAdvice::Never));
    let said = error.to_string();
    assert!(said.contains("across_slots") && said.contains("`alpha`"), "{said}");
    let one = locks.mutexes(["{t}a", "{t}b"]).lock().await.unwrap();
    assert_eq!(one.release().await, Released::Held);
}

#[tokio::test]
async fn a_set_has_one_fencing_token_which_every_member_knows() {
    let cluster = RedisCluster::start();
    let locks = client(&cluster).await;
    // Far ahead of the others' clocks, by what one holder had seen.
    let ahead = {
        let guard = locks.mutex("beta").lock().await.unwrap();
        let token = guard.fencing_token().unwrap();
        guard.release().await;
        FencingToken::new(token.as_u64() + 5_000_000).unwrap()
    };
    let guard = locks.mutex("beta").floor(ahead).lock().await.unwrap();
    let before = guard.fencing_token().unwrap();
    assert!(before > ahead);
    guard.release().await;
    let set = locks.mutexes(NAMES).across_slots().lock().await.unwrap();
    let of_set = set.fencing_token().unwrap();
    assert!(of_set > before && set.is_valid());
    assert_eq!(set.names().len(), 3);
    for name in NAMES {
        let Inspection::Held(holder) = locks.inspect(name).await.unwrap() else { panic!("{name}") };
        assert_eq!(holder.fencing_token, Some(of_set), "{name}");
    }
    assert_eq!(set.release().await, Released::Held);
    for name in NAMES {
        let guard = locks.mutex(name).lock().await.unwrap();
        assert!(guard.fencing_token().unwrap() > of_set, "{name}");
        guard.release().await;
    }
}

#[tokio::test]
async fn a_busy_member_leaves_nothing_behind() {
    let cluster = RedisCluster::start();
    let locks = client(&cluster).await;
    for busy in NAMES {
        let holder = locks.mutex(busy).lock().await.unwrap();
        let set = locks.mutexes(NAMES).across_slots();
        assert!(matches!(set.try_lock().await.unwrap(), Attempt::Busy(_)));
        let set = locks.mutexes(NAMES).wait(Duration::from_millis(50)).across_slots();
        assert!(set.lock().await.unwrap_err().is_wait_expired());
        assert!(holder.is_valid());
        holder.release().await;
        all_free(&locks).await;
    }
}

/// Scenario CANCEL: whatever a set had taken when its future was dropped is given back.
#[tokio::test]
async fn members_that_were_taken_are_given_back_when_the_future_is_dropped() {
    let cluster = RedisCluster::start();
    let (locks, others) = (client(&cluster).await, client(&cluster).await);
    for busy in NAMES {
        let holder = others.mutex(busy).lock().await.unwrap();
        let waiting = locks.clone();
        let task =
            tokio::spawn(
                async move { waiting.mutexes(NAMES).across_slots().lock().await.map(drop) },
            );
        // It is on its way when it waits for the one that is held.
        let waits = async {
            loop {
                match others.inspect(busy).await.unwrap() {
                    Inspection::Held(holder) if holder.waiting > 0 => return,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        tokio::time::timeout(SOON, waits).await.expect("it comes to wait");
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        holder.release().await;
        all_free(&others).await;
    }
}

#[tokio::test]
async fn a_set_is_lost_with_any_of_its_members() {
    let cluster = RedisCluster::start();
    let locks = client(&cluster).await;
    for taken in NAMES {
        let set = locks.mutexes(NAMES).ttl(Duration::from_secs(1)).across_slots();
        let set = set.lock().await.unwrap();
        locks.danger().force_release(taken).await.unwrap();
        let lost = tokio::time::timeout(SOON, set.lost()).await;
        lost.expect("a renewal tells it");
        assert!(!set.is_valid() && set.validity_left().is_zero());
        drop(set);
        all_free(&locks).await;
    }
}

/// Goal: sets that share names never wait for each other in a circle. Method: two clients name the
/// same three in opposite order, again and again, each counting under the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_in_opposite_order_get_on_and_exclude_each_other() {
    const ROUNDS: u64 = 15;
    let cluster = RedisCluster::start();
    let (inside, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let contend = |locks: Client, names: [&'static str; 3]| {
        let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let set: AcrossGuard =
                    locks.mutexes(names).wait(SOON).across_slots().lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                let token = set.fencing_token().unwrap().as_u64();
                assert!(last.swap(token, Ordering::SeqCst) < token, "fencing tokens grow");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(set.release().await, Released::Held);
            }
        })
    };
    let one = contend(client(&cluster).await, ["alpha", "beta", "gamma"]);
    let other = contend(client(&cluster).await, ["gamma", "beta", "alpha"]);
    one.await.unwrap();
    other.await.unwrap();
}

#[tokio::test]
async fn work_under_a_set_is_dropped_when_a_member_is_lost() {
    let cluster = RedisCluster::start();
    let locks = client(&cluster).await;
    let set = locks.mutexes(NAMES).ttl(Duration::from_secs(1)).across_slots();
    let inside = locks.clone();
    let nested = set
        .run(|held| async move {
            assert!(held.is_valid() && held.fencing_token().is_some());
            inside.mutex("beta").lock().await.unwrap_err().is_already_held()
        })
        .await;
    assert!(nested.unwrap(), "a name of the set is held here");
    all_free(&locks).await;
    let thief = locks.clone();
    let work = set.run(|_| async move {
        thief.danger().force_release("beta").await.unwrap();
        std::future::pending::<()>().await;
    });
    let result = tokio::time::timeout(SOON, work).await.expect("a renewal tells it");
    assert!(result.unwrap_err().is_lost());
    all_free(&locks).await;
}
