//! Renewals in batches: what is plain is said for all at once, and whatever is odd about one lease
//! is answered for that one and harms no other.

mod support;

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, ExchangeRequest, Inspection, LockName, NotHeld, ReleaseRequest, RenewRequest,
    Renewed, Retain, RevokeRequest, Token,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store, rt};
use fencelock_testkit::RedisServer;
use support::{granted, inspect, name, names, soon, store_at, take, token, ttl, waits};

const LEASES: usize = 200;

fn at(number: usize) -> String {
    format!("lease:{number}")
}

fn key(number: usize) -> String {
    format!("fencelock:{}", at(number))
}

/// So many leases of 30 s, and what prolongs them to a minute.
async fn held(store: &RedisStore, count: usize) -> Vec<RenewRequest> {
    let mut batch = Vec::with_capacity(count);
    for number in 0..count {
        let token = token();
        let _ = take(store, &at(number), token).await;
        batch.push(RenewRequest::new(name(at(number)), token, ttl(60_000)));
    }
    batch
}

async fn renew(store: &RedisStore, batch: &[RenewRequest]) -> Vec<Renewed> {
    let reply = store.renew(batch, soon(store)).await.expect("the store answers");
    assert_eq!(reply.answer.len(), batch.len());
    reply.answer
}

fn native(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::Native)
}

fn minute() -> Renewed {
    Renewed::extended(Duration::from_secs(60))
}

fn raw(server: &RedisServer, key: &str) -> Vec<u8> {
    redis::cmd("GET").arg(key).query(&mut server.connect()).expect("GET")
}

fn expiry(server: &RedisServer, key: &str) -> i64 {
    redis::cmd("PEXPIRETIME").arg(key).query(&mut server.connect()).expect("PEXPIRETIME")
}

#[tokio::test]
async fn a_batch_of_plain_leases_is_one_short_call() {
    let server = RedisServer::start();
    let store = native(&server);
    let batch = held(&store, LEASES).await;
    let before = raw(&server, &key(7));
    let monitor = server.monitor();
    let answers = renew(&store, &batch).await;
    let seen = monitor.take();
    assert!(answers.iter().all(|answer| *answer == minute()), "{answers:?}");
    let commands: Vec<_> = seen.iter().map(|seen| seen.text()[0].to_uppercase()).collect();
    assert_eq!(commands.len(), 3 + 2 * LEASES, "{commands:?}");
    assert!(commands[0].starts_with("EVAL"), "{commands:?}");
    assert_eq!(commands[1..5], ["TIME", "MGET", "PEXPIRE", "SETRANGE"]);
    // Nothing but the lease has changed, and the key lives on as long as it has to.
    let after = raw(&server, &key(7));
    assert_eq!((&after[..70], &after[94..]), (&before[..70], &before[94..]));
    assert!(after[70..94] > before[70..94]);
    let left = server.cli(&["PTTL", &key(7)]);
    assert!(matches!(left, redis::Value::Int(640_000..=660_010)), "{left:?}");
}

#[tokio::test]
async fn each_odd_lease_of_a_batch_has_its_answer_and_harms_no_other() {
    let server = RedisServer::start();
    let store = native(&server);
    let mut batch = held(&store, LEASES).await;
    let by = soon(&store);
    let mut expected = vec![minute(); LEASES];
    let not_held = |why| Renewed::NotHeld(why);
    let set_token = |batch: &mut Vec<RenewRequest>, number: usize, token: Token| {
        batch[number].token = token;
    };

    // Asked back, waited for, and both.
    let _ = store.revoke(&RevokeRequest::new(name(at(3))), by).await.expect("it is revoked");
    let _ = store.acquire(&waits(&at(5), None), by).await.expect("it waits");
    let _ = store.acquire(&waits(&at(7), None), by).await.expect("it waits");
    let _ = store.revoke(&RevokeRequest::new(name(at(7))), by).await.expect("it is revoked");
    for (number, told) in [(3, (0, true)), (5, (1, false)), (7, (1, true))] {
        let remaining = Duration::from_secs(60);
        let (waiting, revoked) = told;
        expected[number] = Renewed::Extended { remaining, last_fence: None, waiting, revoked };
    }
    // Released, taken by another, expired, deleted.
    let request = ReleaseRequest::new(name(at(10)), batch[10].token);
    let _ = store.release(&request, by).await.expect("it is released");
    expected[10] = not_held(NotHeld::Released);
    let exchange = ExchangeRequest::new(name(at(11)), batch[11].token, token(), ttl(30_000));
    let _ = store.exchange_token(&exchange, by).await.expect("it is exchanged");
    expected[11] = not_held(NotHeld::Taken);
    let short = AcquireRequest::new(name("short"), token(), ttl(10));
    let _ = granted(store.acquire(&short, by).await);
    batch[12] = RenewRequest::new(name("short"), short.token, ttl(60_000));
    expected[12] = not_held(NotHeld::Expired);
    server.cli(&["DEL", &key(13)]);
    expected[13] = not_held(NotHeld::Absent);
    set_token(&mut batch, 14, token());
    expected[14] = not_held(NotHeld::Taken);
    // Values that are none of ours.
    server.cli(&["DEL", &key(20), &key(21), &key(22)]);
    server.cli(&["RPUSH", &key(20), "a"]);
    server.cli(&["HSET", &key(21), "a", "b"]);
    server.cli(&["SET", &key(22), &"x".repeat(1 << 20)]);
    // A range of fencing tokens.
    let mut wide = AcquireRequest::new(name("wide"), token(), ttl(30_000));
    wide.reserve = 4;
    let grant = granted(store.acquire(&wide, by).await);
    batch[23] = RenewRequest::new(name("wide"), wide.token, ttl(60_000));
    let Renewed::Extended { remaining, waiting, revoked, .. } = minute() else { unreachable!() };
    assert!(grant.last_fence.is_some());
    expected[23] = Renewed::Extended { remaining, last_fence: grant.last_fence, waiting, revoked };
    // Other wishes in the middle of the batch.
    let set = names(&["set:a", "set:b"]);
    let pair = AcquireRequest::new(set.clone(), token(), ttl(30_000));
    let _ = granted(store.acquire(&pair, by).await);
    batch[30] = RenewRequest::new(set, pair.token, ttl(60_000));
    batch[31].reserve = 2;
    batch[32].unattended = true;
    batch[33].listener = Some(rt::fresh_listener());
    for number in [40, 43, 44] {
        batch[number].ttl = ttl(50_000);
        expected[number] = Renewed::extended(Duration::from_secs(50));
    }
    batch[41].retain = Retain::NOTHING;
    // A lease that has more left than is asked for keeps it.
    batch[50].ttl = ttl(1_000);
    while Duration::ZERO < remaining_of(&store, "short").await {
        rt::sleep(Duration::from_millis(1)).await;
    }

    let answers = renew(&store, &batch).await;
    for (number, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
        match number {
            20..=22 => {
                let is_foreign = matches!(answer, Renewed::NotHeld(NotHeld::Foreign(_)));
                assert!(is_foreign, "{number}: {answer:?}");
            }
            50 => {
                let left = answer.remaining().expect("it is held");
                assert!(left > Duration::from_secs(1), "{left:?}");
                assert!(left <= Duration::from_secs(30), "{left:?}");
            }
            31 => assert!(
                matches!(answer, Renewed::Extended { last_fence: Some(_), waiting: 0, .. }),
                "{answer:?}"
            ),
            _ => assert_eq!(answer, expected, "{number}"),
        }
    }
    // And it is so at the server.
    for number in [0, 3, 5, 7, 23, 30, 31, 32, 33, 40, 41, 51, LEASES - 1] {
        for at in batch[number].names.iter() {
            let left = left_of(&store, at).await;
            assert!(left > Duration::from_secs(40), "{number}: {left:?}");
        }
    }
    assert_eq!(raw(&server, &key(22)).len(), 1 << 20);
    let Inspection::Held(holder) = inspect(&store, &at(32)).await else { panic!("it is held") };
    assert!(holder.unattended);
}

async fn remaining_of(store: &RedisStore, at: &str) -> Duration {
    match inspect(store, at).await {
        Inspection::Held(holder) => holder.remaining.unwrap_or_default(),
        _ => Duration::ZERO,
    }
}

async fn left_of(store: &RedisStore, name: &LockName) -> Duration {
    remaining_of(store, name.as_str().expect("text")).await
}

#[tokio::test]
async fn a_record_that_is_broken_anywhere_is_left_alone_and_the_others_go_on() {
    let server = RedisServer::start();
    let store = native(&server);
    let batch = held(&store, LEASES).await;
    // One wrong letter in each part, and a record that is cut off.
    let mut planted = Vec::new();
    for (number, place) in (38..=111).enumerate() {
        let mut value = raw(&server, &key(number));
        value[place - 1] = b'z';
        planted.push(value);
    }
    for length in [37, 54, 55, 110] {
        let number = planted.len();
        let mut value = raw(&server, &key(number));
        value.truncate(length);
        planted.push(value);
    }
    let mut connection = server.connect();
    for (number, value) in planted.iter().enumerate() {
        let set =
            redis::cmd("SET").arg(key(number)).arg(value).arg("KEEPTTL").exec(&mut connection);
        set.expect("SET");
    }
    let answers = renew(&store, &batch).await;
    for (number, answer) in answers.iter().enumerate() {
        match planted.get(number) {
            Some(value) => {
                let is_foreign = matches!(answer, Renewed::NotHeld(NotHeld::Foreign(_)));
                assert!(is_foreign, "{number}: {answer:?}");
                assert_eq!(raw(&server, &key(number)), *value, "{number}");
            }
            None => assert_eq!(*answer, minute(), "{number}"),
        }
    }
}

#[tokio::test]
async fn when_memory_is_full_a_whole_batch_is_renewed() {
    let server = RedisServer::start();
    let store = native(&server);
    let batch = held(&store, LEASES).await;
    // Where the expiry of the keys need not move, nothing comes before the first write.
    let again: Vec<_> = batch
        .iter()
        .map(|request| {
            let mut request = request.clone();
            request.retain = Retain::NOTHING;
            request
        })
        .collect();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for batch in [&again, &batch] {
        let answers = renew(&store, batch).await;
        assert!(answers.iter().all(|answer| *answer == minute()), "{answers:?}");
    }
    let left = remaining_of(&store, &at(LEASES - 1)).await;
    assert!(left > Duration::from_secs(40), "{left:?}");
}

#[tokio::test]
async fn a_renewal_never_moves_an_end_or_an_expiry_back() {
    let server = RedisServer::start();
    let store = native(&server);
    let mut batch = held(&store, 3).await;
    for request in &mut batch {
        request.retain = Retain::new(Duration::from_secs(86_400));
    }
    let _ = renew(&store, &batch).await;
    let kept: Vec<_> = (0..3).map(|number| expiry(&server, &key(number))).collect();
    for request in &mut batch {
        request.retain = Retain::NOTHING;
        request.ttl = ttl(90_000);
    }
    let answers = renew(&store, &batch).await;
    assert!(answers.iter().all(|a| a.remaining() == Some(Duration::from_secs(90))), "{answers:?}");
    let after: Vec<_> = (0..3).map(|number| expiry(&server, &key(number))).collect();
    assert_eq!(kept, after);
    for request in &mut batch {
        request.ttl = ttl(20_000);
    }
    for answer in renew(&store, &batch).await {
        assert!(answer.remaining() > Some(Duration::from_secs(60)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_lease_that_is_named_twice_has_two_answers() {
    let server = RedisServer::start();
    let store = native(&server);
    let mut batch = held(&store, 2).await;
    batch.push(batch[0].clone());
    batch.push(RenewRequest::new(name(at(1)), token(), ttl(60_000)));
    let answers = renew(&store, &batch).await;
    let taken = Renewed::NotHeld(NotHeld::Taken);
    assert_eq!(answers, [minute(), minute(), minute(), taken]);
}

#[tokio::test]
async fn records_of_any_size_are_renewed_and_kept_whole() {
    let server = RedisServer::start();
    let store = native(&server);
    let mut batch = Vec::new();
    for number in 0..8 {
        let mut request = AcquireRequest::new(name(at(number)), token(), ttl(30_000));
        let bytes = vec![b'0' + u8::try_from(number).expect("small"); number * 140];
        request.metadata = fencelock_core::Metadata::new(bytes).expect("it is not too much");
        let _ = granted(store.acquire(&request, soon(&store)).await);
        batch.push(RenewRequest::new(name(at(number)), request.token, ttl(60_000)));
    }
    let answers = renew(&store, &batch).await;
    assert!(answers.iter().all(|answer| *answer == minute()), "{answers:?}");
    for number in 0..8 {
        let Inspection::Held(holder) = inspect(&store, &at(number)).await else { panic!() };
        assert_eq!(holder.metadata.as_bytes().len(), number * 140);
    }
}
