//! A cluster of three primaries: names of all slots, sets, slots that move with a lock held.

mod support;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    task::Poll,
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, Forced, Inspection, ListRequest, Released,
    RenewRequest, Renewed, RevokeRequest, Revoked, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Outcome, Store, StoreErrorKind};
use fencelock_testkit::{FakeServer, RedisCluster, RedisServer, Reply, eventually};
use support::{
    DIALECTS, Ear, acquire, granted, inspect, key_of, name, names, release, renew, soon, store_at,
    take, token, ttl, waits,
};

/// How long a fail-over may take on a starved machine.
const FAILOVER_WITHIN: Duration = Duration::from_secs(60);

/// The slot of a name, and the server that has it.
fn place(cluster: &RedisCluster, dialect: Dialect, at: &str) -> (u16, usize) {
    let slot = cluster.slot(&key_of(dialect, &name(at)));
    (slot, cluster.primary(slot))
}

/// Names of every primary.
fn spread() -> Vec<String> {
    (0..40).map(|number| format!("job:{number}")).collect()
}

#[tokio::test]
async fn names_of_every_server_are_taken_renewed_listed_and_given_back() {
    let cluster = RedisCluster::start();
    for dialect in DIALECTS {
        let store = store_at(&cluster.url(), dialect);
        let all: Vec<_> = spread().into_iter().map(|at| (at, token())).collect();
        let servers: BTreeSet<_> =
            all.iter().map(|(at, _)| place(&cluster, dialect, at).1).collect();
        assert_eq!(servers.len(), 3, "the names are on all servers");
        for (at, token) in &all {
            let _ = take(&store, at, *token).await;
        }
        let mut batch: Vec<_> = all
            .iter()
            .map(|(at, token)| RenewRequest::new(name(at), *token, ttl(60_000)))
            .collect();
        batch.insert(7, RenewRequest::new(name("job:7"), token(), ttl(60_000)));
        let renewed = store.renew(&batch, soon(&store)).await.expect("the servers answer").answer;
        assert_eq!(renewed.len(), 41);
        for (index, renewed) in renewed.iter().enumerate() {
            let is_held = matches!(renewed, Renewed::Extended { .. });
            assert_eq!(is_held, index != 7, "{index}: {renewed:?}");
        }
        let mut listed = BTreeSet::new();
        let mut request = ListRequest::new("job:");
        request.limit = 5;
        loop {
            let page = store.list(&request, soon(&store)).await.expect("the servers answer").answer;
            listed.extend(page.locks.iter().map(|(name, _)| name.to_string()));
            request.cursor = page.next;
            if request.cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, spread().into_iter().collect::<BTreeSet<_>>(), "{dialect}");
        for (at, token) in &all[1..] {
            assert_eq!(release(&store, at, *token).await.ok(), Some(Released::Held), "{at}");
        }
        let request = ForceReleaseRequest::new(name("job:0"));
        let forced = store.force_release(&request, soon(&store)).await.expect("an answer").answer;
        assert!(matches!(forced, Forced::Removed(_)), "{forced:?}");
        assert!(matches!(inspect(&store, "job:0").await, Inspection::Free { .. }));
    }
}

/// Scenario KEY: names with braces of all kinds, and bytes that are no text, live their whole life
/// on a cluster; what a waiter listens to is in the slot of the lock.
#[tokio::test]
async fn any_name_lives_and_its_channel_is_in_its_slot() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    let long = "x".repeat(512);
    let texts: [&[u8]; 16] = [
        b"job:{1}",
        b"{job}:1",
        b"job:{}:1",
        b"{}job",
        b"job:{1",
        b"job}:{1}",
        b"{{x}}",
        b"a{b}c{d}",
        b"}{",
        b"{",
        b"\0",
        b"\xff\xfe",
        b" a b\n",
        "e\u{301}🔒".as_bytes(),
        b"!boot",
        long.as_bytes(),
    ];
    for text in texts {
        let at = name(text);
        let (holder, waiter) = (token(), token());
        let request = AcquireRequest::new(at.clone(), holder, ttl(30_000));
        let _ = granted(store.acquire(&request, soon(&store)).await);
        let mut request = waits("x", Some(subscription.listener));
        request.token = waiter;
        request.names = at.clone().into();
        let asked = store.acquire(&request, soon(&store)).await.expect("an answer").answer;
        assert!(matches!(asked, Acquired::Queued(_)), "{at}: {asked:?}");
        let gone = fencelock_core::ReleaseRequest::new(at.clone(), holder);
        let gone = store.release(&gone, soon(&store)).await.expect("an answer").answer;
        assert_eq!(gone, Released::Held, "{at}");
        ear.until("the waiter is told", |ear| {
            ear.heard()
                .iter()
                .any(|heard| matches!(heard, Wakeup::Granted(hand_off) if hand_off.token == waiter))
        })
        .await;
        let gone = fencelock_core::ReleaseRequest::new(at.clone(), waiter);
        let gone = store.release(&gone, soon(&store)).await.expect("an answer").answer;
        assert_eq!(gone, Released::Held, "{at}");
    }
    // Every channel that somebody listens to is at the server that has its slot.
    let mut channels = 0;
    for (index, server) in cluster.servers().iter().enumerate() {
        let mut connection = server.connect();
        let here: Vec<Vec<u8>> =
            redis::cmd("PUBSUB").arg("SHARDCHANNELS").query(&mut connection).expect("an answer");
        for channel in &here {
            assert_eq!(cluster.primary(cluster.slot(channel)), index);
        }
        channels += here.len();
    }
    assert!(channels > 10, "a channel for each slot: {channels}");
    assert_eq!(ear.broken(), 0);
}

#[tokio::test]
async fn a_set_in_one_slot_is_taken_and_one_across_slots_is_refused_unsent() {
    let cluster = RedisCluster::start();
    for dialect in DIALECTS {
        let store = store_at(&cluster.url(), dialect);
        let (one, mine) = (names(&["{order:1}:a", "{order:1}:b"]), token());
        let _ = granted(
            store.acquire(&AcquireRequest::new(one, mine, ttl(30_000)), soon(&store)).await,
        );
        let monitors: Vec<_> = cluster.servers().iter().map(RedisServer::monitor).collect();
        let request = AcquireRequest::new(names(&["alpha", "beta"]), token(), ttl(30_000));
        let error = store.acquire(&request, soon(&store)).await.expect_err("two slots");
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::CrossSlot, Outcome::NotDone));
        for part in ["`alpha`", "`beta`", "{order}", "across_slots"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        for monitor in monitors {
            let seen = monitor.take();
            assert!(!seen.iter().any(|seen| seen.text().concat().contains("alpha")), "{seen:?}");
        }
    }
}

#[tokio::test]
async fn the_parts_of_a_set_are_its_slots_in_an_order_of_their_own() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let all: Vec<String> = spread().into_iter().chain(["{job:1}b".to_owned()]).collect();
    let parts = store.parts(&names(&all.iter().map(String::as_str).collect::<Vec<_>>()));
    let mut last = None;
    let mut count = 0;
    for part in parts {
        let slots: BTreeSet<u16> =
            part.iter().map(|at| cluster.slot(&key_of(Dialect::Native, at))).collect();
        assert_eq!(slots.len(), 1, "{part}");
        let slot = slots.first().copied();
        assert!(slot > last, "{part}");
        last = slot;
        count += part.len();
    }
    assert_eq!(count, all.len());
}

#[tokio::test]
async fn a_lock_that_is_held_moves_with_its_slot_and_every_verb_follows() {
    let cluster = RedisCluster::start();
    for dialect in DIALECTS {
        let store = store_at(&cluster.url(), dialect);
        let mine = token();
        let _ = take(&store, "job", mine).await;
        let (slot, from) = place(&cluster, dialect, "job");
        let to = (from + 1) % 3;
        cluster.begin_move(slot, to);
        // Not moved yet: the old server answers.
        assert!(matches!(renew(&store, "job", mine).await, Ok(Renewed::Extended { .. })));
        cluster.migrate_keys(slot, to);
        // ASK, again and again.
        for _ in 0..3 {
            assert!(matches!(renew(&store, "job", mine).await, Ok(Renewed::Extended { .. })));
            assert!(matches!(
                acquire(&store, "job", token()).await.map(|r| r.answer),
                Ok(Acquired::Busy(_))
            ));
        }
        assert!(matches!(inspect(&store, "job").await, Inspection::Held(_)));
        cluster.end_move(slot, to);
        // MOVED, once.
        assert!(matches!(renew(&store, "job", mine).await, Ok(Renewed::Extended { .. })));
        let before = cluster.servers()[from].monitor();
        assert!(matches!(renew(&store, "job", mine).await, Ok(Renewed::Extended { .. })));
        assert_eq!(release(&store, "job", mine).await.ok(), Some(Released::Held));
        let seen = before.take();
        assert!(
            !seen.iter().any(|seen| seen.text().concat().contains("job")),
            "the map was mended"
        );
    }
}

/// TRYAGAIN: two names of one slot, one of which is on the other side already. The call waits inside
/// of its time, and is served when the move ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_is_on_both_sides_of_a_move_waits_for_its_end() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let other = token();
    let _ = take(&store, "{pair}:b", other).await;
    assert_eq!(release(&store, "{pair}:b", other).await.ok(), Some(Released::Held));
    let (slot, from) = place(&cluster, Dialect::Native, "{pair}:a");
    let to = (from + 1) % 3;
    cluster.begin_move(slot, to);
    cluster.migrate_keys(slot, to);
    // Created at the new server too, so that the old one has neither, and the new one only `b`.
    let request = AcquireRequest::new(names(&["{pair}:a", "{pair}:b"]), token(), ttl(30_000));
    let short = support::within(&store, 300);
    let error = store.acquire(&request, short).await.expect_err("only one of them is there");
    assert_eq!(
        (error.kind(), error.outcome()),
        (StoreErrorKind::Unavailable, Outcome::NotDone),
        "{error}"
    );
    let by = soon(&store);
    let (result, ()) =
        tokio::join!(store.acquire(&request, by), async { cluster.end_move(slot, to) });
    let _ = granted(result);
}

#[tokio::test]
async fn a_revoke_reaches_the_holder_that_listens_in_its_slot() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    let mine = token();
    let mut request = AcquireRequest::new(name("job"), mine, ttl(30_000));
    request.listener = Some(subscription.listener);
    let _ = granted(store.acquire(&request, soon(&store)).await);
    let request = RevokeRequest::new(name("job"));
    let asked = store.revoke(&request, soon(&store)).await;
    assert!(matches!(asked.expect("an answer").answer, Revoked::Requested(_)));
    ear.until("the holder hears it", |ear| ear.heard().contains(&Wakeup::Revoked(mine))).await;
}

/// A slot that moves ends the subscription (`sunsubscribe`): the listener hears that it is broken,
/// and the answers to requests are still those that were asked for.
#[tokio::test]
async fn a_slot_that_moves_breaks_its_listener_and_no_answer_goes_astray() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    let holder = token();
    let _ = take(&store, "job", holder).await;
    let mut waiting = waits("job", Some(subscription.listener));
    let queued = store.acquire(&waiting, soon(&store)).await.expect("an answer").answer;
    assert!(matches!(queued, Acquired::Queued(_)), "{queued:?}");
    let (slot, from) = place(&cluster, Dialect::Native, "job");
    cluster.move_slot(slot, (from + 1) % 3);
    ear.until("the listener is broken", |ear| ear.broken() == 1).await;
    for _ in 0..20 {
        assert!(matches!(renew(&store, "job", holder).await, Ok(Renewed::Extended { .. })));
    }
    // As its client does: listen again, and ask once for the place, which was kept.
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    waiting.listener = Some(subscription.listener);
    match store.acquire(&waiting, soon(&store)).await.expect("an answer").answer {
        Acquired::Queued(queued) => assert_eq!(queued.position, 1),
        other => panic!("the place is gone: {other:?}"),
    }
    assert_eq!(release(&store, "job", holder).await.ok(), Some(Released::Held));
    ear.until("the waiter is told at the new server", |ear| {
        ear.heard().iter().any(|heard| matches!(heard, Wakeup::Granted(_)))
    })
    .await;
}

#[tokio::test]
async fn a_cluster_with_a_password_wants_it_on_every_connection() {
    let cluster = RedisCluster::builder().password("s3cret").start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let ear = Arc::new(Ear::default());
    let _subscription = store.listen(ear, soon(&store)).await.expect("a subscription");
    for at in spread() {
        let _ = take(&store, &at, token()).await;
    }
    assert!(!store.to_string().contains("s3cret"), "{store}");
    let without = cluster.url().replace(":s3cret@", "");
    let error = acquire(&store_at(&without, Dialect::Native), "job", token()).await;
    assert_eq!(error.expect_err("no password").kind(), StoreErrorKind::Denied);
}

#[tokio::test]
async fn a_server_that_stands_alone_is_no_cluster_and_the_other_way_round() {
    let server = RedisServer::start();
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = acquire(&store_at(&url, Dialect::Native), "job", token()).await;
    let error = error.expect_err("it is no cluster");
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(error.to_string().contains("redis://"), "{error}");
}

/// Goal: no name lives on one server of a cluster that was taken for all of it, also none of those
/// that it has; and what was taken before that was known can be given back. Method: each server,
/// a replica among them, by `redis://`; then as a user to whom they do not say what they are.
#[tokio::test]
async fn a_server_of_a_cluster_is_not_used_as_one_that_stands_alone() {
    let cluster = RedisCluster::builder().replicas(1).start();
    for (dialect, server) in DIALECTS.iter().flat_map(|d| cluster.servers().iter().map(|s| (*d, s)))
    {
        let (store, mine) = (store_at(&server.url(), dialect), token());
        let error = acquire(&store, "job", mine).await.expect_err("one of a cluster");
        assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
        assert!(error.to_string().contains("redis+cluster://"), "{error}");
        if error.outcome() == Outcome::Unknown {
            assert_eq!(release(&store, "job", mine).await.ok(), Some(Released::Held));
        }
        let error = store.connect(soon(&store)).await.expect_err("one of a cluster");
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
        let whole = store_at(&cluster.url(), dialect);
        assert!(matches!(inspect(&whole, "job").await, Inspection::Free { .. }));
    }
    let (_, at) = place(&cluster, Dialect::Native, "job");
    for server in cluster.servers() {
        server.cli(&["ACL", "SETUSER", "app", "on", ">p", "~*", "&*", "+@all", "-info"]);
    }
    let other = &cluster.servers()[(at + 1) % 3];
    let error =
        acquire(&store_at(&other.url_as("app", "p"), Dialect::Native), "job", token()).await;
    let error = error.expect_err("another server has the slot");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
}

/// Goal: after its end a store makes no connection, also not for a call that was under way. Method:
/// a stand-in for a server closes the store before it refuses a request, and names another server.
#[tokio::test]
async fn a_store_that_was_closed_is_not_led_to_another_server() {
    let other = RedisServer::start();
    let held: Arc<Mutex<Option<RedisStore>>> = Arc::default();
    let (closing, there) = (Arc::clone(&held), other.addr());
    let port = Arc::new(AtomicU16::new(0));
    let own = Arc::clone(&port);
    let server = FakeServer::start(move |args| match args[0].as_slice() {
        b"CLUSTER" => {
            let own = Reply::Int(own.load(Ordering::SeqCst).into());
            let primary = Reply::Array(vec![Reply::bulk("127.0.0.1"), own, Reply::bulk("id")]);
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(16_383), primary])])
        }
        b"INFO" => Reply::bulk("redis_version:7.2.0\r\nrun_id:a\r\nredis_mode:cluster\r\n"),
        b"EVAL" | b"EVALSHA" => {
            let store = closing.lock().expect("nothing panics").take().expect("asked once");
            drop(store.close());
            Reply::error(format!("ASK 1 {there}"))
        }
        _ => Reply::Usual,
    });
    let address = server.addr();
    let (_, number) = address.rsplit_once(':').expect("a host and a port");
    port.store(number.parse().expect("a number"), Ordering::SeqCst);
    let store =
        store_at(&server.url().replacen("redis://", "redis+cluster://", 1), Dialect::Native);
    *held.lock().expect("nothing panics") = Some(store.clone());
    let before = connections(&other);
    let error = acquire(&store, "job", token()).await.expect_err("it was closed");
    assert_eq!(error.kind(), StoreErrorKind::Closed, "{error}");
    assert_eq!(connections(&other), before + 1, "the connection of this look and no other");
}

/// Goal: a replica that says who has a slot is heard, although nothing else that it says counts.
/// Method: a primary becomes a replica, for a store that may not ask for a new map.
#[tokio::test]
async fn a_replica_that_names_the_primary_of_a_slot_is_followed() {
    let cluster = RedisCluster::builder().replicas(1).start();
    for dialect in DIALECTS {
        // Of the primary that has a replica.
        let is_there = |at: &&String| cluster.slot(&key_of(dialect, &name(at))) < 5_000;
        let all = spread();
        let at = all.iter().find(is_there).expect("a name of the first primary");
        let store = store_at(&cluster.url(), dialect);
        let mine = token();
        let _ = take(&store, at, mine).await;
        for server in cluster.servers() {
            server.cli(&["ACL", "SETUSER", "default", "-cluster"]);
        }
        let (_, old) = place(&cluster, dialect, at);
        let old = &cluster.servers()[old];
        fail_over(&cluster, old);
        // So that the next request is the first on a connection that knows it for a replica.
        old.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let renewed = renew(&store, at, mine).await.expect("the new primary answers");
        assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
        for server in cluster.servers() {
            server.cli(&["ACL", "SETUSER", "default", "+cluster"]);
        }
        assert_eq!(release(&store, at, mine).await.ok(), Some(Released::Held));
    }
}

/// Has a replica of a primary take its place, with its data.
fn fail_over(cluster: &RedisCluster, old: &RedisServer) {
    let role = |server: &RedisServer| format!("{:?}", server.cli(&["ROLE"]));
    let is_its = |server: &&RedisServer| {
        let role = role(server);
        role.contains("slave") && role.contains(&old.port().to_string())
    };
    let replica = cluster.servers().iter().find(is_its).expect("it has a replica");
    let is_primary = || role(replica).contains("master") && role(old).contains("slave");
    eventually(FAILOVER_WITHIN, "the replica is connected", || role(replica).contains("connected"));
    old.cli(&["WAIT", "1", "10000"]);
    replica.cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    eventually(FAILOVER_WITHIN, "the replica is the primary", is_primary);
}

fn connections(server: &RedisServer) -> u64 {
    let info: String = redis::from_redis_value(server.cli(&["INFO", "stats"])).expect("text");
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a count")
}

/// Goal: requests reach the store in the order of their first polls, also when nobody knows the
/// slots yet. Method: an acquire and its release, polled one after the other on a fresh store.
#[tokio::test]
async fn the_first_requests_of_a_store_keep_their_order() {
    let cluster = RedisCluster::start();
    for _ in 0..10 {
        let store: RedisStore = store_at(&cluster.url(), Dialect::Native);
        let mine = token();
        let request = AcquireRequest::new(name("job"), mine, ttl(30_000));
        let gone = fencelock_core::ReleaseRequest::new(name("job"), mine);
        let by = soon(&store);
        let mut taking = store.acquire(&request, by);
        let first = std::future::poll_fn(|cx| Poll::Ready(taking.as_mut().poll(cx).is_pending()));
        assert!(first.await, "it is on its way");
        let gone = store.release(&gone, by);
        let (taken, gone) = tokio::join!(taking, gone);
        let _ = granted(taken);
        assert_eq!(gone.expect("an answer").answer, Released::Held);
    }
}

/// The old server of a slot on the move refuses every name of a key that is not there, also inside
/// of a script: one that deletes a key to write it anew would lose a lease. So whoever comes to wait
/// first is told that the lock is busy, and has its place once the key has moved.
#[tokio::test]
async fn the_first_waiter_of_a_moving_slot_polls_and_the_lease_stays() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let holder = token();
    let _ = take(&store, "job", holder).await;
    let (slot, from) = place(&cluster, Dialect::Native, "job");
    let to = (from + 1) % 3;
    cluster.begin_move(slot, to);
    let waiting = waits("job", None);
    let asked = store.acquire(&waiting, soon(&store)).await.expect("an answer").answer;
    assert!(matches!(asked, Acquired::Busy(_)), "{asked:?}");
    assert!(matches!(renew(&store, "job", holder).await, Ok(Renewed::Extended { .. })));
    cluster.migrate_keys(slot, to);
    let asked = store.acquire(&waiting, soon(&store)).await.expect("an answer").answer;
    assert!(matches!(asked, Acquired::Queued(_)), "{asked:?}");
    // A release at the new server does not take those for dead who listen at the old one.
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    let mut waiting = waiting;
    waiting.listener = Some(subscription.listener);
    let asked = store.acquire(&waiting, soon(&store)).await.expect("an answer").answer;
    assert!(matches!(asked, Acquired::Queued(_)), "{asked:?}");
    assert_eq!(release(&store, "job", holder).await.ok(), Some(Released::Held));
    let handed = store.acquire(&waiting, soon(&store)).await.expect("an answer").answer;
    match handed {
        Acquired::Granted(grant) => {
            assert_eq!(grant.novelty, fencelock_core::Novelty::Repeated, "it was handed over");
        }
        other => panic!("it was passed over: {other:?}"),
    }
    cluster.end_move(slot, to);
    assert!(matches!(renew(&store, "job", waiting.token).await, Ok(Renewed::Extended { .. })));
}

#[tokio::test]
async fn a_server_that_is_away_spoils_no_renewal_on_the_others() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let all: Vec<_> = spread().into_iter().map(|at| (at, token())).collect();
    for (at, token) in &all {
        let _ = take(&store, at, *token).await;
    }
    let servers: Vec<usize> =
        all.iter().map(|(at, _)| place(&cluster, Dialect::Native, at).1).collect();
    cluster.servers()[2].kill();
    let batch: Vec<_> =
        all.iter().map(|(at, token)| RenewRequest::new(name(at), *token, ttl(60_000))).collect();
    let by = support::within(&store, 500);
    let renewed = store.renew(&batch, by).await.expect("two servers answer").answer;
    for ((at, server), renewed) in all.iter().zip(&servers).zip(&renewed) {
        match server {
            2 => assert_eq!(*renewed, Renewed::Unknown, "{at:?}"),
            _ => assert!(matches!(renewed, Renewed::Extended { .. }), "{at:?}: {renewed:?}"),
        }
    }
    let gone = all.iter().zip(&servers).find(|(_, server)| **server == 2).expect("there is one");
    let request = AcquireRequest::new(name(&gone.0.0), token(), ttl(30_000));
    let error = store.acquire(&request, support::within(&store, 300)).await;
    assert_eq!(error.expect_err("it is away").kind(), StoreErrorKind::Unavailable);
    cluster.servers()[2].restart();
    cluster.wait_until_agreed();
    let _ = granted(store.acquire(&request, soon(&store)).await);
}

/// The rights of the readme are enough on a cluster, moves and messages among it.
#[tokio::test]
async fn the_rights_of_the_readme_are_enough() {
    let readme = include_str!("../README.md");
    let rights = include_str!("../../../docs/operating/acl.md");
    let after = readme.split("and on a cluster also").nth(1).expect("the readme has them");
    let more = after.split('`').nth(1).expect("in code");
    let line = rights.lines().find(|line| line.contains("~fencelock:*")).expect("the native line");
    let rules = line.split_once("user fencelock ").expect("a user").1;
    let cluster =
        RedisCluster::builder().config("user", &format!("fencelock {rules} {more}")).start();
    let url = cluster.url().replace("://", "://fencelock:secret@");
    let store = store_at(&url, Dialect::Native);
    let _ = store.connect(soon(&store)).await.expect("it may");
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    let (holder, waiting) = (token(), waits("job", Some(subscription.listener)));
    let _ = take(&store, "job", holder).await;
    let (slot, from) = place(&cluster, Dialect::Native, "job");
    let to = (from + 1) % 3;
    cluster.begin_move(slot, to);
    cluster.migrate_keys(slot, to);
    assert!(matches!(renew(&store, "job", holder).await, Ok(Renewed::Extended { .. })));
    cluster.end_move(slot, to);
    let asked = store.acquire(&waiting, soon(&store)).await.expect("an answer").answer;
    assert!(matches!(asked, Acquired::Queued(_)), "{asked:?}");
    assert_eq!(release(&store, "job", holder).await.ok(), Some(Released::Held));
    ear.until("the waiter is told", |ear| {
        ear.heard().iter().any(|heard| matches!(heard, Wakeup::Granted(_)))
    })
    .await;
    let page = store.list(&ListRequest::new(""), soon(&store)).await;
    let _ = page.expect("it may list");
}

/// Goal: any one server is enough to find the others, also one that is a replica at present: after a
/// failover that is what the server of the URL is. Method: a URL that names nothing else.
#[tokio::test]
async fn a_replica_tells_where_the_primaries_are() {
    let cluster = RedisCluster::builder().replicas(1).start();
    let replica = cluster.servers().last().expect("a replica").url();
    let store = store_at(&replica.replacen("redis://", "redis+cluster://", 1), Dialect::Native);
    for at in spread() {
        let _ = take(&store, &at, token()).await;
    }
}
