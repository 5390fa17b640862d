//! What our waiters hear of locks that other libraries give back, in the dialect of Spring. The others
//! are raw connections here: the real ones are in `testing/interop`.

mod support;

use std::sync::Arc;

use fencelock_core::{AcquireRequest, Acquired, ListenerId, Released, Wakeup};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store as _, Subscription, WakeupSink};
use fencelock_testkit::{RedisCluster, RedisServer};
use redis::Value;
use support::{Ear, acquire, granted, release, soon, token, waits};

fn store(url: &str) -> RedisStore {
    let builder = RedisStore::builder(url.parse().expect("a url")).dialect(Dialect::Spring);
    builder.prefix("reg").build().expect("the settings are valid")
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

fn held_by_others(server: &RedisServer, name: &str) {
    server.cli(&["SET", &format!("reg:{name}"), "theirs", "PX", "60000"]);
}

/// Says that a name is free, on a channel; how many heard it.
fn say(server: &RedisServer, channel: &str, name: &str) -> i64 {
    match server.cli(&["PUBLISH", channel, &format!("reg:{name}")]) {
        Value::Int(heard) => heard,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_first_who_waits_is_told_by_both_generations_and_what_is_about_others_tells_nobody() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let (ear, subscription) = listens(&store).await;
    for name in ["a", "b"] {
        held_by_others(&server, name);
    }
    let first = wish(&store, "a", subscription.listener).await;
    let second = wish(&store, "a", subscription.listener).await;
    let other = wish(&store, "b", subscription.listener).await;
    assert_eq!(say(&server, "reg-channel", "c"), 1);
    assert_eq!(say(&server, "reg-channel:reg:c", "c"), 0);
    assert_eq!(say(&server, "reg-channel:reg:a", "a"), 1);
    assert_eq!(say(&server, "reg-channel", "a"), 1);
    assert_eq!(say(&server, "reg-channel", "b"), 1);
    ear.until("three turns", |ear| ear.heard().len() == 3).await;
    let turn = |request: &AcquireRequest| Wakeup::Turn(request.token);
    assert_eq!(ear.heard(), [turn(&first), turn(&first), turn(&other)]);
    // Granted, the first waits no more; and its own release is heard by the second.
    server.cli(&["DEL", "reg:a"]);
    let _ = granted(store.acquire(&first, soon(&store)).await);
    assert_eq!(release(&store, "a", first.token).await.expect("it answers"), Released::Held);
    ear.until("the second's turn", |ear| ear.heard().contains(&turn(&second))).await;
}

#[tokio::test]
async fn who_gave_up_is_not_told_and_neither_is_who_has_no_listener() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let (ear, subscription) = listens(&store).await;
    held_by_others(&server, "a");
    let gone = wish(&store, "a", subscription.listener).await;
    let stays = wish(&store, "a", subscription.listener).await;
    let _ = release(&store, "a", gone.token).await.expect("it answers");
    let unheard = store.acquire(&waits("a", None), soon(&store)).await.expect("it answers");
    assert!(matches!(unheard.answer, Acquired::Busy(_)), "{unheard:?}");
    assert!(matches!(
        acquire(&store, "a", token()).await.expect("it answers").answer,
        Acquired::Busy(_)
    ));
    let (late, another) = listens(&store).await;
    let behind = wish(&store, "a", another.listener).await;
    assert_ne!(say(&server, "reg-channel:reg:a", "a"), 0);
    ear.until("a turn", |ear| !ear.heard().is_empty()).await;
    assert_eq!(ear.heard(), [Wakeup::Turn(stays.token)]);
    drop(subscription);
    assert_eq!(say(&server, "reg-channel:reg:a", "a"), 1, "the other listener uses the channel");
    late.until("its turn", |ear| !ear.heard().is_empty()).await;
    assert_eq!(late.heard(), [Wakeup::Turn(behind.token)]);
}

#[tokio::test]
async fn a_connection_that_breaks_is_told_once_and_a_new_listener_hears_again() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let (ear, subscription) = listens(&store).await;
    for name in ["a", "b"] {
        held_by_others(&server, name);
        let _ = wish(&store, name, subscription.listener).await;
    }
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    ear.until("it broke", |ear| ear.broken() == 1).await;
    let (again, subscription) = listens(&store).await;
    let waiter = wish(&store, "a", subscription.listener).await;
    assert_eq!(say(&server, "reg-channel:reg:a", "a"), 1);
    again.until("its turn", |ear| !ear.heard().is_empty()).await;
    assert_eq!(again.heard(), [Wakeup::Turn(waiter.token)]);
    assert_eq!((ear.broken(), again.broken()), (1, 0));
}

#[tokio::test]
async fn channels_that_nobody_has_use_for_are_given_up_when_there_are_many() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let (_ear, subscription) = listens(&store).await;
    for number in 0..200 {
        let name = format!("n{number}");
        held_by_others(&server, &name);
        let waiter = wish(&store, &name, subscription.listener).await;
        let _ = release(&store, &name, waiter.token).await.expect("it answers");
    }
    let Value::Array(channels) = server.cli(&["PUBSUB", "CHANNELS", "reg-channel*"]) else {
        panic!("a list");
    };
    assert!((1..=66).contains(&channels.len()), "{}", channels.len());
}

/// Method: the server notes each refusal, so one says that nobody tried again and again.
#[tokio::test]
async fn without_the_right_to_the_channels_a_busy_name_is_busy() {
    let rules = "on >p resetchannels ~reg:* +@all";
    let server = RedisServer::builder().acl_user("app", rules).start();
    let store = store(&server.url_as("app", "p"));
    let (ear, subscription) = listens(&store).await;
    held_by_others(&server, "a");
    server.cli(&["ACL", "LOG", "RESET"]);
    for _ in 0..3 {
        let request = waits("a", Some(subscription.listener));
        let answer = store.acquire(&request, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    }
    let log = format!("{:?}", server.cli(&["ACL", "LOG"]));
    assert_eq!(log.matches("'channel'").count() + log.matches("\"channel\"").count(), 1, "{log}");
    server.cli(&["DEL", "reg:a"]);
    let mine = token();
    let _ = granted(acquire(&store, "a", mine).await);
    assert_eq!(release(&store, "a", mine).await.expect("it answers"), Released::Held);
    assert!(ear.heard().is_empty());
}

#[tokio::test]
async fn on_a_cluster_a_message_reaches_whoever_waits_whichever_server_said_it() {
    let cluster = RedisCluster::start();
    let store = store(&cluster.url());
    let (ear, subscription) = listens(&store).await;
    let names = ["a", "b", "c", "d"];
    let mut waiting = Vec::new();
    for name in names {
        let holder = token();
        let _ = granted(acquire(&store, name, holder).await);
        waiting.push((name, holder, wish(&store, name, subscription.listener).await));
    }
    for (name, holder, waiter) in waiting {
        assert_eq!(release(&store, name, holder).await.expect("it answers"), Released::Held);
        let turn = Wakeup::Turn(waiter.token);
        ear.until("its turn", |ear| ear.heard().contains(&turn)).await;
    }
    for server in cluster.servers() {
        let said = server.cli(&["PUBLISH", "reg-channel", "reg:a"]);
        assert!(matches!(said, Value::Int(_)), "{said:?}");
    }
}
