//! Sentinels, fail-overs and servers that are not the primary.

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

use fencelock_core::{Acquired, InspectRequest, Inspection, ListRequest, Released, Renewed};
use fencelock_redis::Dialect;
use fencelock_store::{Outcome, Store, StoreErrorKind, rt};
use fencelock_testkit::{FakeServer, RedisServer, Replicated, Reply, eventually};
use support::{
    DIALECTS, Ear, acquire, granted, inspect, name, release, renew, soon, store_at, take, token,
    ttl, whole, within,
};

/// How long a whole fail-over may take on a starved machine.
const FAILOVER_WITHIN: Duration = Duration::from_secs(60);

/// Runs a blocking step of the bench without blocking the store's connections.
async fn aside<T: Send>(step: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let step = scope.spawn(step);
        step.join().expect("the step does not panic")
    })
}

#[tokio::test]
async fn the_primary_is_found_by_its_sentinels() {
    let service = Replicated::start(1);
    for dialect in DIALECTS {
        let store = store_at(&service.url(), dialect);
        let (at, holder) = (dialect.name(), token());
        let _ = take(&store, at, holder).await;
        let direct = store_at(&service.primary().url(), dialect);
        assert!(matches!(inspect(&direct, at).await, Inspection::Held(_)), "it is on the primary");
        assert_eq!(release(&store, at, holder).await.expect("it answers"), Released::Held);
    }
    let store = store_at(&service.url(), Dialect::Native);
    assert!(store.to_string().starts_with("redis+sentinel://127.0.0.1:"), "{store}");
}

#[tokio::test]
async fn sentinels_that_are_gone_cost_little_and_the_others_are_asked() {
    let service = Replicated::start(1);
    let [frozen, killed, _] = service.sentinels() else { panic!("three sentinels") };
    let primary = service.primary();
    frozen.stop_signal();
    killed.kill();
    let store = store_at(&service.url(), Dialect::Native);
    let request = fencelock_core::AcquireRequest::new(name("k"), token(), ttl(30_000));
    let _ = granted(store.acquire(&request, within(&store, 5_000)).await);
    // The one that answered is asked first from now on.
    primary.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    rt::sleep(Duration::from_millis(20)).await;
    assert!(matches!(inspect(&store, "k").await, Inspection::Held(_)));
    frozen.cont();
}

#[tokio::test]
async fn without_any_sentinel_the_error_says_what_each_of_them_said() {
    let service = Replicated::start(1);
    for sentinel in service.sentinels() {
        sentinel.kill();
    }
    let store = store_at(&service.url(), Dialect::Native);
    let error = acquire(&store, "k", token()).await.expect_err("nobody answers");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unavailable, Outcome::NotDone));
    for sentinel in service.sentinels() {
        assert!(whole(&error).contains(&sentinel.addr()), "{}", whole(&error));
    }
}

#[tokio::test]
async fn a_service_that_no_sentinel_watches_is_a_mistake_in_the_url() {
    let service = Replicated::start(1);
    let url = service.url().replace("/fencelock", "/fencelok");
    let error = acquire(&store_at(&url, Dialect::Native), "k", token()).await.expect_err("unknown");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
    assert!(error.to_string().contains("fencelok"), "{error}");
}

#[tokio::test]
async fn credentials_of_sentinels_and_of_the_primary_are_two() {
    let service =
        Replicated::start_with(1, 3, true, |server| server.acl_user("app", "on >data ~* &* +@all"));
    for sentinel in service.sentinels() {
        sentinel.cli(&["ACL", "SETUSER", "finder", "on", ">finding", "+@all"]);
        sentinel.cli(&["ACL", "SETUSER", "default", "off"]);
    }
    let hosts = service.url().replace("sentinel://", "sentinel://app:data@");
    let store =
        store_at(&format!("{hosts}?sentinel_user=finder&sentinel_pass=finding"), Dialect::Native);
    let _ = take(&store, "k", token()).await;
    let error =
        acquire(&store_at(&hosts, Dialect::Native), "k", token()).await.expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{}", whole(&error));
    assert!(error.to_string().contains("sentinel_pass"), "{error}");
    let wrong = format!("{hosts}?sentinel_user=finder&sentinel_pass=hunter2");
    let error =
        acquire(&store_at(&wrong, Dialect::Native), "k", token()).await.expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{}", whole(&error));
    assert!(!whole(&error).contains("hunter2"), "{}", whole(&error));
}

/// Goal: an answer of a replica is no answer, for no verb, behind any URL. Method: a store whose URL
/// leads to a replica, with a lock that is held at the primary and replicated.
#[tokio::test]
async fn a_replica_is_never_believed() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    for dialect in DIALECTS {
        let (at, holder) = (dialect.name(), token());
        let _ = take(&store_at(&primary.url(), dialect), at, holder).await;
        primary.cli(&["WAIT", "1", "10000"]);
        // Each a store of its own: what the connection has learned must not help.
        let store = || store_at(&replica.url(), dialect);
        let busy = acquire(&store(), at, token()).await.expect_err("an acquire");
        let free = acquire(&store(), "free", token()).await.expect_err("an acquire that writes");
        let renewed = renew(&store(), at, holder).await.expect_err("a renewal");
        let released = release(&store(), at, holder).await.expect_err("a release");
        let reader = store();
        let seen = reader.inspect(&InspectRequest::new(name(at)), soon(&reader)).await;
        let reader = store();
        let listed = reader.list(&ListRequest::new(""), soon(&reader)).await;
        let reader = store();
        let connected = reader.connect(soon(&reader)).await;
        let errors = [
            busy,
            free,
            renewed,
            released,
            seen.expect_err("a look"),
            listed.expect_err("a list"),
            connected.expect_err("a connect"),
        ];
        for error in errors {
            let kind = (error.kind(), error.outcome());
            assert_eq!(kind, (StoreErrorKind::Unavailable, Outcome::NotDone), "{}", whole(&error));
            assert!(error.to_string().contains("replica"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_replica_is_not_called_as_fast_as_it_answers() {
    let service = Replicated::without_sentinels(1);
    let replica = &service.servers()[1];
    let store = store_at(&replica.url(), Dialect::Native);
    let before = connections(replica);
    let end = std::time::Instant::now() + Duration::from_millis(1_500);
    while std::time::Instant::now() < end {
        let _ = acquire(&store, "k", token()).await.expect_err("a replica");
    }
    let made = connections(replica) - before;
    assert!(made < 40, "{made} connections in a second and a half");
}

fn connections(server: &RedisServer) -> u64 {
    let info: String = redis::from_redis_value(server.cli(&["INFO", "stats"])).expect("text");
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a count")
}

/// Goal: a server that is made a replica under open connections is left within one call, and one
/// that is made a primary is used. Method: roles swapped by hand, which closes no connection.
#[tokio::test]
async fn a_demoted_primary_is_left_with_its_connections_open() {
    let service = Replicated::without_sentinels(1);
    let [first, second] = service.servers() else { panic!("two servers") };
    let (listening, holder) = (store_at(&first.url(), Dialect::Native), token());
    let ear = Arc::new(Ear::default());
    let _ = take(&listening, "k", holder).await;
    let sink = Arc::clone(&ear);
    let _subscription = listening.listen(sink, soon(&listening)).await.expect("it listens");
    first.cli(&["WAIT", "1", "10000"]);
    second.cli(&["REPLICAOF", "NO", "ONE"]);
    first.cli(&["REPLICAOF", "127.0.0.1", &second.port().to_string()]);
    let error = renew(&listening, "k", holder).await.expect_err("a replica now");
    let kind = (error.kind(), error.outcome());
    assert_eq!(kind, (StoreErrorKind::Unavailable, Outcome::NotDone), "{}", whole(&error));
    assert_eq!(ear.broken(), 1, "who listens there is told");
    first.cli(&["REPLICAOF", "NO", "ONE"]);
    let renewed = renew(&listening, "k", holder).await.expect("a primary again");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
}

/// Goal: a fail-over is followed: the lease that was replicated is renewed at the new primary, new
/// grants come from there, with larger fencing tokens. Method: the primary is killed.
#[tokio::test]
async fn a_killed_primary_is_followed() {
    let service = Replicated::start(1);
    let store = store_at(&service.url(), Dialect::Native);
    let holder = token();
    let grant = take(&store, "k", holder).await;
    let old = service.primary();
    old.cli(&["WAIT", "1", "10000"]);
    old.kill();
    // In one call: it is sent again until a primary answers.
    let renewed = renew_long(&store, "k", holder).await;
    assert!(matches!(renewed, Renewed::Extended { .. }), "it was replicated: {renewed:?}");
    let busy = acquire(&store, "k", token()).await.expect("it answers").answer;
    assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
    assert_eq!(release(&store, "k", holder).await.expect("it answers"), Released::Held);
    let next = take(&store, "k", token()).await;
    assert!(next.fence.token() > grant.fence.token(), "{next:?} after {grant:?}");
    assert_ne!(service.primary().port(), old.port());
}

async fn renew_long(
    store: &fencelock_redis::RedisStore,
    at: &str,
    holder: fencelock_core::Token,
) -> Renewed {
    let by = store.clock().now().saturating_add(FAILOVER_WITHIN);
    let batch = [fencelock_core::RenewRequest::new(name(at), holder, ttl(60_000))];
    store.renew(&batch, by).await.expect("a primary answers").answer[0].clone()
}

/// Goal: no connection is kept across a change of role, also not by a runtime that asks nothing
/// meanwhile. Method: the primary is frozen; one runtime follows; the idle one asks after it thawed.
#[test]
fn a_frozen_primary_is_left_and_not_used_again_when_it_thaws() {
    let service = Replicated::start_with(1, 3, true, |server| server);
    let store = store_at(&service.url(), Dialect::Native);
    let runtimes = [(), ()].map(|()| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime")
    });
    let [busy, idle] = &runtimes;
    let _ = idle.block_on(take(&store, "idle", token()));
    let _ = busy.block_on(take(&store, "busy", token()));
    let old = service.primary();
    old.stop_signal();
    service.await_failover_from(old.port());
    // The connection is silent; after a while another is made beside it, and leads elsewhere.
    let limit = std::time::Instant::now() + FAILOVER_WITHIN;
    let holder = loop {
        assert!(std::time::Instant::now() < limit, "the new primary is not found");
        let holder = token();
        let request = fencelock_core::AcquireRequest::new(name("k"), holder, ttl(30_000));
        let by = within(&store, 500);
        if let Ok(reply) = busy.block_on(store.acquire(&request, by)) {
            assert!(matches!(reply.answer, Acquired::Granted(_)), "{reply:?}");
            break holder;
        }
    };
    let new = service.primary();
    let direct = store_at(&new.url(), Dialect::Native);
    assert!(matches!(busy.block_on(inspect(&direct, "k")), Inspection::Held(_)));
    old.cont();
    // It may still think that it is the primary, and "k" is free there.
    let answer = idle.block_on(acquire(&store, "k", token())).expect("it answers").answer;
    assert!(matches!(answer, Acquired::Busy(_)), "by the new primary: {answer:?}");
    assert_eq!(idle.block_on(release(&store, "k", holder)).expect("it answers"), Released::Held);
}

/// Goal: a connection whose server proved to be the primary just before it was found to be none is
/// not used. Method: one runtime is connected, another asks a stand-in for the old primary who it
/// is, whose answer is held back until the first has found the demotion.
#[test]
fn a_proof_from_before_a_demotion_was_seen_is_worth_nothing() {
    let service = Replicated::without_sentinels(1);
    let [first, second] = service.servers() else { panic!("two servers") };
    let (asked, proving) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (release_proof, proof) = mpsc::channel::<()>();
    let (proof, proofs) = (Mutex::new(proof), Arc::clone(&proving));
    let old = FakeServer::start(move |args| match args[0].as_slice() {
        b"INFO" => {
            proofs.fetch_add(1, Ordering::SeqCst);
            // It ends when the test lets go.
            let _ended = proof.lock().expect("nothing panics").recv();
            Reply::bulk("redis_version:7.2.0\r\nrun_id:abc\r\nrole:master\r\n")
        }
        _ => Reply::Usual,
    });
    let (questions, named) = (Arc::clone(&asked), [first.addr(), old.addr(), second.addr()]);
    let sentinel = FakeServer::start(move |args| match args[0].as_slice() {
        b"SENTINEL" => {
            let address = match questions.fetch_add(1, Ordering::SeqCst) {
                0 => &named[0],
                1 => &named[1],
                // So that the connection that is being made is the first to be used.
                2 => return Reply::Silence,
                _ => &named[2],
            };
            let (host, port) = address.split_once(':').expect("an address");
            Reply::Array(vec![Reply::bulk(host), Reply::bulk(port)])
        }
        _ => Reply::Usual,
    });
    let url = format!("redis+sentinel://{}/fencelock", sentinel.addr());
    let store = store_at(&url, Dialect::Native);
    let [one, other] = [(), ()].map(|()| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all().build().expect("a runtime")
    });
    let _ = one.block_on(take(&store, "held", token()));

    let looking = store.clone();
    let looking = other.spawn(async move { inspect(&looking, "k").await });
    let is_proving = || proving.load(Ordering::SeqCst) > 0;
    eventually(FAILOVER_WITHIN, "a connection is being made", is_proving);
    second.cli(&["REPLICAOF", "NO", "ONE"]);
    first.cli(&["REPLICAOF", "127.0.0.1", &second.port().to_string()]);
    let writing = store.clone();
    let writing = one.spawn(async move { acquire(&writing, "k", token()).await });
    let is_seen = || asked.load(Ordering::SeqCst) > 2;
    eventually(FAILOVER_WITHIN, "the demotion is seen", is_seen);
    drop(release_proof);

    let _ = one.block_on(looking).expect("by the new primary");
    // Its sentinel was silent: this one has only found the demotion.
    let _ended = one.block_on(writing).expect("it does not panic");
    let of_locks = |args: &Vec<Vec<u8>>| args[0].starts_with(b"EVAL");
    let requests = old.take_requests();
    assert!(!requests.iter().any(of_locks), "the old one was asked: {requests:?}");
}

/// What the admission in SAFETY.md rests on: a Sentinel closes the connections of clients to a
/// server that it makes a replica.
#[tokio::test]
async fn sentinels_close_the_connections_to_a_server_that_they_demote() {
    let service = Replicated::start(1);
    let old = service.primary();
    old.stop_signal();
    aside(|| service.await_failover_from(old.port())).await;
    old.cont();
    // Made after it thawed, as by a program that knows only its address.
    let mut connection = old.connect();
    let closed = || redis::cmd("PING").query::<String>(&mut connection).is_err();
    aside(|| eventually(FAILOVER_WITHIN, "the connection is closed", closed)).await;
    let role = || format!("{:?}", old.try_cli(&["ROLE"])).contains("slave");
    aside(|| eventually(FAILOVER_WITHIN, "it is a replica", role)).await;
}
