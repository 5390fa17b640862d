//! Redisson's locks on the wire: what Redisson finds there, and holds of explicit owners. The others are
//! raw commands here, with the effects of Redisson's scripts; the real one is in `testing/interop`.

mod support;

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, Forced, Inspection, Mode, Novelty, Owner,
    ReleaseRequest, Released, RenewRequest, Renewed, Token,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store as _, StoreErrorKind};
use fencelock_testkit::RedisServer;
use redis::Value;
use support::{acquire, granted, inspect, name, release, soon, store_at, take, token, ttl};

const THREAD: &str = "852f3e2f-104b-4219-9d90-e04a2b71bdeb:7";

fn redisson(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::Redisson)
}

fn ask<A: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> A {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(&mut server.connect()).expect("the server answers")
}

/// What Redisson's script does to a lock that is free or its own.
fn theirs(server: &RedisServer, key: &str, ms: u32) {
    server.cli(&["HINCRBY", key, THREAD, "1"]);
    server.cli(&["PEXPIRE", key, &ms.to_string()]);
}

async fn one_more(store: &RedisStore, owner: &str, token: Token) -> Acquired {
    let mut request = AcquireRequest::new(name("n"), token, ttl(30_000));
    request.mode = Mode::Owned(Owner::new(owner).expect("a short owner"));
    store.acquire(&request, soon(store)).await.expect("it answers").answer
}

fn is_granted(answer: &Acquired, novelty: Novelty) -> bool {
    matches!(answer, Acquired::Granted(grant) if grant.novelty == novelty)
}

#[tokio::test]
async fn a_lease_is_a_hash_of_one_field_with_a_ttl_and_its_end_is_published() {
    let server = RedisServer::start();
    let store = redisson(&server);
    let holder = Token::from_bytes(*b"\xff\xfe\xfd\x00lease of ours".first_chunk().expect("16"));
    let _ = take(&store, "n", holder).await;
    let fields: Vec<(String, i64)> = ask(&server, &["HGETALL", "n"]);
    assert_eq!(fields, [("fffefd00-6c65-6173-6520-6f66206f7572:0".to_owned(), 1)]);
    let left: i64 = ask(&server, &["PTTL", "n"]);
    assert!((1..=30_000).contains(&left), "{left}");
    let monitor = server.monitor();
    assert_eq!(release(&store, "n", holder).await.expect("it answers"), Released::Held);
    let seen = monitor.take();
    let said = seen.iter().find(|seen| seen.name() == "PUBLISH").expect("it is said");
    assert_eq!(said.args[1..], [b"redisson_lock__channel:{n}".to_vec(), b"0".to_vec()]);
    assert_eq!(ask::<Vec<String>>(&server, &["KEYS", "*"]), [""; 0]);
}

#[tokio::test]
async fn both_sides_exclude_each_other_and_theirs_is_shown_with_its_owner_and_holds() {
    let server = RedisServer::start();
    let store = redisson(&server);
    theirs(&server, "n", 20_000);
    theirs(&server, "n", 20_000);
    let busy = acquire(&store, "n", token()).await.expect("it answers").answer;
    let Acquired::Busy(busy) = busy else { panic!("{busy:?}") };
    assert!(busy.holder.remaining.is_some_and(|left| left <= Duration::from_secs(20)));
    let Inspection::Held(holder) = inspect(&store, "n").await else { panic!("it is held") };
    let sharing = holder.sharing.expect("it is an owner's");
    assert_eq!((sharing.holders, sharing.owner), (2, Owner::new(THREAD).ok()));
    assert_eq!(release(&store, "n", token()).await.expect("it answers"), Released::Taken);
    assert_eq!(ask::<i64>(&server, &["HGET", "n", THREAD]), 2, "it is untouched");
    // Without a ttl it is held until somebody gives it back.
    server.cli(&["PERSIST", "n"]);
    let busy = acquire(&store, "n", token()).await.expect("it answers").answer;
    assert!(matches!(&busy, Acquired::Busy(busy) if busy.holder.remaining.is_none()), "{busy:?}");
    let force = ForceReleaseRequest::new(name("n"));
    let forced = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(forced, Forced::Removed(_)), "{forced:?}");
    let _ = take(&store, "n", token()).await;
}

/// Goal: a hold counts once, however often it is asked for or given back. Method: each request twice,
/// the releases of tokens that never had a hold between them.
#[tokio::test]
async fn holds_of_an_owner_are_counted_once_each_and_the_last_frees_the_lock() {
    let server = RedisServer::start();
    let store = redisson(&server);
    let (first, second) = (token(), token());
    for hold in [first, second] {
        assert!(is_granted(&one_more(&store, "me", hold).await, Novelty::Fresh));
        assert!(is_granted(&one_more(&store, "me", hold).await, Novelty::Repeated));
    }
    assert_eq!(ask::<i64>(&server, &["HGET", "n", "me"]), 2);
    assert!(matches!(one_more(&store, "another", token()).await, Acquired::Busy(_)));
    assert!(matches!(
        acquire(&store, "n", token()).await.expect("it answers").answer,
        Acquired::Busy(_)
    ));
    let _ = release(&store, "n", token()).await.expect("it answers");
    assert_eq!(release(&store, "n", first).await.expect("it answers"), Released::Held);
    let again = release(&store, "n", first).await.expect("it answers");
    assert_ne!(again, Released::Held, "it had one hold");
    assert_eq!(ask::<i64>(&server, &["HGET", "n", "me"]), 1);
    let batch = [RenewRequest::new(name("n"), second, ttl(60_000))];
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::Extended { .. }]), "{renewed:?}");
    assert!(ask::<i64>(&server, &["PTTL", "n"]) > 30_000);
    assert_eq!(release(&store, "n", second).await.expect("it answers"), Released::Held);
    assert_eq!(ask::<Vec<String>>(&server, &["KEYS", "*"]), [""; 0], "nothing is left");
}

#[tokio::test]
async fn a_thread_of_redisson_and_an_owner_of_ours_can_be_one() {
    let server = RedisServer::start();
    let store = redisson(&server);
    theirs(&server, "n", 20_000);
    let hold = token();
    assert!(is_granted(&one_more(&store, THREAD, hold).await, Novelty::Fresh));
    assert_eq!(ask::<i64>(&server, &["HGET", "n", THREAD]), 2);
    assert_eq!(release(&store, "n", hold).await.expect("it answers"), Released::Held);
    assert_eq!(ask::<i64>(&server, &["HGET", "n", THREAD]), 1, "theirs is left");
    assert!(ask::<i64>(&server, &["PTTL", "n"]) > 20_000, "no release shortens it");
}

/// Goal: a hold that ended by itself takes no other along. Method: a short one beside a long one.
#[tokio::test]
async fn a_hold_that_ended_is_lost_and_the_owners_others_go_on() {
    let server = RedisServer::builder().clock().start();
    let store = redisson(&server);
    let (short, long) = (token(), token());
    assert!(is_granted(&one_more(&store, "me", long).await, Novelty::Fresh));
    let mut request = AcquireRequest::new(name("n"), short, ttl(1_000));
    request.mode = Mode::Owned(Owner::new("me").expect("a short owner"));
    let _ = granted(store.acquire(&request, soon(&store)).await);
    server.clock().advance(Duration::from_secs(2));
    let batch = [short, long].map(|token| RenewRequest::new(name("n"), token, ttl(60_000)));
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::NotHeld(_), Renewed::Extended { .. }]), "{renewed:?}");
}

#[tokio::test]
async fn fencing_tokens_go_on_where_redisson_was_and_a_second_hold_has_the_first_ones() {
    let server = RedisServer::start();
    let store = store_at(&server.url(), Dialect::RedissonFenced);
    let fence = |answer: Acquired| match answer {
        Acquired::Granted(grant) => grant.fence.token().map(|fence| fence.as_u64()),
        other => panic!("{other:?}"),
    };
    let first = token();
    assert_eq!(take(&store, "n", first).await.fence.token().map(|f| f.as_u64()), Some(1));
    let _ = release(&store, "n", first).await;
    // As theirs does, before it takes the lock.
    server.cli(&["INCR", "redisson_lock_token:{n}"]);
    let (hold, another) = (token(), token());
    assert_eq!(fence(one_more(&store, "me", hold).await), Some(3));
    assert_eq!(fence(one_more(&store, "me", another).await), Some(3), "the same on re-entry");
    for hold in [hold, another] {
        let _ = release(&store, "n", hold).await;
    }
    assert_eq!(fence(one_more(&store, "me", token()).await), Some(4));
    server.cli(&["SET", "redisson_lock_token:{m}", "no number"]);
    let answer = acquire(&store, "m", token()).await.expect("it answers").answer;
    assert!(!matches!(answer, Acquired::Granted(_)), "{answer:?}");
}

#[tokio::test]
async fn other_kinds_of_locks_at_the_key_are_left_alone() {
    let server = RedisServer::start();
    let store = redisson(&server);
    for field in ["mode", "read", THREAD, "1"].chunks(2) {
        server.cli(&["HSET", "n", field[0], field[1]]);
    }
    server.cli(&["SET", "s", "a token"]);
    let dump = |key| -> Value { server.cli(&["DUMP", key]) };
    let before = [dump("n"), dump("s")];
    assert!(matches!(
        acquire(&store, "n", token()).await.expect("it answers").answer,
        Acquired::Busy(_)
    ));
    let foreign = acquire(&store, "s", token()).await.expect("it answers").answer;
    assert!(matches!(foreign, Acquired::Foreign(_)), "{foreign:?}");
    for key in ["n", "s"] {
        assert!(matches!(inspect(&store, key).await, Inspection::Foreign(_)), "{key}");
        let force = ForceReleaseRequest::new(name(key));
        let forced = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(forced, Forced::Foreign(_)), "{key}: {forced:?}");
        let release = ReleaseRequest::new(name(key), token());
        let released = store.release(&release, soon(&store)).await.expect("it answers").answer;
        assert_eq!(released, Released::Taken, "{key}");
    }
    assert_eq!([dump("n"), dump("s")], before);
}

#[tokio::test]
async fn an_owner_that_redisson_would_take_for_something_else_is_refused() {
    let server = RedisServer::start();
    let store = redisson(&server);
    for owner in ["mode", "u:1:write", "852f3e2f-104b-4219-9d90-e04a2b71bdeb:0"] {
        let mut request = AcquireRequest::new(name("n"), token(), ttl(30_000));
        request.mode = Mode::Owned(Owner::new(owner).expect("a short owner"));
        let error = store.acquire(&request, soon(&store)).await.expect_err("it is refused");
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{owner}: {error}");
    }
}
