//! RCountDownLatch on the wire. The other side are raw commands here, with the effects of Redisson's scripts; the
//! real one is in `testing/interop`.

mod support;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, Forced, Inspection, Kind, LimitSet, ListRequest,
    Mode, Novelty, SetLimitRequest, Token, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store as _, StoreErrorKind, WakeupSink};
use fencelock_testkit::{RedisCluster, RedisServer};
use support::{Ear, acquire, inspect, name, soon, store_at, token, ttl, waits};

const CHANNEL: &str = "redisson_countdownlatch__channel__{n}";

fn latches(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::RedissonLatch)
}

fn ask<A: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> A {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(&mut server.connect()).expect("the server answers")
}

async fn sets_up(store: &RedisStore, at: &str, count: u32) -> Option<u32> {
    let request = SetLimitRequest::new(name(at), count);
    match store.set_limit(&request, soon(store)).await.expect("it answers").answer {
        LimitSet::Set { before, .. } => before,
        other => panic!("{other:?}"),
    }
}

async fn counts_down(store: &RedisStore, token: Token) -> Novelty {
    let mut request = AcquireRequest::new(name("n"), token, ttl(60_000));
    request.mode = Mode::CountDown { count: 2 };
    match store.acquire(&request, soon(store)).await.expect("it answers").answer {
        Acquired::Granted(grant) => grant.novelty,
        other => panic!("{other:?}"),
    }
}

async fn is_open(store: &RedisStore) -> bool {
    let mut request = AcquireRequest::new(name("n"), token(), ttl(60_000));
    request.mode = Mode::Opening { count: 2 };
    match store.acquire(&request, soon(store)).await.expect("it answers").answer {
        Acquired::Granted(_) => true,
        Acquired::Busy(busy) => {
            assert_eq!(busy.holder.kind, Kind::Latch);
            false
        }
        other => panic!("{other:?}"),
    }
}

async fn missing(store: &RedisStore) -> Option<u32> {
    match inspect(store, "n").await {
        Inspection::Held(holder) => holder.sharing.and_then(|sharing| sharing.limit),
        Inspection::Free { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_latch_is_a_number_that_is_gone_when_it_opens_and_each_change_is_told() {
    let server = RedisServer::start();
    let store = latches(&server);
    assert!(is_open(&store).await, "nobody set it up");
    let monitor = server.monitor();
    assert_eq!(sets_up(&store, "n", 2).await, None);
    assert_eq!(sets_up(&store, "n", 7).await, Some(2), "it stays as it is");
    assert_eq!(ask::<String>(&server, &["GET", "n"]), "2");
    assert!(!is_open(&store).await);
    assert_eq!(counts_down(&store, token()).await, Novelty::Fresh);
    assert_eq!(missing(&store).await, Some(1));
    // A step of theirs.
    assert_eq!(ask::<i64>(&server, &["DECR", "n"]), 0);
    server.cli(&["DEL", "n"]);
    assert!(is_open(&store).await && missing(&store).await.is_none());
    assert_eq!(sets_up(&store, "n", 1).await, None);
    assert_eq!(counts_down(&store, token()).await, Novelty::Fresh);
    assert_eq!(ask::<i64>(&server, &["EXISTS", "n", "{n}:fencelock_steps"]), 0);
    let said = monitor.take();
    let said = said.iter().filter(|seen| seen.name() == "PUBLISH").map(|seen| &seen.args[1..]);
    let said: Vec<String> =
        said.map(|args| String::from_utf8_lossy(&args.concat()).into()).collect();
    assert_eq!(said, [1, 1, 0].map(|what| format!("{CHANNEL}{what}")));
}

#[tokio::test]
async fn a_step_that_is_sent_twice_counts_once_and_is_forgotten_with_its_use() {
    let server = RedisServer::builder().clock().start();
    let store = latches(&server);
    let step = token();
    assert_eq!(sets_up(&store, "n", 3).await, None);
    assert_eq!(counts_down(&store, step).await, Novelty::Fresh);
    assert_eq!(counts_down(&store, step).await, Novelty::Repeated);
    assert_eq!(missing(&store).await, Some(2));
    // They open it, and set it up anew: it is another use.
    server.cli(&["DEL", "n"]);
    server.cli(&["SET", "n", "3"]);
    assert_eq!(counts_down(&store, step).await, Novelty::Fresh);
    assert_eq!(missing(&store).await, Some(2));
    let left: i64 = ask(&server, &["PTTL", "{n}:fencelock_steps"]);
    assert!((1..=60_000).contains(&left), "{left}");
    // On an open one nothing is counted, nor remembered.
    server.cli(&["DEL", "n"]);
    assert_eq!(counts_down(&store, step).await, Novelty::Fresh);
    assert_eq!(ask::<i64>(&server, &["EXISTS", "n", "{n}:fencelock_steps"]), 0);
}

#[tokio::test]
async fn all_who_wait_are_told_when_it_opens() {
    let server = RedisServer::start();
    let store = latches(&server);
    let ear = Arc::new(Ear::default());
    let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
    let listening = store.listen(sink, soon(&store)).await.expect("it listens");
    assert_eq!(sets_up(&store, "n", 1).await, None);
    let waiters = [(); 3].map(|()| {
        let mut waiter = waits("n", Some(listening.listener));
        waiter.mode = Mode::Opening { count: 1 };
        waiter
    });
    for waiter in &waiters {
        let answer = store.acquire(waiter, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
    }
    server.cli(&["DEL", "n"]);
    server.cli(&["PUBLISH", CHANNEL, "0"]);
    ear.until("all are told", |ear| {
        waiters.iter().all(|waiter| ear.heard().contains(&Wakeup::Turn(waiter.token)))
    })
    .await;
}

#[tokio::test]
async fn what_is_no_latch_is_left_alone_and_told() {
    let server = RedisServer::start();
    let store = latches(&server);
    for (plant, says) in [(&["SET", "n", "flower"][..], "string"), (&["RPUSH", "n", "1"], "list")] {
        server.cli(&["DEL", "n"]);
        server.cli(plant);
        let before = format!("{:?}", server.cli(&["DUMP", "n"]));
        let mut request = AcquireRequest::new(name("n"), token(), ttl(60_000));
        for mode in [Mode::CountDown { count: 2 }, Mode::Opening { count: 2 }] {
            request.mode = mode;
            let answer = store.acquire(&request, soon(&store)).await.expect("it answers").answer;
            assert!(matches!(answer, Acquired::Foreign(_)), "{says}: {answer:?}");
        }
        let set_up = SetLimitRequest::new(name("n"), 2);
        let answer = store.set_limit(&set_up, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, LimitSet::Foreign(_)), "{says}: {answer:?}");
        let force = ForceReleaseRequest::new(name("n"));
        let answer = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Forced::Foreign(_)), "{says}: {answer:?}");
        assert!(matches!(inspect(&store, "n").await, Inspection::Foreign(_)), "{says}");
        assert_eq!(format!("{:?}", server.cli(&["DUMP", "n"])), before);
    }
    let error = acquire(&store, "n", token()).await.expect_err("it is no lock");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}

#[tokio::test]
async fn latches_that_are_shut_are_listed_and_opened_by_force() {
    let server = RedisServer::start();
    let store = latches(&server);
    for at in ["n", "o"] {
        assert_eq!(sets_up(&store, at, 2).await, None);
    }
    let _ = counts_down(&store, token()).await;
    let page = store.list(&ListRequest::new(""), soon(&store)).await.expect("it answers").answer;
    let mut names: Vec<_> = page.locks.iter().map(|(name, _)| name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["n", "o"]);
    let force = ForceReleaseRequest::new(name("n"));
    let answer = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(answer, Forced::Removed(_)), "{answer:?}");
    assert!(is_open(&store).await);
    let answer = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(answer, Forced::WasFree), "{answer:?}");
}

#[tokio::test]
async fn on_a_cluster_a_latch_and_our_steps_are_in_one_slot() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::RedissonLatch);
    for at in ["a", "b", "c", "{d}e"] {
        assert_eq!(sets_up(&store, at, 2).await, None);
        let mut request = AcquireRequest::new(name(at), token(), ttl(60_000));
        request.mode = Mode::CountDown { count: 2 };
        let answer = store.acquire(&request, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
        assert_eq!(sets_up(&store, at, 2).await, Some(1));
    }
}
