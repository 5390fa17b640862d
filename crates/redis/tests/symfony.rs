//! Symfony's sorted set on the wire. The other side are raw commands here, with the effects of its scripts.

mod support;

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, Inspection, Mode, Novelty, Released,
    RenewRequest, Renewed, Token,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::Store as _;
use fencelock_testkit::RedisServer;
use support::{acquire, granted, inspect, name, release, soon, store_at, take, token, ttl};

const OTHER: &str = "Y2FuJ3QgYmUgb3VycywgaXQgaGFzIG1vcmUgYnl0ZXM=";

fn store(server: &RedisServer) -> RedisStore {
    store_at(&server.url(), Dialect::Symfony)
}

fn ask<A: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> A {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(&mut server.connect()).expect("the server answers")
}

async fn reads(store: &RedisStore, token: Token) -> Acquired {
    let mut request = AcquireRequest::new(name("n"), token, ttl(30_000));
    request.mode = Mode::Shared;
    store.acquire(&request, soon(store)).await.expect("it answers").answer
}

#[tokio::test]
async fn a_writer_is_two_members_that_end_with_the_key() {
    let server = RedisServer::start();
    let store = store(&server);
    let holder = token();
    let _ = take(&store, "n", holder).await;
    let members: Vec<(String, f64)> = ask(&server, &["ZRANGE", "n", "0", "-1", "WITHSCORES"]);
    let scores: Vec<f64> = members.iter().map(|(_, score)| *score).collect();
    assert!(members.iter().any(|(member, _)| member == "__write__"));
    assert_eq!((members.len(), scores[0]), (2, scores[1]));
    let ends: i64 = ask(&server, &["PEXPIRETIME", "n"]);
    assert_eq!(ends as f64, scores[0]);
    assert_eq!(release(&store, "n", holder).await.expect("it answers"), Released::Held);
    assert_eq!(ask::<i64>(&server, &["EXISTS", "n"]), 0);
}

#[tokio::test]
async fn theirs_excludes_ours_and_is_untouched() {
    let server = RedisServer::builder().clock().start();
    let store = store(&server);
    let (seconds, micros): (i64, i64) = ask(&server, &["TIME"]);
    let ends = (seconds * 1_000 + micros / 1_000 + 20_000).to_string();
    for member in [OTHER, "__write__"] {
        server.cli(&["ZADD", "n", &ends, member]);
    }
    server.cli(&["PEXPIREAT", "n", &ends]);
    for answer in [
        acquire(&store, "n", token()).await.expect("it answers").answer,
        reads(&store, token()).await,
    ] {
        let Acquired::Busy(busy) = answer else { panic!("{answer:?}") };
        assert!(busy.holder.remaining.is_some_and(|left| left <= Duration::from_secs(20)));
    }
    assert_eq!(release(&store, "n", token()).await.expect("it answers"), Released::Taken);
    assert_eq!(ask::<i64>(&server, &["ZCARD", "n"]), 2);
    server.cli(&["ZREM", "n", "__write__"]);
    assert!(matches!(reads(&store, token()).await, Acquired::Granted(_)), "they read");
    server.clock().advance(Duration::from_secs(21));
    // Theirs is over; ours reads on.
    let Inspection::Held(holder) = inspect(&store, "n").await else { panic!("we read") };
    assert_eq!(holder.sharing.map(|sharing| sharing.holders), Some(1));
}

#[tokio::test]
async fn readers_end_by_themselves_and_a_writer_becomes_one() {
    let server = RedisServer::builder().clock().start();
    let store = store(&server);
    let (holder, other) = (token(), token());
    let _ = take(&store, "n", holder).await;
    let down = DowngradeRequest::new(name("n"), holder);
    for _ in 0..2 {
        let answer = store.downgrade(&down, soon(&store)).await.expect("it answers").answer;
        assert!(matches!(answer, Downgraded::Shared { .. }), "{answer:?}");
    }
    for novelty in [Novelty::Fresh, Novelty::Repeated] {
        let answer = reads(&store, other).await;
        assert!(
            matches!(&answer, Acquired::Granted(grant) if grant.novelty == novelty),
            "{answer:?}"
        );
    }
    server.clock().advance(Duration::from_secs(10));
    let batch = [RenewRequest::new(name("n"), other, ttl(60_000))];
    let renewed = store.renew(&batch, soon(&store)).await.expect("it answers").answer;
    assert!(matches!(renewed[..], [Renewed::Extended { .. }]), "{renewed:?}");
    server.clock().advance(Duration::from_secs(25));
    assert_eq!(release(&store, "n", holder).await.expect("it answers"), Released::Taken);
    let busy = acquire(&store, "n", token()).await.expect("it answers").answer;
    assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
    assert_eq!(release(&store, "n", other).await.expect("it answers"), Released::Held);
    let _ = granted(acquire(&store, "n", token()).await);
}
