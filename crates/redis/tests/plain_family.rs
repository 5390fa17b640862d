//! The formats of the plain family on the wire: what other libraries find there, and that both
//! sides exclude each other.

mod support;

use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, Exchanged, ForceReleaseRequest, Inspection,
    Metadata, Novelty, Proof, Released, RenewRequest, Renewed, Token,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::Store as _;
use fencelock_testkit::RedisServer;
use support::{acquire, granted, inspect, name, release, soon, take, ttl};

/// A token without zeros at its end, so that all characters count.
const TOKEN: [u8; 16] = *b"\xff\xfe\xfd\x00lease of our";

/// What the libraries find for the name `n`: the format, its key and the value of [`TOKEN`].
const WIRE: [(Dialect, &str, &str); 11] = [
    (Dialect::Plain, "n", HEX),
    (Dialect::Redislock, "n", "__79AGxlYXNlIG9mIG91cg"),
    (Dialect::Redsync, "n", BASE64),
    (Dialect::Redlock, "n", HEX),
    (Dialect::RedisSemaphore, "mutex:n", UUID),
    (Dialect::Pottery, "redlock:n", UUID),
    (Dialect::RedisPy, "n", HEX),
    (Dialect::PythonRedisLock, "lock:n", BASE64),
    (Dialect::Shedlock, "job-lock:default:n", UUID),
    (Dialect::DistributedLockNet, "n", HEX),
    (Dialect::SymfonyString, "n", BASE64),
];
const HEX: &str = "fffefd006c65617365206f66206f7572";
const UUID: &str = "fffefd00-6c65-6173-6520-6f66206f7572";
const BASE64: &str = "//79AGxlYXNlIG9mIG91cg==";

/// What other libraries run to release and to prolong.
const COMPARE_AND_DELETE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

fn store(server: &RedisServer, dialect: Dialect, prefix: Option<&str>) -> RedisStore {
    let builder = RedisStore::builder(server.url().parse().expect("a url")).dialect(dialect);
    let builder = match prefix {
        None => builder,
        Some(prefix) => builder.prefix(prefix),
    };
    builder.build().expect("the settings are valid")
}

fn ask<A: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> A {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(&mut server.connect()).expect("the server answers")
}

/// Takes it as the others do.
fn others_take(server: &RedisServer, key: &str) -> bool {
    let answer: Option<String> = ask(server, &["SET", key, "theirs", "NX", "PX", "30000"]);
    answer.is_some()
}

fn others_release(server: &RedisServer, key: &str, value: &str) -> i64 {
    ask(server, &["EVAL", COMPARE_AND_DELETE, "1", key, value])
}

#[tokio::test]
async fn a_lease_stands_where_and_as_the_library_would_have_written_it() {
    let server = RedisServer::start();
    for (dialect, key, value) in WIRE {
        let store = store(&server, dialect, None);
        let token = Token::from_bytes(TOKEN);
        let _ = take(&store, "n", token).await;
        assert_eq!(ask::<Vec<String>>(&server, &["KEYS", "*"]), [key], "{dialect}");
        assert_eq!(ask::<String>(&server, &["GET", key]), value, "{dialect}");
        let left: i64 = ask(&server, &["PTTL", key]);
        assert!((1..=30_000).contains(&left), "{dialect}: {left}");
        let released = release(&store, "n", token).await.expect("the store answers");
        assert_eq!(released, Released::Held, "{dialect}");
        assert_eq!(ask::<i64>(&server, &["EXISTS", key]), 0, "{dialect}");
        server.cli(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn both_sides_exclude_each_other_and_release_only_their_own() {
    let server = RedisServer::start();
    for (dialect, key, value) in WIRE {
        let store = store(&server, dialect, None);
        let token = Token::from_bytes(TOKEN);
        assert!(others_take(&server, key), "{dialect}");
        let answer = acquire(&store, "n", token).await.expect("the store answers").answer;
        assert!(matches!(answer, Acquired::Busy(_)), "{dialect}: {answer:?}");
        let released = release(&store, "n", token).await.expect("the store answers");
        assert_eq!(released, Released::Taken, "{dialect}");
        assert_eq!(others_release(&server, key, "theirs"), 1, "{dialect}");

        let _ = take(&store, "n", token).await;
        assert!(!others_take(&server, key), "{dialect}");
        assert_eq!(others_release(&server, key, "theirs"), 0, "{dialect}");
        assert_eq!(others_release(&server, key, value), 1, "{dialect}: a hand-over");
        server.cli(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_key_without_a_ttl_is_held_for_ever() {
    let server = RedisServer::start();
    for (dialect, key, _) in WIRE {
        ask::<()>(&server, &["SET", key, "theirs"]);
        let store = store(&server, dialect, None);
        let answer = acquire(&store, "n", Token::from_bytes(TOKEN)).await;
        match answer.expect("the store answers").answer {
            Acquired::Busy(busy) => assert_eq!(busy.holder.remaining, None, "{dialect}"),
            other => panic!("{dialect}: {other:?}"),
        }
        server.cli(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_prefix_replaces_that_of_the_library_and_laravel_needs_one() {
    let server = RedisServer::start();
    for dialect in
        [Dialect::Redislock, Dialect::Pottery, Dialect::DistributedLockNet, Dialect::Laravel]
    {
        let _ =
            take(&store(&server, dialect, Some("app-cache-")), "n", Token::from_bytes(TOKEN)).await;
        assert_eq!(ask::<Vec<String>>(&server, &["KEYS", "*"]), ["app-cache-n"], "{dialect}");
        server.cli(&["FLUSHALL"]);
    }
    let builder =
        |dialect| RedisStore::builder(server.url().parse().expect("a url")).dialect(dialect);
    assert!(builder(Dialect::Laravel).build().is_err());
}

#[tokio::test]
async fn a_release_signals_the_waiters_of_python_redis_lock() {
    let server = RedisServer::start();
    let store = store(&server, Dialect::PythonRedisLock, None);
    let token = Token::from_bytes(TOKEN);
    let signal = "lock-signal:n";
    // Another's lock is not signalled; nor is a list made longer by a release.
    for round in 0..3 {
        if round == 0 {
            assert!(others_take(&server, "lock:n"));
            let _ = release(&store, "n", token).await.expect("the store answers");
            assert_eq!(ask::<i64>(&server, &["EXISTS", signal]), 0);
            let forced = ForceReleaseRequest::new(name("n"));
            let _ = store.force_release(&forced, soon(&store)).await.expect("the store answers");
        } else {
            // What is left of earlier signals is replaced: one waiter is woken by one release.
            ask::<()>(&server, &["DEL", signal]);
            ask::<()>(&server, &["RPUSH", signal, "old", "older"]);
            let _ = take(&store, "n", token).await;
            let _ = release(&store, "n", token).await.expect("the store answers");
        }
        // It lives for a second: what is read in one step is there whole, or gone already.
        let script = "return {redis.call('lrange',KEYS[1],0,-1),redis.call('pttl',KEYS[1])}";
        let (items, left): (Vec<String>, i64) = ask(&server, &["EVAL", script, "1", signal]);
        let is_gone = items.is_empty() && left == -2;
        assert!(is_gone || (items == ["1"] && (0..=1_000).contains(&left)), "{items:?} {left}");
        assert_eq!(ask::<i64>(&server, &["EXISTS", "lock:n"]), 0);
    }
}

/// Both generations of its PUB_SUB_LOCK: a pattern of channels of keys, and one of the registry.
#[tokio::test]
async fn a_release_is_published_for_every_generation_of_spring() {
    let server = RedisServer::start();
    let store = store(&server, Dialect::Spring, Some("reg"));
    let mut subscriber = server.connect();
    let mut heard = subscriber.as_pubsub();
    heard.psubscribe("reg-channel:*").expect("the server answers");
    heard.subscribe("reg-channel").expect("the server answers");
    heard.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a timeout");
    let token = Token::from_bytes(TOKEN);
    // Another's lock is not told of: what is heard first is of the release after.
    assert!(others_take(&server, "reg:n"));
    let _ = release(&store, "n", token).await.expect("the store answers");
    assert_eq!(others_release(&server, "reg:n", "theirs"), 1);
    for forced in [false, true] {
        let _ = take(&store, "n", token).await;
        assert_eq!(ask::<String>(&server, &["GET", "reg:n"]), UUID);
        if forced {
            let request = ForceReleaseRequest::new(name("n"));
            let _ = store.force_release(&request, soon(&store)).await.expect("the store answers");
        } else {
            let _ = release(&store, "n", token).await.expect("the store answers");
        }
        for channel in ["reg-channel:reg:n", "reg-channel"] {
            let message = heard.get_message().expect("it is told");
            assert_eq!(message.get_channel_name(), channel);
            assert_eq!(message.get_payload::<String>().expect("text"), "reg:n");
        }
        assert_eq!(ask::<i64>(&server, &["EXISTS", "reg:n"]), 0);
    }
}

/// Goal: UNLINK falls back to DEL, and a right to publish that is missing keeps nobody from giving
/// back. Method: a user without either.
#[tokio::test]
async fn whoever_may_not_unlink_or_publish_still_releases_a_lock_of_spring() {
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "app", "on", ">app", "~*", "+@all", "-unlink", "-publish"]);
    let url = server.url().replace("redis://", "redis://app:app@");
    let builder = RedisStore::builder(url.parse().expect("a url")).dialect(Dialect::Spring);
    let store = builder.prefix("reg").build().expect("the settings are valid");
    let token = Token::from_bytes(TOKEN);
    let _ = take(&store, "n", token).await;
    let released = release(&store, "n", token).await.expect("the store answers");
    assert_eq!(released, Released::Held);
    assert_eq!(ask::<i64>(&server, &["EXISTS", "reg:n"]), 0);
}

#[test]
fn a_registry_key_is_asked_for_and_is_no_pattern() {
    let url = "redis://127.0.0.1:9/".parse().expect("a url");
    let builder = RedisStore::builder(url).dialect(Dialect::Spring);
    assert!(builder.clone().build().is_err());
    assert!(builder.clone().prefix("reg*").build().is_err());
    assert!(builder.prefix("reg").build().is_ok());
}

/// What Go finds: the token, and behind it what we said of ourselves; and the other way round.
#[tokio::test]
async fn metadata_stands_behind_the_token_of_redislock() {
    let server = RedisServer::start();
    let store = store(&server, Dialect::Redislock, None);
    let (first, second) = (Token::from_bytes(TOKEN), Token::from_bytes([9; 16]));
    let mut request = AcquireRequest::new(name("n"), first, ttl(30_000));
    request.metadata = Metadata::new("job=nightly").expect("it is short");
    for novelty in [Novelty::Fresh, Novelty::Repeated] {
        let grant = granted(store.acquire(&request, soon(&store)).await);
        assert_eq!(grant.novelty, novelty);
    }
    assert_eq!(ask::<String>(&server, &["GET", "n"]), "__79AGxlYXNlIG9mIG91cgjob=nightly");
    let Inspection::Held(holder) = inspect(&store, "n").await else { panic!("it is held") };
    assert_eq!(holder.proof, Some(first.into()));
    assert_eq!(holder.metadata.as_bytes(), b"job=nightly");
    // The next owner says something else.
    let mut exchange = ExchangeRequest::new(name("n"), first, second, ttl(30_000));
    exchange.metadata = Metadata::new("job=morning").expect("it is short");
    let answer = store.exchange_token(&exchange, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(answer, Exchanged::Granted(_)), "{answer:?}");
    assert_eq!(ask::<String>(&server, &["GET", "n"]), "CQkJCQkJCQkJCQkJCQkJCQjob=morning");
    assert_eq!(release(&store, "n", first).await.expect("it answers"), Released::Taken);
    let batch = [RenewRequest::new(name("n"), second, ttl(60_000))];
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::Extended { .. }]), "{renewed:?}");
    assert_eq!(release(&store, "n", second).await.expect("it answers"), Released::Held);
    // A token that a caller of theirs chose is shown as it is.
    server.cli(&["SET", "n", "tokAmeta2", "PX", "30000"]);
    let Inspection::Held(holder) = inspect(&store, "n").await else { panic!("it is held") };
    assert_eq!(holder.proof, Some(Proof::new("tokAmeta2")));
    assert_eq!(release(&store, "n", second).await.expect("it answers"), Released::Taken);
}

/// Goal: whoever meets another library's lock is told whose it is, and nothing of it is changed. Method: what
/// those libraries leave, as a dialect meets it that has another form.
#[tokio::test]
async fn what_another_library_keeps_is_named_and_left_alone() {
    const THREAD: &str = "852f3e2f-104b-4219-9d90-e04a2b71bdeb:7";
    let server = RedisServer::start();
    let plants: [(&[&str], &str); 6] = [
        (&["HSET", "n", THREAD, "2"], "a lock of Redisson, held by 852f3e2f"),
        (&["HSET", "n", "mode", "read", THREAD, "1"], "a read lock of Redisson, held by 852f3e2f"),
        (&["ZADD", "n", "1", "__write__", "1", "x"], "Symfony"),
        (&["ZADD", "n", "1", &THREAD[..36]], "redis-semaphore"),
        (&["RPUSH", "n", "1"], "a value of type list"),
        (&["HSET", "n", "owner", "1"], "a value of type hash"),
    ];
    for (plant, says) in plants {
        server.cli(&["DEL", "n"]);
        server.cli(plant);
        server.cli(&["PEXPIRE", "n", "600000"]);
        let dump: redis::Value = server.cli(&["DUMP", "n"]);
        let store = store(&server, Dialect::Plain, None);
        let Inspection::Foreign(seen) = inspect(&store, "n").await else { panic!("{plant:?}") };
        assert!(seen.to_string().contains(says), "{seen}");
        let answer =
            acquire(&store, "n", Token::from_bytes(TOKEN)).await.expect("it answers").answer;
        let Acquired::Foreign(met) = answer else { panic!("{plant:?}: {answer:?}") };
        assert!(met.kind.to_string().contains(says), "{}", met.kind);
        assert_eq!(server.cli(&["DUMP", "n"]), dump, "{plant:?}");
    }
    server.cli(&["DEL", "n"]);
    server.cli(&["SET", "n", &THREAD[..36], "PX", "600000"]);
    let redisson = store_of(&server, Dialect::Redisson);
    let Inspection::Foreign(seen) = inspect(&redisson, "n").await else { panic!("it is a string") };
    assert!(seen.to_string().contains("as Spring and pottery write"), "{seen}");
}

fn store_of(server: &RedisServer, dialect: Dialect) -> RedisStore {
    store(server, dialect, None)
}

#[tokio::test]
async fn on_a_cluster_a_lock_of_python_has_its_signal_in_its_slot_or_is_refused() {
    let cluster = fencelock_testkit::RedisCluster::start();
    let builder = RedisStore::builder(cluster.url().parse().expect("a url"));
    let store = builder.dialect(Dialect::PythonRedisLock).build().expect("it is valid");
    let monitors: Vec<_> = cluster.servers().iter().map(RedisServer::monitor).collect();
    for at in ["{a}1", "{b}2", "{c}3"] {
        let holder = Token::from_bytes(TOKEN);
        let _ = take(&store, at, holder).await;
        assert_eq!(release(&store, at, holder).await.expect("it answers"), Released::Held);
        let seen: Vec<_> = monitors.iter().flat_map(fencelock_testkit::Monitor::take).collect();
        let pushed = seen.iter().filter(|seen| seen.name() == "LPUSH");
        assert_eq!(pushed.count(), 1, "{at}");
    }
    let error = acquire(&store, "untagged", Token::from_bytes(TOKEN)).await.expect_err("two slots");
    assert_eq!(error.kind(), fencelock_store::StoreErrorKind::Unsupported);
    assert!(error.to_string().contains("hash tag"), "{error}");
}
