//! Grants that count only when replicas, or a disk, have them.

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, Exchanged, Inspection, LockName, Released,
    RenewRequest, Renewed, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Outcome, Store, StoreError, StoreErrorKind, WakeupSink, rt};
use fencelock_testkit::{FakeServer, Persistence, RedisServer, Replicated, Reply};
use support::{
    DIALECTS, Ear, acquire, granted, inspect, key_of, name, release, renew, soon, store_at, take,
    token, ttl, waits, whole,
};

/// A store that wants so many replicas, and gives them time enough on a starved machine.
fn wants(server: &RedisServer, replicas: usize, within: &str, dialect: Dialect) -> RedisStore {
    let url = format!("{}?replicas={replicas}&acknowledge_within={within}", server.url());
    store_at(&url, dialect)
}

fn assert_taken_back(error: &StoreError) {
    let kind = (error.kind(), error.outcome());
    assert_eq!(kind, (StoreErrorKind::NotAcknowledged, Outcome::NotDone), "{}", whole(error));
    assert!(error.to_string().contains("given back"), "{error}");
}

/// Whether the key of a lock says that nobody holds it.
async fn is_free(server: &RedisServer, at: &str, dialect: Dialect) -> bool {
    !matches!(inspect(&store_at(&server.url(), dialect), at).await, Inspection::Held(_))
}

/// Goal: as many replicas as were asked for, and not one less. Method: each number of replicas with
/// each number wanted, in both dialects, on one and on several names.
#[tokio::test]
async fn the_count_of_replicas_is_compared_and_too_few_leave_nothing_behind() {
    for attached in 0..3_usize {
        let service = Replicated::without_sentinels(attached);
        let primary = &service.servers()[0];
        for (wanted, dialect) in (0..3_usize).flat_map(|n| DIALECTS.map(|dialect| (n, dialect))) {
            // Long where it must succeed; where it can't, the server itself says how many there are.
            let within = if wanted <= attached { "60s" } else { "50ms" };
            let store = wants(primary, wanted, within, dialect);
            for at in [vec!["k"], vec!["k", "l"]] {
                let set = support::names(&at);
                let request = AcquireRequest::new(set.clone(), token(), ttl(30_000));
                let result = store.acquire(&request, soon(&store)).await;
                if wanted <= attached {
                    let _ = granted(result);
                    let freed = fencelock_core::ReleaseRequest::new(set, request.token);
                    let freed = store.release(&freed, soon(&store)).await.expect("it answers");
                    assert_eq!(freed.answer, Released::Held, "{wanted} of {attached}");
                } else {
                    assert_taken_back(&result.expect_err("too few"));
                }
                for at in at {
                    assert!(is_free(primary, at, dialect).await, "{wanted} of {attached}: {at}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_grant_is_on_the_replica_when_it_counts() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    for dialect in DIALECTS {
        let store = wants(primary, 1, "60s", dialect);
        for number in 0..50 {
            let at = format!("{}{number}", dialect.name());
            let _ = take(&store, &at, token()).await;
            let key = key_of(dialect, &LockName::new(&at).expect("a name"));
            let there: u32 =
                redis::cmd("EXISTS").arg(key).query(&mut replica.connect()).expect("it answers");
            assert_eq!(there, 1, "{at}");
        }
    }
}

/// Goal: with the replica frozen, or gone, a grant is taken back and reported
/// within its limit; a renewal leaves the old end; and it all works again afterwards.
#[tokio::test]
async fn without_its_replica_nothing_is_granted_and_nothing_is_prolonged() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    let store = wants(primary, 1, "60s", Dialect::Native);
    let patient = wants(primary, 1, "60s", Dialect::Native);
    let holder = token();
    let _ = take(&patient, "held", holder).await;
    for what in ["frozen", "gone"] {
        match what {
            "frozen" => replica.stop_signal(),
            _ => drop(replica.cli(&["REPLICAOF", "NO", "ONE"])),
        }
        let hasty = wants(primary, 1, "50ms", Dialect::Native);
        let error = acquire(&hasty, "k", token()).await.expect_err(what);
        assert_taken_back(&error);
        // It is the replica that is missing, and not the server that says so.
        assert!(error.to_string().contains("0 of them answered in time"), "{}", whole(&error));
        assert!(is_free(primary, "k", Dialect::Native).await, "{what}");
        let error = renew(&hasty, "held", holder).await.expect_err(what);
        let kind = (error.kind(), error.outcome());
        assert_eq!(kind, (StoreErrorKind::NotAcknowledged, Outcome::Unknown), "{what}");
        // What is not held is said so without any replica.
        let lost = renew(&hasty, "other", holder).await.expect("it answers");
        assert!(matches!(lost, Renewed::NotHeld(_)), "{lost:?}");
        let both = ["held", "other"].map(|at| RenewRequest::new(name(at), holder, ttl(60_000)));
        let both = hasty.renew(&both, soon(&hasty)).await.expect("it answers").answer;
        assert_eq!(both[0], Renewed::Unknown, "{what}");
        assert!(matches!(both[1], Renewed::NotHeld(_)), "{both:?}");
        match what {
            "frozen" => replica.cont(),
            _ => drop(replica.cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()])),
        }
        service.settle();
        let renewed = renew(&patient, "held", holder).await.expect(what);
        assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
        let next = token();
        let _ = take(&store, "k", next).await;
        assert_eq!(release(&store, "k", next).await.expect("it answers"), Released::Held);
    }
}

/// Goal: what waits for a replica stops nobody else. Method: an acquire that waits for a minute, and
/// other requests of the same runtime that are answered while it does.
#[tokio::test]
async fn what_waits_for_a_replica_stops_nobody_else() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    let store = wants(primary, 1, "60s", Dialect::Native);
    let holder = token();
    let _ = take(&store, "other", holder).await;
    replica.stop_signal();
    let request = AcquireRequest::new(name("k"), token(), ttl(80_000));
    let by = store.clock().now().saturating_add(Duration::from_secs(80));
    let mut waiting = Box::pin(store.acquire(&request, by));
    let meanwhile = async {
        while is_free(primary, "k", Dialect::Native).await {
            rt::yield_now().await;
        }
        let busy = acquire(&store, "k", token()).await.expect("it answers").answer;
        assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
        assert_eq!(release(&store, "other", holder).await.expect("it answers"), Released::Held);
    };
    tokio::select! {
        biased;
        reply = &mut waiting => panic!("nobody can have acknowledged it: {reply:?}"),
        () = meanwhile => {}
    }
    replica.cont();
    let _ = granted(waiting.await);
}

/// Goal: nobody starts on a message: a hand-over counts when the waiter's own question was
/// acknowledged. Method: the replica is frozen at the hand-over.
#[tokio::test]
async fn a_hand_over_counts_only_when_the_waiters_own_question_is_acknowledged() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    let (store, holder, ear) = (wants(primary, 1, "60s", Dialect::Native), token(), Ear::default());
    let hasty = wants(primary, 1, "50ms", Dialect::Native);
    let ear = Arc::new(ear);
    let _ = take(&store, "k", holder).await;
    let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
    let subscription = hasty.listen(sink, soon(&hasty)).await.expect("it listens");
    let waiter = waits("k", Some(subscription.listener));
    let placed = hasty.acquire(&waiter, soon(&hasty)).await.expect("it answers").answer;
    assert!(matches!(placed, Acquired::Queued(_)), "{placed:?}");
    replica.stop_signal();
    // A release needs nobody.
    assert_eq!(release(&hasty, "k", holder).await.expect("it answers"), Released::Held);
    ear.until("it is told to ask", |ear| ear.heard().contains(&Wakeup::Turn(waiter.token))).await;
    let told = ear.heard();
    assert!(!told.iter().any(|wakeup| matches!(wakeup, Wakeup::Granted(_))), "{told:?}");
    assert_taken_back(&hasty.acquire(&waiter, soon(&hasty)).await.expect_err("frozen"));
    assert!(is_free(primary, "k", Dialect::Native).await);
    replica.cont();
    let _ = take(&store, "k", token()).await;
}

#[tokio::test]
async fn an_exchange_that_is_not_acknowledged_is_unknown_and_its_copy_counts() {
    let service = Replicated::without_sentinels(1);
    let [primary, replica] = service.servers() else { panic!("two servers") };
    for dialect in DIALECTS {
        let (old, new) = (token(), token());
        let (store, hasty) =
            (wants(primary, 1, "60s", dialect), wants(primary, 1, "50ms", dialect));
        let _ = take(&store, "k", old).await;
        replica.stop_signal();
        let exchange = ExchangeRequest::new(name("k"), old, new, ttl(30_000));
        let error = hasty.exchange_token(&exchange, soon(&hasty)).await.expect_err("frozen");
        let kind = (error.kind(), error.outcome());
        assert_eq!(kind, (StoreErrorKind::NotAcknowledged, Outcome::Unknown), "{error}");
        replica.cont();
        let copy = store.exchange_token(&exchange, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(copy, Exchanged::Granted(_)), "{copy:?}");
        assert_eq!(release(&store, "k", new).await.expect("it answers"), Released::Held);
    }
}

#[tokio::test]
async fn a_user_that_may_not_wait_is_told_which_right_is_missing_and_holds_nothing() {
    let rules = "on >p ~* &* +@all -wait";
    let server = RedisServer::builder().acl_user("app", rules).start();
    let url = format!("{}?replicas=1", server.url_as("app", "p"));
    let error = acquire(&store_at(&url, Dialect::Native), "k", token()).await.expect_err("denied");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Denied, Outcome::NotDone));
    assert!(error.to_string().contains("+wait"), "{error}");
    assert!(is_free(&server, "k", Dialect::Native).await);
}

/// Goal: a server that does not say which life it is in has acknowledged nothing: with two of them
/// the count of one would do for the grant of another. Method: the right to ask is missing, on a
/// server whose replica is there.
#[tokio::test]
async fn a_server_that_does_not_say_who_it_is_has_acknowledged_nothing() {
    let service = Replicated::without_sentinels(1);
    let primary = &service.servers()[0];
    primary.cli(&["ACL", "SETUSER", "app", "on", ">p", "~*", "&*", "+@all", "-info"]);
    for dialect in DIALECTS {
        let url = format!("{}?replicas=1&acknowledge_within=60s", primary.url_as("app", "p"));
        let error = acquire(&store_at(&url, dialect), "k", token()).await.expect_err("denied");
        let kind = (error.kind(), error.outcome());
        assert_eq!(kind, (StoreErrorKind::Denied, Outcome::NotDone), "{}", whole(&error));
        assert!(error.to_string().contains("+info"), "{error}");
        assert!(is_free(primary, "k", dialect).await);
    }
}

#[tokio::test]
async fn a_server_without_waitaof_says_so_and_holds_nothing() {
    let server = RedisServer::start();
    if server.try_cli(&["WAITAOF", "0", "0", "1"]).is_ok() {
        // Redis 7.2 or newer: it has no log that could be synced.
        server.cli(&["CONFIG", "SET", "appendonly", "no"]);
    }
    let store = store_at(&format!("{}?fsync=yes", server.url()), Dialect::Native);
    let error = acquire(&store, "k", token()).await.expect_err("it can't");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
    assert!(error.to_string().contains("redis 7.2"), "{error}");
    assert!(is_free(&server, "k", Dialect::Native).await);
}

/// Method: the server is killed behind the answer, and knows the lease when it is back.
#[tokio::test]
async fn a_grant_is_on_the_disk_of_a_real_server_when_it_counts() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    if server.try_cli(&["WAITAOF", "0", "0", "1"]).is_err() {
        eprintln!(
            "SKIPPED: this server has no WAITAOF (redis 7.2 has); testing/servers brings one"
        );
        return;
    }
    for dialect in DIALECTS {
        let url = format!("{}?fsync=yes&acknowledge_within=60s", server.url());
        let (store, name, holder) = (store_at(&url, dialect), format!("of {dialect}"), token());
        let monitor = server.monitor();
        let reply = acquire(&store, &name, holder).await.expect("it has a log");
        assert!(matches!(reply.answer, Acquired::Granted(_)), "{reply:?}");
        assert!(monitor.take().iter().any(|seen| seen.name() == "WAITAOF"));
        server.kill();
        server.restart();
        let store = store_at(&server.url(), dialect);
        let renewed = renew(&store, &name, holder).await.expect("it is back");
        assert!(matches!(renewed, Renewed::Extended { .. }), "{dialect}: {renewed:?}");
    }
}

/// A stand-in for what a disk of a replica says, and because not every server has `WAITAOF`: one lock
/// of the plain dialect, and what its disks say.
#[tokio::test]
async fn disks_are_counted_too() {
    for (query, disks, enough) in [
        ("fsync=yes", [1, 0], true),
        ("fsync=yes", [0, 3], false),
        ("fsync=yes&replicas=1", [1, 1], true),
        ("fsync=yes&replicas=1", [1, 0], false),
    ] {
        let held = Mutex::new(false);
        let server = FakeServer::start(move |args| {
            let mut held = held.lock().expect("nothing panics");
            match args[0].as_slice() {
                b"INFO" => Reply::bulk("redis_version:7.2.0\r\nrun_id:abc\r\nrole:master\r\n"),
                b"SET" => {
                    *held = true;
                    Reply::Null
                }
                // The release has an argument behind its key, the confirmation none.
                b"EVAL" | b"EVALSHA" if args.len() == 4 => Reply::Int(i64::from(*held)),
                b"EVAL" | b"EVALSHA" => {
                    *held = false;
                    Reply::Array(vec![Reply::bulk("h")])
                }
                b"WAITAOF" => Reply::Array(disks.map(Reply::Int).to_vec()),
                _ => Reply::ok(),
            }
        });
        let store = store_at(&format!("{}?{query}", server.url()), Dialect::Plain);
        let result = acquire(&store, "k", token()).await;
        let requests = server.take_requests();
        let asked = requests.iter().find(|args| args[0] == b"WAITAOF").expect("it was asked");
        assert_eq!((&asked[1][..], asked[2] == b"1"), (&b"1"[..], query.contains("replicas")));
        match result {
            Ok(reply) => {
                assert!(enough, "{query} {disks:?}");
                assert!(matches!(reply.answer, Acquired::Granted(_)), "{reply:?}");
            }
            Err(error) => {
                assert!(!enough, "{query} {disks:?}: {}", whole(&error));
                assert_eq!(error.kind(), StoreErrorKind::NotAcknowledged, "{}", whole(&error));
            }
        }
    }
}
