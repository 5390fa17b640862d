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

fn rw(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::RedissonRw)
}

async fn reads(store: &RedisStore, token: Token) -> Acquired {
    let mut request = AcquireRequest::new(name("n"), token, ttl(30_000));
    request.mode = Mode::Shared;
    store.acquire(&request, soon(store)).await.expect("it answers").answer
}

/// What Redisson's script does for a reader.
fn they_read(server: &RedisServer, ms: u32) {
    server.cli(&["HSET", "n", "mode", "read", THREAD, "1"]);
    let lease = format!("{{n}}:{THREAD}:rwlock_timeout:1");
    server.cli(&["SET", &lease, "1", "PX", &ms.to_string()]);
    server.cli(&["PEXPIRE", "n", &ms.to_string()]);
}

#[tokio::test]
async fn readers_have_leases_beside_the_hash_which_lasts_as_long_as_the_longest_of_those_left() {
    let server = RedisServer::start();
    let store = rw(&server);
    they_read(&server, 5_000);
    let (first, second) = (token(), token());
    for reader in [first, second] {
        assert!(is_granted(&reads(&store, reader).await, Novelty::Fresh));
        assert!(is_granted(&reads(&store, reader).await, Novelty::Repeated));
    }
    assert_eq!(ask::<i64>(&server, &["HLEN", "n"]), 4);
    let leases: Vec<String> = ask(&server, &["KEYS", "{n}:*:rwlock_timeout:1"]);
    assert_eq!(leases.len(), 3);
    assert!(ask::<i64>(&server, &["PTTL", "n"]) > 5_000);
    let Inspection::Held(holder) = inspect(&store, "n").await else { panic!("it is held") };
    assert_eq!(holder.sharing.map(|sharing| sharing.holders), Some(3));
    let busy = acquire(&store, "n", token()).await.expect("it answers").answer;
    assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
    for reader in [first, second] {
        assert_eq!(release(&store, "n", reader).await.expect("it answers"), Released::Held);
    }
    // Theirs is left, with its own end; and nothing of it was touched.
    let left: i64 = ask(&server, &["PTTL", "n"]);
    assert!((1..=5_000).contains(&left), "{left}");
    assert_eq!(ask::<i64>(&server, &["HGET", "n", THREAD]), 1);
    assert_ne!(release(&store, "n", first).await.expect("it answers"), Released::Held);
}

#[tokio::test]
async fn a_writer_is_alone_and_its_end_is_told_to_all_and_the_last_readers_to_one() {
    let server = RedisServer::start();
    let store = rw(&server);
    let said = |monitor: &fencelock_testkit::Monitor| {
        let seen = monitor.take();
        let said: Vec<_> = seen.into_iter().filter(|seen| seen.name() == "PUBLISH").collect();
        said.iter().map(|seen| seen.args[1..].concat()).collect::<Vec<_>>()
    };
    let (writer, reader) = (token(), token());
    let _ = take(&store, "n", writer).await;
    assert!(matches!(reads(&store, reader).await, Acquired::Busy(_)));
    let monitor = server.monitor();
    assert_eq!(release(&store, "n", writer).await.expect("it answers"), Released::Held);
    assert_eq!(said(&monitor), [b"redisson_rwlock:{n}1".to_vec()]);
    assert!(is_granted(&reads(&store, reader).await, Novelty::Fresh));
    assert_eq!(release(&store, "n", reader).await.expect("it answers"), Released::Held);
    assert_eq!(said(&monitor), [b"redisson_rwlock:{n}0".to_vec()]);
    assert_eq!(ask::<Vec<String>>(&server, &["KEYS", "*"]), [""; 0]);
}

#[tokio::test]
async fn a_writer_becomes_a_reader_and_lets_others_in() {
    let server = RedisServer::start();
    let store = rw(&server);
    let holder = token();
    let _ = take(&store, "n", holder).await;
    let down = fencelock_core::DowngradeRequest::new(name("n"), holder);
    for _ in 0..2 {
        let answer = store.downgrade(&down, soon(&store)).await.expect("it answers").answer;
        let fencelock_core::Downgraded::Shared { remaining } = answer else { panic!("{answer:?}") };
        assert!(remaining <= Duration::from_secs(30) && remaining > Duration::from_secs(10));
    }
    assert!(is_granted(&reads(&store, token()).await, Novelty::Fresh));
    let busy = acquire(&store, "n", token()).await.expect("it answers").answer;
    assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
    let batch = [RenewRequest::new(name("n"), holder, ttl(60_000))];
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::Extended { .. }]), "{renewed:?}");
    assert_eq!(release(&store, "n", holder).await.expect("it answers"), Released::Held);
}

/// Goal: a reader that died keeps a writer out for its lease, and not for as long as others read.
#[tokio::test]
async fn a_reader_whose_lease_is_over_holds_nothing() {
    let server = RedisServer::builder().clock().start();
    let store = rw(&server);
    let (dead, alive) = (token(), token());
    let mut request = AcquireRequest::new(name("n"), dead, ttl(1_000));
    request.mode = Mode::Shared;
    let _ = granted(store.acquire(&request, soon(&store)).await);
    assert!(is_granted(&reads(&store, alive).await, Novelty::Fresh));
    server.clock().advance(Duration::from_secs(2));
    let batch = [RenewRequest::new(name("n"), dead, ttl(60_000))];
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::NotHeld(_)]), "{renewed:?}");
    assert_eq!(release(&store, "n", alive).await.expect("it answers"), Released::Held);
    let _ = take(&store, "n", token()).await;
}

fn permits(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::RedissonPermits)
}

async fn asks(store: &RedisStore, permits: u32, limit: u32, token: Token) -> Acquired {
    let mut request = AcquireRequest::new(name("n"), token, ttl(30_000));
    request.mode = Mode::Permits { permits, limit };
    store.acquire(&request, soon(store)).await.expect("it answers").answer
}

#[tokio::test]
async fn permits_are_taken_once_by_each_token_and_given_back_as_many() {
    let server = RedisServer::start();
    let store = permits(&server);
    // A token whose last bytes count over.
    let (three, one) = (Token::from_bytes([255; 16]), token());
    assert!(is_granted(&asks(&store, 3, 4, three).await, Novelty::Fresh));
    assert!(is_granted(&asks(&store, 3, 4, three).await, Novelty::Repeated));
    assert_eq!(ask::<i64>(&server, &["GET", "n"]), 1);
    assert_eq!(ask::<i64>(&server, &["ZCARD", "{n}:timeout"]), 3);
    let busy = asks(&store, 2, 4, one).await;
    let Acquired::Busy(busy) = busy else { panic!("{busy:?}") };
    let sharing = busy.holder.sharing.expect("it is a semaphore's");
    assert_eq!((sharing.used, sharing.limit), (3, Some(4)));
    assert!(busy.holder.remaining.is_some());
    let other = asks(&store, 1, 5, one).await;
    let differs = fencelock_core::Refusal::LimitDiffers { limit: 4 };
    assert_eq!(other, Acquired::Refused(differs));
    assert!(is_granted(&asks(&store, 1, 4, one).await, Novelty::Fresh));
    let monitor = server.monitor();
    assert_eq!(release(&store, "n", three).await.expect("it answers"), Released::Held);
    let seen = monitor.take();
    let said = seen.iter().find(|seen| seen.name() == "PUBLISH").expect("it is said");
    assert_eq!(said.args[1..], [b"redisson_sc:{n}".to_vec(), b"3".to_vec()]);
    assert_eq!(release(&store, "n", three).await.expect("it answers"), Released::Expired);
    assert_eq!(ask::<i64>(&server, &["GET", "n"]), 3);
    assert_eq!(release(&store, "n", one).await.expect("it answers"), Released::Held);
    assert_eq!(ask::<i64>(&server, &["GET", "n"]), 4);
    assert_eq!(ask::<i64>(&server, &["EXISTS", "{n}:timeout"]), 0);
}

/// Goal: permits of the dead come back, by their leases on the server's clock. Method: theirs and ours end
/// unrenewed beside one that is renewed.
#[tokio::test]
async fn permits_whose_lease_is_over_are_free_again() {
    let server = RedisServer::builder().clock().start();
    let store = permits(&server);
    let (dead, alive) = (token(), token());
    assert!(is_granted(&asks(&store, 1, 2, dead).await, Novelty::Fresh));
    assert!(is_granted(&asks(&store, 1, 2, alive).await, Novelty::Fresh));
    server.clock().advance(Duration::from_secs(20));
    let batch = [RenewRequest::new(name("n"), alive, ttl(60_000))];
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::Extended { .. }]), "{renewed:?}");
    server.clock().advance(Duration::from_secs(20));
    let batch = [dead, alive].map(|token| RenewRequest::new(name("n"), token, ttl(60_000)));
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::NotHeld(_), Renewed::Extended { .. }]), "{renewed:?}");
    let Inspection::Held(holder) = inspect(&store, "n").await else { panic!("one is held") };
    assert_eq!(holder.sharing.map(|sharing| (sharing.used, sharing.limit)), Some((1, Some(2))));
    assert!(is_granted(&asks(&store, 1, 2, token()).await, Novelty::Fresh));
    assert!(matches!(asks(&store, 1, 2, token()).await, Acquired::Busy(_)));
    assert_eq!(release(&store, "n", dead).await.expect("it answers"), Released::Expired);
}

#[tokio::test]
async fn the_limit_is_changed_and_everybody_can_be_forced_out() {
    let server = RedisServer::start();
    let store = permits(&server);
    let holder = token();
    assert!(is_granted(&asks(&store, 2, 2, holder).await, Novelty::Fresh));
    let larger = fencelock_core::SetLimitRequest::new(name("n"), 3);
    let answer = store.set_limit(&larger, soon(&store)).await.expect("it answers").answer;
    assert_eq!(answer, fencelock_core::LimitSet::Set { before: Some(2), used: 2 });
    assert!(is_granted(&asks(&store, 1, 3, token()).await, Novelty::Fresh));
    let force = ForceReleaseRequest::new(name("n"));
    let forced = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(forced, Forced::Removed(_)), "{forced:?}");
    assert_eq!(ask::<i64>(&server, &["GET", "n"]), 3);
    assert_eq!(release(&store, "n", holder).await.expect("it answers"), Released::Expired);
}

#[tokio::test]
async fn what_is_no_semaphore_is_left_alone_and_locks_are_refused() {
    let server = RedisServer::start();
    let store = permits(&server);
    server.cli(&["SET", "n", "a token"]);
    assert!(matches!(asks(&store, 1, 2, token()).await, Acquired::Foreign(_)));
    assert!(matches!(inspect(&store, "n").await, Inspection::Foreign(_)));
    assert_eq!(release(&store, "n", token()).await.expect("it answers"), Released::Taken);
    assert_eq!(ask::<String>(&server, &["GET", "n"]), "a token");
    let error = acquire(&store, "free", token()).await.expect_err("it has no locks");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert_eq!(ask::<i64>(&server, &["EXISTS", "free"]), 0);
}

fn fair(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::RedissonFair)
}

async fn listens(
    store: &RedisStore,
) -> (std::sync::Arc<support::Ear>, fencelock_store::Subscription) {
    let ear = std::sync::Arc::new(support::Ear::default());
    let sink = std::sync::Arc::clone(&ear) as std::sync::Arc<dyn fencelock_store::WakeupSink>;
    let subscription = store.listen(sink, soon(store)).await.expect("it listens");
    (ear, subscription)
}

/// Goal: nobody is overtaken, whichever side waits, and each is called on its own channel.
#[tokio::test]
async fn a_queue_is_served_in_its_order_and_who_gives_up_leaves_it() {
    let server = RedisServer::start();
    let store = fair(&server);
    let (ear, subscription) = listens(&store).await;
    let holder = token();
    let _ = take(&store, "n", holder).await;
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let waiter = support::waits("n", Some(subscription.listener));
        let answer = store.acquire(&waiter, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
        waiters.push(waiter);
    }
    let queue = |server: &RedisServer| -> Vec<String> {
        ask(server, &["LRANGE", "redisson_lock_queue:{n}", "0", "-1"])
    };
    assert_eq!(queue(&server).len(), 3);
    assert_eq!(ask::<i64>(&server, &["ZCARD", "redisson_lock_timeout:{n}"]), 3);
    let _ = release(&store, "n", waiters[1].token).await.expect("it answers");
    assert_eq!(queue(&server).len(), 2);
    assert_eq!(release(&store, "n", holder).await.expect("it answers"), Released::Held);
    let turn = |at: usize| fencelock_core::Wakeup::Turn(waiters[at].token);
    ear.until("the first is called", |ear| ear.heard() == [turn(0)]).await;
    // Free, and yet nobody else's.
    for newcomer in
        [acquire(&store, "n", token()).await, store.acquire(&waiters[2], soon(&store)).await]
    {
        let answer = newcomer.expect("it answers").answer;
        assert!(matches!(answer, Acquired::Busy(_) | Acquired::Queued(_)), "{answer:?}");
    }
    let _ = granted(store.acquire(&waiters[0], soon(&store)).await);
    assert_eq!(release(&store, "n", waiters[0].token).await.expect("it answers"), Released::Held);
    ear.until("the last is called", |ear| ear.heard() == [turn(0), turn(2)]).await;
    let _ = granted(store.acquire(&waiters[2], soon(&store)).await);
    assert_eq!(release(&store, "n", waiters[2].token).await.expect("it answers"), Released::Held);
    assert_eq!(ask::<Vec<String>>(&server, &["KEYS", "*"]), [""; 0], "nothing is left");
}

#[tokio::test]
async fn a_waiter_that_died_is_passed_over_when_its_time_is_over() {
    let server = RedisServer::builder().clock().start();
    let store = fair(&server);
    let (_ear, subscription) = listens(&store).await;
    let holder = token();
    let _ = take(&store, "n", holder).await;
    let dead = support::waits("n", Some(subscription.listener));
    let _ = store.acquire(&dead, soon(&store)).await.expect("it answers");
    assert_eq!(release(&store, "n", holder).await.expect("it answers"), Released::Held);
    let next = acquire(&store, "n", token()).await.expect("it answers").answer;
    let Acquired::Busy(busy) = next else { panic!("{next:?}") };
    let left = busy.holder.remaining.expect("it is waited for that long");
    server.clock().advance(left);
    let _ = take(&store, "n", token()).await;
}

/// Goal: permits of RSemaphore are counted with theirs, and those of ours that died come back. Method: theirs
/// are what its script does: a smaller number, and nothing else.
#[tokio::test]
async fn permits_without_owners_are_counted_together_and_ours_end_by_their_leases() {
    let server = RedisServer::builder().clock().start();
    let store = store_at(&server.url(), Dialect::RedissonSemaphore);
    let (dead, alive) = (token(), token());
    assert!(is_granted(&asks(&store, 1, 3, dead).await, Novelty::Fresh));
    server.cli(&["DECRBY", "n", "1"]);
    assert!(is_granted(&asks(&store, 1, 3, alive).await, Novelty::Fresh));
    assert!(is_granted(&asks(&store, 1, 3, alive).await, Novelty::Repeated));
    assert_eq!(ask::<i64>(&server, &["GET", "n"]), 0);
    assert!(matches!(asks(&store, 1, 3, token()).await, Acquired::Busy(_)));
    server.cli(&["INCRBY", "n", "1"]);
    let monitor = server.monitor();
    assert_eq!(release(&store, "n", alive).await.expect("it answers"), Released::Held);
    let seen = monitor.take();
    let said = seen.iter().find(|seen| seen.name() == "PUBLISH").expect("it is said");
    assert_eq!(said.args[1..], [b"redisson_sc:{n}".to_vec(), b"2".to_vec()]);
    server.clock().advance(Duration::from_secs(40));
    let all = token();
    assert!(is_granted(&asks(&store, 3, 3, all).await, Novelty::Fresh), "the dead one's came back");
    assert_eq!(release(&store, "n", dead).await.expect("it answers"), Released::Expired);
    assert_eq!(ask::<i64>(&server, &["GET", "n"]), 0);
    let limit = fencelock_core::SetLimitRequest::new(name("n"), 5);
    let error = store.set_limit(&limit, soon(&store)).await.expect_err("nobody knows all");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}
