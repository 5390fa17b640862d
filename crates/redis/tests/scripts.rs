//! The scripts on a real server: lost caches, foreign values, commands that are not there.

mod support;

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, FencingToken, ForceReleaseRequest, Forced,
    ForeignKind, HealRequest, Healed, Inspection, ListRequest, Moment, NotHeld, Novelty,
    RaiseFenceRequest, Raised, Released, Renewed, RevokeRequest, Revoked, ShortenRequest,
    Shortened,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Outcome, Store, StoreErrorKind};
use fencelock_testkit::{FakeServer, RedisServer, Reply};
use support::{
    DIALECTS, acquire, granted, inspect, name, names, release, renew, soon, store_at, take, token,
    ttl, waits, within,
};

/// Every verb once, on a lock of ours; `before` is called before each.
async fn whole_life(store: &RedisStore, before: impl Fn()) {
    let (first, second) = (token(), token());
    let by = || soon(store);
    before();
    let _ = store.connect(by()).await.expect("connected");
    before();
    let _ = take(store, "k", first).await;
    before();
    let busy = acquire(store, "k", second).await.expect("the store answers").answer;
    assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
    before();
    assert_eq!(granted(acquire(store, "k", first).await).novelty, Novelty::Repeated);
    before();
    let renewed = renew(store, "k", first).await.expect("the store answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    before();
    let shorten = ShortenRequest::new(name("k"), first, ttl(20_000));
    let shortened = store.shorten(&shorten, by()).await.expect("the store answers").answer;
    assert!(matches!(shortened, Shortened::Shortened { .. }), "{shortened:?}");
    before();
    let exchange = ExchangeRequest::new(name("k"), first, second, ttl(30_000));
    let exchanged = store.exchange_token(&exchange, by()).await.expect("the store answers").answer;
    assert!(matches!(exchanged, fencelock_core::Exchanged::Granted(_)), "{exchanged:?}");
    before();
    if store.capabilities().fencing {
        let one = FencingToken::new(1).expect("a fencing token");
        let raise = RaiseFenceRequest::new(name("k"), second, one);
        let raised = store.raise_fence(&raise, by()).await.expect("the store answers").answer;
        assert!(matches!(raised, Raised::Behind(_)), "{raised:?}");
        before();
    }
    let heal = HealRequest::new(name("k"), second, ttl(30_000));
    let healed = store.heal(&heal, by()).await.expect("the store answers").answer;
    assert_eq!(healed, Healed::Healed);
    before();
    assert!(matches!(inspect(store, "k").await, Inspection::Held(_)));
    before();
    let page = store.list(&ListRequest::new("k"), by()).await.expect("the store answers").answer;
    assert_eq!(page.locks.len(), 1);
    before();
    assert_eq!(release(store, "k", second).await.expect("the store answers"), Released::Held);
    before();
    let _ = take(store, "k", token()).await;
    before();
    let force = ForceReleaseRequest::new(name("k"));
    let forced = store.force_release(&force, by()).await.expect("the store answers").answer;
    assert!(matches!(forced, Forced::Removed(_)), "{forced:?}");
    if store.capabilities().modes.are_shared() {
        support::together(store, before).await.expect("the store answers");
    }
}

#[tokio::test]
async fn every_verb_works_right_after_a_script_flush() {
    let server = RedisServer::start();
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        let store = store_at(&server.url(), dialect);
        whole_life(&store, || {}).await;
        server.cli(&["FLUSHALL"]);
        whole_life(&store, || {
            server.cli(&["SCRIPT", "FLUSH"]);
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_without_evalsha_or_without_eval_in_its_cache_is_served_and_without_both_is_said()
{
    let cases = [("-evalsha", true), ("-script", true), ("-eval -evalsha", false)];
    for (rules, works) in cases {
        let rules = format!("on >p ~* &* +@all {rules}");
        let server = RedisServer::builder().acl_user("app", &rules).start();
        for dialect in DIALECTS {
            server.cli(&["FLUSHALL"]);
            let store = store_at(&server.url_as("app", "p"), dialect);
            if works {
                whole_life(&store, || {}).await;
                continue;
            }
            let error = store.connect(soon(&store)).await.expect_err("eval is denied");
            assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Denied, Outcome::NotDone));
            assert!(error.to_string().contains("does not allow EVAL"), "{error}");
        }
    }
}

#[tokio::test]
async fn without_eval_a_script_that_the_server_knows_still_runs() {
    let server = RedisServer::builder().acl_user("app", "on >p ~* &* +@all -eval").start();
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        server.cli(&["SCRIPT", "FLUSH"]);
        let app = store_at(&server.url_as("app", "p"), dialect);
        let error = app.connect(soon(&app)).await.expect_err("nothing is loaded");
        assert!(error.to_string().contains("does not allow EVAL"), "{error}");
        // Another client loads them.
        whole_life(&store_at(&server.url(), dialect), || {}).await;
        server.cli(&["FLUSHALL"]);
        whole_life(&app, || {}).await;
        server.cli(&["SCRIPT", "FLUSH"]);
        let error = release(&app, "k", token()).await.expect_err("it is lost");
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Denied, Outcome::NotDone));
    }
}

#[tokio::test]
async fn noscript_for_ever_is_an_error_after_two_round_trips() {
    let server = FakeServer::start(|_| Reply::error("NOSCRIPT No matching script."));
    let store = store_at(&server.url(), Dialect::Native);
    for _ in 0..3 {
        let _ = server.take_requests();
        let error = acquire(&store, "k", token()).await.expect_err("no script runs");
        assert_eq!(error.kind(), StoreErrorKind::Protocol, "{error:?}");
        let scripts = server.take_requests();
        let scripts = scripts.iter().filter(|args| args[0].starts_with(b"EVAL")).count();
        assert!((1..=2).contains(&scripts), "{scripts} round trips");
    }
}

#[tokio::test]
async fn a_foreign_value_is_left_alone_by_every_verb_and_named() {
    let server = RedisServer::start();
    let digits = format!("1{:016}{:016}{:016}00060000{:016}0", 1, 1, 1, 0);
    let held_rw = format!("fl2rh{}{digits}", "a".repeat(32));
    // As versions before and after this one would have it.
    let held_v1 = format!("fl1mh{}1{:016}{:016}00060000", "a".repeat(32), 1, 1);
    let free_v1 = format!("fl1mf{}1{:016}", "a".repeat(32), 1);
    let held_v3 = format!("fl3mh{}{digits}0000", "a".repeat(32));
    let torn = "fl2mh0123456789".to_owned() + &"x".repeat(110);
    let free_torn = format!("fl2mf{}1{}", "a".repeat(32), "(not a number) -");
    let odd_marks = format!("fl2mh{}{}7", "a".repeat(32), &digits[..digits.len() - 1]);
    let hash = || ForeignKind::Type("hash".into());
    let plants: [(&[&str], ForeignKind); 14] = [
        (&["HSET", "fencelock:k", "a", "b"], hash()),
        (&["HSET", "fencelock:k", "r", "flower"], hash()),
        (&["HSET", "fencelock:k", "r", &held_v1, "q", &digits], hash()),
        (&["HSET", "fencelock:k", "r", &held_v3, "q", &digits], hash()),
        (&["RPUSH", "fencelock:k", "a"], ForeignKind::Type("list".into())),
        (&["SET", "fencelock:k", "flower"], ForeignKind::String),
        (&["SET", "fencelock:k", "1234", "PX", "600000"], ForeignKind::String),
        (&["SET", "fencelock:k", &held_rw], ForeignKind::Kind("r".into())),
        (&["SET", "fencelock:k", &held_v1], ForeignKind::Version("1".into())),
        (&["SET", "fencelock:k", &free_v1, "PX", "600000"], ForeignKind::Version("1".into())),
        (&["SET", "fencelock:k", &held_v3], ForeignKind::Version("3".into())),
        (&["SET", "fencelock:k", &torn], ForeignKind::Unreadable),
        (&["SET", "fencelock:k", &free_torn], ForeignKind::Unreadable),
        (&["SET", "fencelock:k", &odd_marks], ForeignKind::Unreadable),
    ];
    for (plant, kind) in plants {
        server.cli(&["FLUSHALL"]);
        server.cli(plant);
        let before =
            (server.cli(&["DUMP", "fencelock:k"]), server.cli(&["PEXPIRETIME", "fencelock:k"]));
        let store = store_at(&server.url(), Dialect::Native);
        assert_each_verb_finds(&store, &kind).await;
        let after =
            (server.cli(&["DUMP", "fencelock:k"]), server.cli(&["PEXPIRETIME", "fencelock:k"]));
        assert_eq!(before, after, "{plant:?}");
    }
    // In the plain dialect every string is somebody's lock.
    for plant in [&["HSET", "k", "a", "b"][..], &["ZADD", "k", "1", "a"]] {
        server.cli(&["FLUSHALL"]);
        server.cli(plant);
        let before = server.cli(&["DUMP", "k"]);
        let word = if plant[0] == "HSET" { "hash" } else { "zset" };
        let store = store_at(&server.url(), Dialect::Plain);
        assert_each_verb_finds(&store, &ForeignKind::Type(word.into())).await;
        assert_eq!(before, server.cli(&["DUMP", "k"]), "{plant:?}");
    }
}

async fn assert_each_verb_finds(store: &RedisStore, kind: &ForeignKind) {
    let (ours, by) = (token(), soon(store));
    match acquire(store, "k", ours).await.expect("the store answers").answer {
        Acquired::Foreign(foreign) => {
            assert_eq!((&foreign.name, &foreign.kind), (&name("k"), kind));
        }
        other => panic!("{kind:?}: {other:?}"),
    }
    let set = names(&["a", "k", "z"]);
    let request = AcquireRequest::new(set, ours, ttl(30_000));
    let answer = store.acquire(&request, by).await.expect("the store answers").answer;
    assert!(matches!(&answer, Acquired::Foreign(f) if f.name == name("k")), "{answer:?}");
    let foreign = NotHeld::Foreign(kind.clone());
    let renewed = renew(store, "k", ours).await.expect("the store answers");
    assert_eq!(renewed, Renewed::NotHeld(foreign.clone()));
    let shorten = ShortenRequest::new(name("k"), ours, ttl(1_000));
    let answer = store.shorten(&shorten, by).await.expect("the store answers").answer;
    assert_eq!(answer, Shortened::NotHeld(foreign.clone()));
    assert_eq!(release(store, "k", ours).await.expect("the store answers"), Released::Taken);
    let exchange = ExchangeRequest::new(name("k"), ours, token(), ttl(1_000));
    let answer = store.exchange_token(&exchange, by).await.expect("the store answers").answer;
    assert_eq!(answer, fencelock_core::Exchanged::NotHeld(foreign.clone()));
    if store.capabilities().fencing {
        let one = FencingToken::new(1).expect("a fencing token");
        let raise = RaiseFenceRequest::new(name("k"), ours, one);
        let answer = store.raise_fence(&raise, by).await.expect("the store answers").answer;
        assert_eq!(answer, Raised::NotHeld(foreign));
    }
    let heal = HealRequest::new(name("k"), ours, ttl(1_000));
    let answer = store.heal(&heal, by).await.expect("the store answers").answer;
    assert!(matches!(&answer, Healed::Foreign(f) if f.kind == *kind), "{answer:?}");
    assert_eq!(inspect(store, "k").await, Inspection::Foreign(kind.clone()));
    let page = store.list(&ListRequest::new("k"), by).await.expect("the store answers").answer;
    assert_eq!(page.locks, [(name("k"), Inspection::Foreign(kind.clone()))]);
    let force = ForceReleaseRequest::new(name("k"));
    let answer = store.force_release(&force, by).await.expect("the store answers").answer;
    assert_eq!(answer, Forced::Foreign(kind.clone()));
    if store.capabilities().queue {
        let answer = store.acquire(&waits("k", None), by).await.expect("the store answers").answer;
        assert!(matches!(&answer, Acquired::Foreign(f) if f.kind == *kind), "{answer:?}");
        let revoke = RevokeRequest::new(name("k"));
        let answer = store.revoke(&revoke, by).await.expect("the store answers").answer;
        assert_eq!(answer, Revoked::Foreign(kind.clone()));
    }
}

#[tokio::test]
async fn a_free_record_of_another_kind_is_taken_over_with_its_fencing_token() {
    let server = RedisServer::start();
    // Far ahead of the clock, so that the next one can only come from it.
    let fence = 7_000_000_000_000_000_u64;
    let record = format!("fl2rf{}1{fence:016}", "a".repeat(32));
    server.cli(&["SET", "fencelock:k", &record, "PX", "600000"]);
    let store = store_at(&server.url(), Dialect::Native);
    let grant = take(&store, "k", token()).await;
    assert_eq!(grant.fence.token().map(FencingToken::as_u64), Some(fence + 1));
}

#[tokio::test]
async fn a_lock_of_another_library_without_ttl_is_busy_for_ever() {
    let server = RedisServer::start();
    server.cli(&["SET", "k", "somebody\u{e9}"]);
    let store = store_at(&server.url(), Dialect::Plain);
    match acquire(&store, "k", token()).await.expect("the store answers").answer {
        Acquired::Busy(busy) => assert_eq!(busy.holder.remaining, None),
        other => panic!("{other:?}"),
    }
    assert_eq!(release(&store, "k", token()).await.expect("the store answers"), Released::Taken);
    match inspect(&store, "k").await {
        Inspection::Held(holder) => {
            let proof = holder.proof.expect("the value");
            assert_eq!(proof.reveal(), "somebody\u{e9}".as_bytes());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lock_key_never_exists_without_a_ttl() {
    let server = RedisServer::start();
    let monitor = server.monitor();
    for dialect in DIALECTS {
        whole_life(&store_at(&server.url(), dialect), || {
            for key in ["fencelock:k", "k", "fencelock:t"] {
                assert_ne!(server.cli(&["PTTL", key]), redis::Value::Int(-1), "{key}");
            }
        })
        .await;
    }
    let upper = |arg: &Vec<u8>| String::from_utf8_lossy(arg).to_uppercase();
    let mut writes = 0;
    for seen in monitor.take() {
        let args: Vec<String> = seen.args.iter().map(upper).collect();
        if args[0] == "SET" {
            writes += 1;
            let ends = args.iter().any(|arg| ["PX", "PXAT", "KEEPTTL"].contains(&&arg[..]));
            assert!(ends, "{args:?}");
        }
        assert!(!["SETNX", "PERSIST", "GETSET", "MSETNX"].contains(&args[0].as_str()), "{args:?}");
    }
    assert!(writes > 5, "{writes} writes were seen");
}

#[tokio::test]
async fn when_memory_is_full_renewals_and_releases_work_and_a_grant_is_refused_whole() {
    let server = RedisServer::start();
    for dialect in DIALECTS {
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        server.cli(&["FLUSHALL"]);
        let store = store_at(&server.url(), dialect);
        let holder = token();
        let _ = take(&store, "k", holder).await;
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        let error = acquire(&store, "new", token()).await.expect_err("there is no room");
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Full, Outcome::NotDone));
        let set = names(&["new", "other"]);
        let request = AcquireRequest::new(set, token(), ttl(30_000));
        let error = store.acquire(&request, soon(&store)).await.expect_err("there is no room");
        assert_eq!(error.kind(), StoreErrorKind::Full);
        if dialect == Dialect::Native {
            let busy = acquire(&store, "k", token()).await.expect("the store answers").answer;
            assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
        }
        let renewed = renew(&store, "k", holder).await.expect("the store answers");
        assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
        assert_eq!(release(&store, "k", holder).await.expect("the store answers"), Released::Held);
        let keys = server.cli(&["EXISTS", "new", "other", "fencelock:new", "fencelock:other"]);
        assert_eq!(keys, redis::Value::Int(0));
    }
}

#[tokio::test]
async fn odd_replies_are_protocol_errors_and_never_an_answer() {
    let odd = [
        Reply::Int(1),
        Reply::Int(0),
        Reply::bulk("1"),
        Reply::bulk(""),
        Reply::Null,
        Reply::Bool(true),
        Reply::Bool(false),
        Reply::Double(1.0),
        Reply::ok(),
        Reply::Array(vec![]),
        Reply::Array(vec![Reply::Null]),
        Reply::Map(vec![(Reply::bulk("h"), Reply::Int(1))]),
        Reply::bulk("1700000000000000"),
        Reply::bulk("1700000000000000?"),
        Reply::bulk("1700000000000000g1999999999999999x"),
        Reply::bulk("1700000000000000g19999999999999999"),
        Reply::bulk("1700000000000000b9999"),
    ];
    for reply in odd {
        let shown = format!("{reply:?}");
        let given = reply.clone();
        let server = FakeServer::start(move |_| given.clone());
        let store = store_at(&server.url(), Dialect::Native);
        let results = [
            acquire(&store, "k", token()).await.map(|r| format!("{r:?}")),
            release(&store, "k", token()).await.map(|r| format!("{r:?}")),
            renew(&store, "k", token()).await.map(|r| format!("{r:?}")),
        ];
        for result in results {
            let error = result.expect_err(&shown);
            assert_eq!(error.kind(), StoreErrorKind::Protocol, "{shown}: {error:?}");
            assert_eq!(error.outcome(), Outcome::Unknown, "{shown}");
        }
        let plain = store_at(&server.url(), Dialect::Plain);
        let error = release(&plain, "k", token()).await.expect_err(&shown);
        assert_eq!(error.kind(), StoreErrorKind::Protocol, "{shown}: {error:?}");
    }
}

#[tokio::test]
async fn refusals_of_the_server_are_errors_of_their_kind() {
    let table = [
        ("LOADING Redis is loading the dataset in memory", StoreErrorKind::Unavailable),
        ("MASTERDOWN Link with MASTER is down", StoreErrorKind::Unavailable),
        ("BUSY Redis is busy running a script", StoreErrorKind::Unavailable),
        ("READONLY You can't write against a read only replica.", StoreErrorKind::Unavailable),
        ("NOREPLICAS Not enough good replicas to write.", StoreErrorKind::Unavailable),
        ("MISCONF Redis is configured to save RDB snapshots", StoreErrorKind::Unavailable),
        ("CLUSTERDOWN The cluster is down", StoreErrorKind::Unavailable),
        ("TRYAGAIN Multiple keys request during rehashing of slot", StoreErrorKind::Unavailable),
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreErrorKind::Full),
        ("NOAUTH Authentication required.", StoreErrorKind::Denied),
    ];
    for (text, kind) in table {
        for dialect in DIALECTS {
            let server = FakeServer::start(move |_| Reply::error(text));
            let store = store_at(&server.url(), dialect);
            let results = [
                acquire(&store, "k", token()).await.map(|_| ()),
                release(&store, "k", token()).await.map(|_| ()),
                renew(&store, "k", token()).await.map(|_| ()),
            ];
            for result in results {
                let error = result.expect_err(text);
                assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone), "{text}");
                assert!(error.to_string().contains(&server.addr()), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn an_old_server_is_named_and_holds_no_lock() {
    let server = FakeServer::start(|args| match args[0].as_slice() {
        b"INFO" => Reply::bulk("# Server\r\nredis_version:6.2.14\r\nrun_id:abc\r\n"),
        _ => Reply::error("ERR syntax error"),
    });
    let store = store_at(&server.url(), Dialect::Plain);
    for _ in 0..2 {
        let error = acquire(&store, "k", token()).await.expect_err("it is too old");
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
        assert!(error.to_string().contains("redis 6.2.14"), "{error}");
    }
}

#[tokio::test]
async fn what_an_old_server_has_done_is_not_said_to_be_undone() {
    // It understands the script for several names.
    let server = FakeServer::start(|args| match args[0].as_slice() {
        b"INFO" => Reply::bulk("# Server\r\nredis_version:6.2.14\r\nrun_id:abc\r\n"),
        b"EVAL" => Reply::Array(vec![Reply::bulk("g")]),
        _ => Reply::simple("OK"),
    });
    let store = store_at(&server.url(), Dialect::Plain);
    let asked = AcquireRequest::new(names(&["a", "b"]), token(), ttl(30_000));
    let error = store.acquire(&asked, soon(&store)).await.expect_err("it is too old");
    // The first request is on its way before the server has said how old it is.
    let was_sent = server.take_requests().iter().any(|args| args[0] == b"EVAL");
    let outcome = if was_sent { Outcome::Unknown } else { Outcome::NotDone };
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, outcome));
    assert!(was_sent, "the test saw nothing");
}

#[tokio::test]
async fn binary_names_and_names_with_braces_are_different_locks_with_the_documented_keys() {
    let server = RedisServer::start();
    let store = store_at(&server.url(), Dialect::Native);
    let table: [(&[u8], &[u8]); 6] = [
        (b"job:{1}", b"fencelock:job:{1}"),
        (b"{}job", b"fencelock:{}job"),
        (b"\0", b"fencelock:%00"),
        (b"\xff\xfe", b"fencelock:\xff\xfe"),
        (b"!boot", b"fencelock:%21boot"),
        (b"a\r\nb%", b"fencelock:a%0D%0Ab%25"),
    ];
    let mut connection = server.connect();
    for (bytes, key) in table {
        let request = AcquireRequest::new(name(bytes), token(), ttl(30_000));
        let _ = granted(store.acquire(&request, soon(&store)).await);
        let exists: bool =
            redis::cmd("EXISTS").arg(key).query(&mut connection).expect("the server answers");
        assert!(exists, "{}", key.escape_ascii());
    }
    // What is the library's own, or nobody's, is not listed.
    server.cli(&["SET", "fencelock:!boot", "x"]);
    let mut listed = Vec::new();
    let mut request = ListRequest::new("");
    request.limit = 1;
    loop {
        let page = store.list(&request, soon(&store)).await.expect("the store answers").answer;
        listed.extend(page.locks.into_iter().map(|(name, _)| name));
        let Some(next) = page.next else { break };
        request.cursor = Some(next);
    }
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), table.len());
}

#[tokio::test]
async fn a_prefix_moves_all_keys() {
    let server = RedisServer::start();
    let url = server.url().parse().expect("a url");
    let store = RedisStore::builder(url).prefix("app:").build().expect("a store");
    let _ = take(&store, "k", token()).await;
    assert_eq!(server.cli(&["EXISTS", "app:k"]), redis::Value::Int(1));
    assert_eq!(server.cli(&["DBSIZE"]), redis::Value::Int(1));
}

#[tokio::test]
async fn a_batch_of_more_keys_than_one_step_bears_is_renewed_whole() {
    let server = RedisServer::start();
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        let store = store_at(&server.url(), dialect);
        let mut batch = Vec::new();
        for lease in 0..20 {
            let members = (0..40).map(|member| name(format!("{lease}/{member}")));
            let set = fencelock_core::Names::new(members).expect("a set");
            let holder = token();
            let request = AcquireRequest::new(set.clone(), holder, ttl(5_000));
            let _ = granted(store.acquire(&request, soon(&store)).await);
            batch.push(fencelock_core::RenewRequest::new(set, holder, ttl(60_000)));
        }
        let reply = store.renew(&batch, soon(&store)).await.expect("the store answers").answer;
        assert_eq!(reply.len(), batch.len());
        for answer in reply {
            let Renewed::Extended { remaining, .. } = answer else { panic!("{answer:?}") };
            assert!(remaining > Duration::from_secs(50), "{remaining:?}");
        }
    }
}

#[tokio::test]
async fn a_call_without_time_sends_nothing() {
    let server = RedisServer::start();
    let store = store_at(&server.url(), Dialect::Native);
    let _ = store.connect(soon(&store)).await.expect("connected");
    let monitor = server.monitor();
    let request = AcquireRequest::new(name("k"), token(), ttl(30_000));
    for by in [Moment::START, within(&store, 0)] {
        let error = store.acquire(&request, by).await.expect_err("no time is left");
        assert_eq!(error.outcome(), Outcome::NotDone);
    }
    let seen = monitor.take();
    assert!(seen.is_empty(), "{seen:?}");
}
