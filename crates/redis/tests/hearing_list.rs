//! What our waiters hear of locks that python-redis-lock gives back: by its list. The others are raw
//! connections here, with the effects of its script: the real one is in `testing/interop`.

mod support;

use std::{sync::Arc, thread::JoinHandle};

use fencelock_core::{AcquireRequest, Acquired, ListenerId, Released, Wakeup};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store as _, Subscription, WakeupSink};
use fencelock_testkit::{RedisCluster, RedisServer, eventually};
use redis::Value;
use support::{Ear, granted, release, soon, store_at, waits};

/// Longer than anything takes on a busy machine.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

fn store(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::PythonRedisLock)
}

async fn listens(store: &RedisStore) -> (Arc<Ear>, Subscription) {
    let ear = Arc::new(Ear::default());
    let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
    let subscription = store.listen(sink, soon(store)).await.expect("it listens");
    (ear, subscription)
}

/// Asks with the wish to be told.
async fn wish(store: &RedisStore, at: &str, listener: ListenerId) -> AcquireRequest {
    let request = waits(at, Some(listener));
    let answer = store.acquire(&request, soon(store)).await.expect("it answers").answer;
    assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
    request
}

fn turn(request: &AcquireRequest) -> Wakeup {
    Wakeup::Turn(request.token)
}

fn held_by_others(server: &RedisServer, name: &str) {
    server.cli(&["SET", &format!("lock:{name}"), "theirs", "PX", "60000"]);
}

/// A release of theirs, in one step.
fn theirs_is_released(server: &RedisServer, name: &str) {
    let steps = "redis.call('LPUSH', KEYS[2], '1') redis.call('PEXPIRE', KEYS[2], 1000) \
                 redis.call('DEL', KEYS[1])";
    let (key, list) = (format!("lock:{name}"), format!("lock-signal:{name}"));
    server.cli(&["EVAL", steps, "2", &key, &list]);
}

/// Connections that block by a command.
fn blocking(server: &RedisServer, command: &str) -> Vec<String> {
    let clients: String =
        redis::cmd("CLIENT").arg("LIST").query(&mut server.connect()).expect("a list");
    let word = format!("cmd={command}");
    let blocked = clients.lines().filter(|line| line.split(' ').any(|part| part == word));
    let id =
        |line: &str| line.split(' ').find_map(|part| part.strip_prefix("id=").map(str::to_owned));
    blocked.filter_map(id).collect()
}

fn until_blocking(server: &RedisServer, command: &str, count: usize) {
    eventually(LIMIT, command, || blocking(server, command).len() == count);
}

/// A waiter of theirs without a limit.
fn theirs_waits(server: &RedisServer, name: &str) -> JoinHandle<Value> {
    let mut connection = server.connect();
    let list = format!("lock-signal:{name}");
    std::thread::spawn(move || {
        redis::cmd("BLPOP").arg(list).arg(0).query(&mut connection).expect("it is told")
    })
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.cli(&["EXISTS", key]) == Value::Int(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_who_waits_is_told_and_the_signal_is_taken_away_when_it_is_spent() {
    let server = RedisServer::start();
    let store = store(&server);
    let (ear, subscription) = listens(&store).await;
    for name in ["a", "b"] {
        held_by_others(&server, name);
    }
    let first = wish(&store, "a", subscription.listener).await;
    let second = wish(&store, "a", subscription.listener).await;
    let other = wish(&store, "b", subscription.listener).await;
    until_blocking(&server, "blmove", 2);
    theirs_is_released(&server, "a");
    ear.until("a turn", |ear| ear.heard().contains(&turn(&first))).await;
    let _ = granted(store.acquire(&first, soon(&store)).await);
    // Long before it would end by itself: it is asked at once, and its ttl is not moved.
    eventually(LIMIT, "the signal is gone", || !exists(&server, "lock-signal:a"));
    assert!(!ear.heard().contains(&turn(&other)));
    assert_eq!(release(&store, "a", first.token).await.expect("it answers"), Released::Held);
    ear.until("the second's turn", |ear| ear.heard().contains(&turn(&second))).await;
    theirs_is_released(&server, "b");
    ear.until("the other's turn", |ear| ear.heard().contains(&turn(&other))).await;
}

/// Goal: what wakes one of ours is not missing for one of theirs, who may wait without a limit. Method: both
/// block, in either order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_of_theirs_is_told_as_well_whoever_blocked_first() {
    for ours_first in [true, false] {
        let server = RedisServer::start();
        let store = store(&server);
        let (ear, subscription) = listens(&store).await;
        held_by_others(&server, "a");
        let (ours, theirs) = if ours_first {
            let ours = wish(&store, "a", subscription.listener).await;
            until_blocking(&server, "blmove", 1);
            (ours, theirs_waits(&server, "a"))
        } else {
            let theirs = theirs_waits(&server, "a");
            until_blocking(&server, "blpop", 1);
            (wish(&store, "a", subscription.listener).await, theirs)
        };
        until_blocking(&server, "blmove", 1);
        until_blocking(&server, "blpop", 1);
        theirs_is_released(&server, "a");
        if ours_first {
            ear.until("our turn", |ear| ear.heard().contains(&turn(&ours))).await;
        }
        let _ = theirs.join().expect("it was told");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gave_up_takes_no_signal_along() {
    let server = RedisServer::start();
    let store = store(&server);
    let (ear, subscription) = listens(&store).await;
    held_by_others(&server, "a");
    let gone = wish(&store, "a", subscription.listener).await;
    until_blocking(&server, "blmove", 1);
    let _ = release(&store, "a", gone.token).await.expect("it answers");
    theirs_is_released(&server, "a");
    let _ = theirs_waits(&server, "a").join().expect("the signal is still there");
    assert!(ear.heard().is_empty(), "{:?}", ear.heard());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_tells_everybody_and_who_asks_hears_again() {
    let server = RedisServer::start();
    let store = store(&server);
    let (ear, subscription) = listens(&store).await;
    held_by_others(&server, "a");
    let waiters = [
        wish(&store, "a", subscription.listener).await,
        wish(&store, "a", subscription.listener).await,
    ];
    until_blocking(&server, "blmove", 1);
    let id = blocking(&server, "blmove").pop().expect("one");
    server.cli(&["CLIENT", "KILL", "ID", &id]);
    // The question goes out again on a fresh connection, or they are told to ask.
    eventually(LIMIT, "it blocks again, or all are told", || {
        blocking(&server, "blmove").iter().any(|other| *other != id)
            || waiters.iter().all(|waiter| ear.heard().contains(&turn(waiter)))
    });
    for waiter in &waiters {
        let answer = store.acquire(waiter, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
    }
    until_blocking(&server, "blmove", 1);
    let before = ear.heard().len();
    theirs_is_released(&server, "a");
    ear.until("a turn", |ear| ear.heard().len() > before).await;
}

/// Method: the server notes each refusal, so one says that nobody tried again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_block_a_busy_name_is_busy() {
    let rules = "on >p ~* +@all -blmove";
    let server = RedisServer::builder().acl_user("app", rules).start();
    let store = store_at(&server.url_as("app", "p"), Dialect::PythonRedisLock);
    let (ear, subscription) = listens(&store).await;
    held_by_others(&server, "a");
    let waiter = wish(&store, "a", subscription.listener).await;
    ear.until("it is told to ask", |ear| ear.heard().contains(&turn(&waiter))).await;
    for _ in 0..3 {
        let answer = store.acquire(&waiter, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    }
    let Value::Array(log) = server.cli(&["ACL", "LOG"]) else { panic!("a list") };
    assert_eq!(log.len(), 1, "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_lists_are_blocked_on_and_no_more_and_none_after_the_end() {
    const MOST: usize = 16;
    let server = RedisServer::start();
    let store = store(&server);
    let (_ear, subscription) = listens(&store).await;
    for number in 0..=MOST {
        let name = format!("n{number}");
        held_by_others(&server, &name);
        let request = waits(&name, Some(subscription.listener));
        let answer = store.acquire(&request, soon(&store)).await.expect("it answers").answer;
        match answer {
            Acquired::Queued(_) => assert!(number < MOST),
            Acquired::Busy(_) => assert_eq!(number, MOST),
            other => panic!("{other:?}"),
        }
    }
    until_blocking(&server, "blmove", MOST);
    store.close().await;
    until_blocking(&server, "blmove", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_each_list_is_blocked_on_where_it_is() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::PythonRedisLock);
    let (ear, subscription) = listens(&store).await;
    for name in ["{a}1", "{b}2", "{c}3"] {
        let server = &cluster.servers()[cluster.primary(cluster.slot(name.as_bytes()))];
        held_by_others(server, name);
        let waiter = wish(&store, name, subscription.listener).await;
        eventually(LIMIT, "it blocks", || !blocking(server, "blmove").is_empty());
        theirs_is_released(server, name);
        ear.until("a turn", |ear| ear.heard().contains(&turn(&waiter))).await;
    }
}
