//! The client on a primary with a replica: what a fail-over takes away, and what acknowledged grants
//! keep.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use fencelock::{Attempt, Client, ErrorKind, Guard, Inspection, LossReason, Released};
use fencelock_testkit::{RedisServer, Replicated};

const PATIENCE: Duration = Duration::from_secs(60);

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn client(url: impl AsRef<str>) -> Client {
    Client::builder(url).build().expect("the url is right")
}

/// A client whose grants count when the replica has them.
fn acknowledged(server: &RedisServer, within: &str) -> Client {
    let url = format!("{}?replicas=1&acknowledge_within={within}", server.url());
    // A starved machine needs long for what takes a millisecond elsewhere.
    Client::builder(url).request_timeout(secs(20)).build().expect("the url is right")
}

async fn take(client: &Client, name: &str, ttl: Duration) -> Guard {
    match client.mutex(name).ttl(ttl).try_lock().await.expect("the store works") {
        Attempt::Granted(guard) => guard,
        Attempt::Busy(busy) => panic!("nobody holds it: {busy:?}"),
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends")
}

/// Goal: a lease that a fail-over forgot is reported as lost at the first answered renewal and never
/// written again; who comes next has a larger fencing token. Method: the replica is locked out of
/// its primary while the lease is granted, and promoted.
/// <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_not_replicated_is_lost_and_never_comes_back() {
    let service = Replicated::start(1);
    let (old, replica) = (service.primary(), service.replicas()[0]);
    let (first, second) = (client(service.url()), client(service.url()));
    replica.cli(&["CONFIG", "SET", "masteruser", "nobody"]);
    replica.cli(&["CONFIG", "SET", "masterauth", "wrong"]);
    old.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
    let guard = take(&first, "job", secs(12)).await;
    let fenced = guard.fencing_token().expect("a native lock has one");
    old.kill();
    tokio::task::block_in_place(|| service.await_failover_from(old.port()));
    let reason = within(guard.lost()).await;
    assert_eq!(reason, LossReason::Disappeared);
    assert!(!guard.is_valid());
    let next = within(second.mutex("job").ttl(secs(30)).wait(secs(20)).lock()).await;
    let next = next.expect("nobody holds it at the new primary");
    assert!(next.fencing_token().expect("it has one") > fenced);
    // The first holder's release, and its keeper's, must not free it.
    assert_ne!(guard.release().await, Released::Held);
    assert!(matches!(first.inspect("job").await, Ok(Inspection::Held(_))));
    assert_eq!(next.release().await, Released::Held);
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_replica_a_lock_is_not_granted_and_the_wait_for_it_ends() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    replica.stop_signal();
    let locks = acknowledged(primary, "50ms");
    let error = locks.mutex("job").try_lock().await.expect_err("nobody acknowledges it");
    assert_eq!(error.kind(), ErrorKind::NotAcknowledged, "{error}");
    assert!(error.to_string().contains("replicas running"), "{error}");
    // Also without a limit: replicas that are gone do not come back by being waited for.
    let error = within(locks.mutex("job").lock()).await.expect_err("nobody acknowledges it");
    assert_eq!(error.kind(), ErrorKind::NotAcknowledged, "{error}");
    let free = client(primary.url()).inspect("job").await;
    assert!(matches!(free, Ok(Inspection::Free { .. })), "{free:?}");
    replica.cont();
    let guard = within(acknowledged(primary, "20s").mutex("job").lock()).await;
    assert_eq!(guard.expect("it is there again").release().await, Released::Held);
    locks.close().await;
}

/// Goal: renewals count only when they are acknowledged: a guard is lost at the end of what was, and
/// one whose replica comes back in time is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_lives_as_long_as_what_its_replica_has() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    let locks = acknowledged(primary, "20s");
    let guard = take(&locks, "job", secs(4)).await;
    // Beyond the first lease: there was at least one renewal that counted.
    tokio::time::sleep(secs(5)).await;
    assert!(guard.is_valid());
    replica.stop_signal();
    assert_eq!(within(guard.lost()).await, LossReason::Expired);
    replica.cont();
    drop(guard);
    let again = within(locks.mutex("job").ttl(secs(3)).wait(secs(20)).lock()).await;
    assert_eq!(again.expect("it is free").release().await, Released::Held);
    locks.close().await;
}

/// Goal: hand-overs work with acknowledged grants, in order and each with a larger fencing token.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_locks_are_handed_over_too() {
    let service = Replicated::without_sentinels(1);
    let primary = service.primary();
    let tokens = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (locks, tokens) = (acknowledged(primary, "20s"), tokens.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = locks.mutex("job").strict_fifo().lock().await.expect("its turn comes");
                let token = guard.fencing_token().expect("it has one");
                tokens.lock().expect("nobody panics").push(token);
                assert_eq!(guard.release().await, Released::Held);
            }
            locks.close().await;
        });
    }
    within(tasks.join_all()).await;
    let tokens = tokens.lock().expect("nobody panics");
    assert_eq!(tokens.len(), 40);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
