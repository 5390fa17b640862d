//! The line of a name on a real server: what is lost on the way, what is in the way, and what goes on
//! all the same.

mod support;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, Forced, ForeignKind, Inspection, NotHeld,
    Novelty, Queued, Refusal, ReleaseRequest, Released, Renewed, RevokeRequest, Revoked,
    ShortenRequest, Shortened, Token, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store, StoreErrorKind, Subscription, WakeupSink, rt};
use fencelock_testkit::{Persistence, RedisServer, eventually};
use support::{
    Ear, acquire, granted, inspect, name, names, release, renew, soon, store_at, take, token, ttl,
    waits,
};

fn native(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::Native)
}

async fn listen(store: &RedisStore) -> (Arc<Ear>, Subscription) {
    let ear = Arc::new(Ear::default());
    let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
    let subscription = store.listen(sink, soon(store)).await.expect("it can be listened to");
    (ear, subscription)
}

async fn queue(store: &RedisStore, request: &AcquireRequest) -> Queued {
    match store.acquire(request, soon(store)).await.expect("the store answers").answer {
        Acquired::Queued(queued) => queued,
        other => panic!("no place: {other:?}"),
    }
}

async fn assert_held(store: &RedisStore, at: &str, token: Token) {
    match inspect(store, at).await {
        Inspection::Held(holder) => assert_eq!(holder.proof, Some(token.into()), "{at}"),
        other => panic!("{at} is not held: {other:?}"),
    }
}

fn granted_to(ear: &Ear, token: Token) -> bool {
    ear.heard().iter().any(|wakeup| matches!(wakeup, Wakeup::Granted(g) if g.token == token))
}

/// Waits, with a limit, until the server knows of so many channels; the runtime goes on meanwhile.
async fn until_listened_to(server: &RedisServer, count: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match server.cli(&["PUBSUB", "CHANNELS"]) {
            redis::Value::Array(channels) if channels.len() == count => return,
            other => assert!(Instant::now() < end, "not {count} channels: {other:?}"),
        }
        rt::sleep(Duration::from_millis(2)).await;
    }
}

/// All fields of a key, in order.
fn fields(connection: &mut redis::Connection, key: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    redis::cmd("HGETALL").arg(key).query(connection).expect("it is a hash")
}

/// The type of a key.
fn kind(server: &RedisServer, key: &str) -> String {
    match server.cli(&["TYPE", key]) {
        redis::Value::SimpleString(kind) => kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_key_is_a_hash_while_somebody_waits_and_lives_as_long_as_they_may() {
    let server = RedisServer::start();
    let store = native(&server);
    let (holder, waiter) = (token(), waits("k", None));
    let mut asked = AcquireRequest::new(name("k"), holder, ttl(1_000));
    asked.retain = fencelock_core::Retain::NOTHING;
    let _ = granted(store.acquire(&asked, soon(&store)).await);
    let before = server.cli(&["PEXPIRETIME", "fencelock:k"]);
    let _ = queue(&store, &waiter).await;
    assert_eq!(kind(&server, "fencelock:k"), "hash");
    let redis::Value::Int(left) = server.cli(&["PTTL", "fencelock:k"]) else { panic!() };
    assert!(left > 50_000, "the place may be wanted for a minute, the key goes in {left} ms");
    assert_eq!(release(&store, "k", waiter.token).await.expect("it works"), Released::Withdrawn);
    assert_eq!(kind(&server, "fencelock:k"), "string");
    assert_eq!(server.cli(&["PEXPIRETIME", "fencelock:k"]), before, "as if nobody had waited");
}

#[tokio::test]
async fn a_line_outlives_a_script_flush() {
    let server = RedisServer::start();
    let store = native(&server);
    let (ear, subscription) = listen(&store).await;
    let holder = token();
    let flush = || server.cli(&["SCRIPT", "FLUSH"]);
    let _ = take(&store, "k", holder).await;
    let waiters: Vec<_> = (0..3).map(|_| waits("k", Some(subscription.listener))).collect();
    for waiter in &waiters {
        flush();
        let _ = queue(&store, waiter).await;
    }
    flush();
    let revoke = RevokeRequest::new(name("k"));
    let revoked = store.revoke(&revoke, soon(&store)).await.expect("the store answers").answer;
    assert!(matches!(revoked, Revoked::Requested(_)), "{revoked:?}");
    flush();
    let shorten = ShortenRequest::new(name("k"), holder, ttl(20_000));
    let shortened = store.shorten(&shorten, soon(&store)).await.expect("the store answers").answer;
    assert!(matches!(shortened, Shortened::Shortened { .. }), "{shortened:?}");
    flush();
    assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    assert!(granted_to(&ear, waiters[0].token), "{:?}", ear.heard());
    flush();
    let force = ForceReleaseRequest::new(name("k"));
    let forced = store.force_release(&force, soon(&store)).await.expect("the store answers").answer;
    assert!(matches!(&forced, Forced::Removed(holder) if holder.waiting == 2), "{forced:?}");
    assert_held(&store, "k", waiters[1].token).await;
    assert!(granted_to(&ear, waiters[1].token), "{:?}", ear.heard());
}

#[tokio::test]
async fn full_memory_stops_no_hand_over_and_takes_no_new_place() {
    let server = RedisServer::start();
    let store = native(&server);
    let (ear, subscription) = listen(&store).await;
    let (holder, lone) = (token(), token());
    let _ = take(&store, "k", holder).await;
    let _ = take(&store, "lone", lone).await;
    let waiters: Vec<_> = (0..4).map(|_| waits("k", Some(subscription.listener))).collect();
    for waiter in &waiters {
        let _ = queue(&store, waiter).await;
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for at in ["k", "lone"] {
        let answer = store.acquire(&waits(at, None), soon(&store)).await;
        let answer = answer.expect("the store answers").answer;
        assert!(matches!(answer, Acquired::Busy(_)), "{at}: {answer:?}");
    }
    let again = queue(&store, &waiters[1]).await;
    assert_eq!((again.position, again.busy.holder.waiting), (2, 4));
    let renewed = renew(&store, "k", holder).await.expect("it works");
    assert!(matches!(renewed, Renewed::Extended { waiting: 4, .. }), "{renewed:?}");
    let revoke = RevokeRequest::new(name("lone"));
    let revoked = store.revoke(&revoke, soon(&store)).await.expect("it works").answer;
    assert!(matches!(revoked, Revoked::Requested(_)), "{revoked:?}");
    let withdrawn = release(&store, "k", waiters[2].token).await;
    assert_eq!(withdrawn.expect("it works"), Released::Withdrawn);
    assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    for index in [0, 1, 3] {
        let holder = waiters[index].token;
        assert!(granted_to(&ear, holder), "{index}: {:?}", ear.heard());
        assert_held(&store, "k", holder).await;
        assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    }
    assert_eq!(kind(&server, "fencelock:k"), "string");
}

#[tokio::test]
async fn a_waiter_whose_process_is_gone_is_passed_over_in_the_same_step() {
    let server = RedisServer::start();
    let (store, other) = (native(&server), native(&server));
    let (ear, subscription) = listen(&store).await;
    let (_, gone) = listen(&other).await;
    let holder = token();
    let _ = take(&store, "k", holder).await;
    let dead: Vec<_> = (0..3).map(|_| waits("k", Some(gone.listener))).collect();
    for waiter in &dead {
        let _ = queue(&other, waiter).await;
    }
    let alive = waits("k", Some(subscription.listener));
    assert_eq!(queue(&store, &alive).await.position, 4);
    other.close().await;
    until_listened_to(&server, 1).await;
    let monitor = server.monitor();
    assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    assert!(granted_to(&ear, alive.token), "{:?}", ear.heard());
    assert_held(&store, "k", alive.token).await;
    let published = monitor.take().into_iter().filter(|seen| seen.name() == "PUBLISH").count();
    assert_eq!(published, 1, "nothing goes out for the dead, not even to replicas");
    let retired = store.acquire(&dead[0], soon(&store)).await.expect("the store answers").answer;
    assert!(matches!(retired, Acquired::Queued(_)), "it never held it: {retired:?}");
}

#[tokio::test]
async fn thousands_of_dead_waiters_are_passed_over_quickly() {
    let server = RedisServer::start();
    let store = native(&server);
    let (ear, subscription) = listen(&store).await;
    let gone = rt::fresh_listener();
    let holder = token();
    let _ = take(&store, "k", holder).await;
    for _ in 0..5_000 {
        let _ = store.acquire(&waits("k", Some(gone)), soon(&store)).await.expect("it works");
    }
    let alive = waits("k", Some(subscription.listener));
    assert_eq!(queue(&store, &alive).await.position, 5_001);
    let start = Instant::now();
    assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    // One step passes over a thousand; whoever asks next goes on.
    let mut steps = 1;
    while !granted_to(&ear, alive.token) {
        let force = ForceReleaseRequest::new(name("k"));
        let _ = store.force_release(&force, soon(&store)).await.expect("it works");
        steps += 1;
        assert!(steps < 8, "{steps} steps");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_held(&store, "k", alive.token).await;
    assert_eq!(kind(&server, "fencelock:k"), "string");
}

#[tokio::test]
async fn garbage_in_a_line_is_left_alone_and_nothing_is_told() {
    let place = |token: &str, listener: &str| {
        format!("{token}{:016}{:08}{:08}{:010}0{:016}0000{listener}", 1, 90_000_000, 1, 0, 0)
    };
    let (other, mark) = ("b".repeat(32), "0".repeat(16));
    let bounds = |head: u64, tail: u64| format!("{head:016}{tail:016}{:016}1fencelock:", 1);
    let poisons: [(&str, Vec<String>); 9] = [
        ("a place that is none", vec!["w1".into(), "garbage".into()]),
        ("a listener that is none", vec!["w1".into(), place(&other, "../../etc/passwd")]),
        ("a token that is none", vec!["w1".into(), place(&"x".repeat(32), &mark)]),
        ("a number that is none", vec!["w1".into(), place(&other, &mark).replace('9', "e")]),
        ("bounds that are none", vec!["q".into(), "h".into()]),
        ("bounds without the place", vec!["q".into(), bounds(2, 2)]),
        ("bounds the wrong way round", vec!["q".into(), bounds(9, 1)]),
        ("half a place", vec!["w2".into(), place(&other, &mark)]),
        ("a place at no number", vec!["i0".into(), "one".into(), "x".into(), "y".into()]),
    ];
    let server = RedisServer::start();
    let store = native(&server);
    let mut connection = server.connect();
    for (what, fields) in poisons {
        server.cli(&["FLUSHALL"]);
        let (holder, waiter) = (token(), waits("k", None));
        let _ = take(&store, "k", holder).await;
        let _ = queue(&store, &waiter).await;
        let fields: Vec<String> = fields
            .into_iter()
            .map(|field| if field == "i0" { format!("i{}", holder.reveal()) } else { field })
            .collect();
        redis::cmd("HSET").arg("fencelock:k").arg(&fields).exec(&mut connection).expect("planted");
        let before = self::fields(&mut connection, "fencelock:k");
        let monitor = server.monitor();
        let released = release(&store, "k", holder).await.expect("the store answers");
        assert_eq!(released, Released::Taken, "{what}");
        let force = ForceReleaseRequest::new(name("k"));
        let forced = store.force_release(&force, soon(&store)).await.expect("it answers").answer;
        assert_eq!(forced, Forced::Foreign(ForeignKind::Unreadable), "{what}");
        assert_eq!(self::fields(&mut connection, "fencelock:k"), before, "{what}");
        let seen = monitor.take();
        assert!(!seen.iter().any(|seen| seen.name() == "PUBLISH"), "{what}: {seen:?}");
        // In a set the others are given back all the same.
        let lost = release_set(&store, &["j", "k", "l"]).await;
        assert_eq!(lost, Released::Taken, "{what}");
        assert_eq!(self::fields(&mut connection, "fencelock:k"), before, "{what}");
    }
}

/// Takes what is not `k` for one token, and gives all of it back.
async fn release_set(store: &RedisStore, members: &[&str]) -> Released {
    let (set, holder) = (names(members), token());
    let rest: Vec<&str> = members.iter().copied().filter(|at| *at != "k").collect();
    let _ = granted(
        store.acquire(&AcquireRequest::new(names(&rest), holder, ttl(30_000)), soon(store)).await,
    );
    let answer = store.release(&ReleaseRequest::new(set, holder), soon(store)).await;
    for at in rest {
        assert!(matches!(inspect(store, at).await, Inspection::Free { .. }), "{at}");
    }
    answer.expect("the store answers").answer
}

#[tokio::test]
async fn places_given_up_in_the_middle_leave_the_others_their_turns() {
    let server = RedisServer::start();
    let store = native(&server);
    let holder = token();
    let _ = take(&store, "k", holder).await;
    let waiters: Vec<_> = (0..300).map(|_| waits("k", None)).collect();
    for waiter in &waiters {
        let _ = queue(&store, waiter).await;
    }
    // All but every hundredth.
    for (index, waiter) in waiters.iter().enumerate() {
        if index % 100 != 50 {
            let answer = release(&store, "k", waiter.token).await.expect("it works");
            assert_eq!(answer, Released::Withdrawn);
        }
    }
    let left = [&waiters[50], &waiters[150], &waiters[250]];
    for waiter in left {
        let queued = queue(&store, waiter).await;
        assert_eq!(queued.busy.holder.waiting, 3);
        assert!((1..=3).contains(&queued.position), "{}", queued.position);
    }
    let mut holder = holder;
    for waiter in left {
        assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
        let grant = granted(store.acquire(waiter, soon(&store)).await);
        assert_eq!(grant.novelty, Novelty::Repeated);
        holder = waiter.token;
    }
    assert_eq!(kind(&server, "fencelock:k"), "string");
}

#[tokio::test]
async fn who_leaves_behind_a_lapsed_place_is_not_handed_the_lease_and_the_next_is() {
    let server = RedisServer::builder().clock().start();
    let store = native(&server);
    let _ = take(&store, "k", token()).await;
    let waiters: Vec<_> = (0..3).map(|_| waits("k", None)).collect();
    for (index, waiter) in waiters.iter().enumerate() {
        let mut waiter = waiter.clone();
        let place = waiter.place.as_mut().expect("it wants one");
        place.live = Duration::from_secs(if index == 0 { 1 } else { 3_600 });
        let _ = queue(&store, &waiter).await;
    }
    // The lease is over, and the first place too.
    server.clock().advance(Duration::from_secs(600));
    let left = release(&store, "k", waiters[1].token).await;
    assert_eq!(left.expect("it works"), Released::Withdrawn);
    assert_held(&store, "k", waiters[2].token).await;
}

#[tokio::test]
async fn a_killed_subscriber_is_told_once_and_listens_again() {
    let server = RedisServer::start();
    let store = native(&server);
    let (ear, _subscription) = listen(&store).await;
    let (second, _other) = listen(&store).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    for ear in [&ear, &second] {
        ear.until("it was not told that the connection broke", |ear| ear.broken() > 0).await;
    }
    let (third, subscription) = listen(&store).await;
    let holder = token();
    let _ = take(&store, "k", holder).await;
    let waiter = waits("k", Some(subscription.listener));
    let _ = queue(&store, &waiter).await;
    assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    assert!(granted_to(&third, waiter.token), "{:?}", third.heard());
    assert_eq!((ear.broken(), second.broken(), third.broken()), (1, 1, 0));
    assert!(ear.heard().is_empty() && second.heard().is_empty());
}

#[tokio::test]
async fn a_restarted_server_is_told_and_the_line_it_kept_goes_on() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let store = native(&server);
    let (ear, subscription) = listen(&store).await;
    let holder = token();
    let _ = take(&store, "k", holder).await;
    let mut waiter = waits("k", Some(subscription.listener));
    let _ = queue(&store, &waiter).await;
    let server = rt::blocking(move || {
        server.kill();
        server.restart();
        server
    })
    .await
    .expect("it comes back");
    ear.until("it was not told that the server went", |ear| ear.broken() > 0).await;
    let (ear, subscription) = listen(&store).await;
    waiter.listener = Some(subscription.listener);
    assert_eq!(queue(&store, &waiter).await.position, 1);
    assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    ear.until("it was not told", |ear| granted_to(ear, waiter.token)).await;
    drop(server);
}

#[tokio::test]
async fn a_dropped_subscription_ends_at_the_server_and_is_not_told_of_a_break() {
    let server = RedisServer::start();
    let store = native(&server);
    let (ear, subscription) = listen(&store).await;
    let channel = format!("fencelock:!wake:{}", subscription.listener);
    let channels = server.cli(&["PUBSUB", "CHANNELS"]);
    assert_eq!(channels, redis::Value::Array(vec![redis::Value::BulkString(channel.into())]));
    drop(subscription);
    until_listened_to(&server, 0).await;
    store.close().await;
    rt::sleep(Duration::from_millis(20)).await;
    assert_eq!(ear.broken(), 0);
}

#[test]
fn what_listens_ends_with_its_runtime_and_no_other_does() {
    let server = RedisServer::start();
    let store = native(&server);
    let mine = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let mine = mine.expect("a runtime");
    let (ear, _subscription) = mine.block_on(listen(&store));
    let (short, subscription) = rt::block_on(listen(&store));
    eventually(Duration::from_secs(10), "it is told that its runtime ended", || {
        short.broken() == 1
    });
    // Outside of any runtime.
    drop(subscription);
    assert_eq!((ear.broken(), short.broken()), (0, 1));
    mine.block_on(async {
        let _ = take(&store, "k", token()).await;
    });
    store_closes(&store, &mine, &ear);
}

fn store_closes(store: &RedisStore, runtime: &tokio::runtime::Runtime, ear: &Arc<Ear>) {
    runtime.block_on(store.close());
    eventually(Duration::from_secs(10), "it is told of the end", || ear.broken() == 1);
    let result = runtime.block_on(store.listen(Arc::new(Ear::default()), soon(store)));
    assert_eq!(result.map(|_| ()).expect_err("closed").kind(), StoreErrorKind::Closed);
}

#[tokio::test]
async fn a_connection_that_is_given_up_listens_no_more() {
    let server = RedisServer::start();
    let store = native(&server);
    let (ear, _subscription) = listen(&store).await;
    // A replica refuses writes; the connection to it is given up at once.
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = acquire(&store, "k", token()).await.expect_err("it is a replica");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    ear.until("it was not told", |ear| ear.broken() == 1).await;
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    let _ = take(&store, "k", token()).await;
    until_listened_to(&server, 0).await;
    assert_eq!(ear.broken(), 1);
}

#[tokio::test]
async fn a_message_of_somebody_else_is_no_wakeup() {
    let server = RedisServer::start();
    let store = native(&server);
    let (ear, subscription) = listen(&store).await;
    let channel = format!("fencelock:!wake:{}", subscription.listener);
    let own = token();
    for odd in ["", "g", "nonsense", &format!("t{}", "x".repeat(32)), &format!("g{}", own.reveal())]
    {
        server.cli(&["PUBLISH", &channel, odd]);
    }
    server.cli(&["PUBLISH", &channel, &format!("t{}", own.reveal())]);
    ear.until("a well formed message is heard", |ear| !ear.heard().is_empty()).await;
    assert_eq!(ear.heard(), [Wakeup::Turn(own)]);
}

#[tokio::test]
async fn the_memory_of_a_released_token_outlives_the_line() {
    let server = RedisServer::start();
    let store = native(&server);
    let (holder, waiter) = (token(), waits("k", None));
    let _ = take(&store, "k", holder).await;
    let _ = queue(&store, &waiter).await;
    assert_eq!(release(&store, "k", holder).await.expect("it works"), Released::Held);
    let renewed = renew(&store, "k", holder).await.expect("it works");
    assert_eq!(renewed, Renewed::NotHeld(NotHeld::Taken));
    assert_eq!(release(&store, "k", waiter.token).await.expect("it works"), Released::Held);
    let spent = store.acquire(&waiter, soon(&store)).await.expect("it works").answer;
    assert!(matches!(spent, Acquired::Refused(_)), "{spent:?}");
}

/// Goal: the line of a name has an end, at a real server, too, and room when somebody goes.
#[tokio::test]
async fn nobody_waits_behind_the_ten_thousandth_until_one_goes() {
    const MOST: usize = 10_000;
    let server = RedisServer::start();
    let store = native(&server);
    let _ = take(&store, "n", token()).await;
    let waiters: Vec<_> = (0..MOST).map(|_| waits("n", None)).collect();
    // Some at a time: no answer may be late because of all the others before it.
    for some in waiters.chunks(500) {
        let asked = some.iter().map(|waiter| store.acquire(waiter, soon(&store)));
        for answer in futures_util::future::join_all(asked).await {
            let answer = answer.expect("the store answers").answer;
            assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
        }
    }
    let one_more = waits("n", None);
    let answer = store.acquire(&one_more, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(answer, Acquired::Refused(Refusal::QueueFull)), "{answer:?}");
    let _ = release(&store, "n", waiters[4_321].token).await.expect("it answers");
    assert_eq!(queue(&store, &one_more).await.position as usize, MOST);
}
