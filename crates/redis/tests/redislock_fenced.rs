//! redislock with a fence key on the wire. The other side are raw commands here, with the effects of its script
//! as its source has it after 0.10.0: no release that can be had has it.

mod support;

use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, Exchanged, Fence, Grant, Inspection, ListRequest,
    Novelty, Released, Token,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store as _, StoreErrorKind};
use fencelock_testkit::{RedisCluster, RedisServer};
use support::{acquire, granted, inspect, name, release, soon, take, token, ttl};

fn store_of(url: &str) -> RedisStore {
    let builder = RedisStore::builder(url.parse().expect("a url"));
    builder.dialect(Dialect::RedislockFenced).build().expect("it is valid")
}

fn ask<A: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> A {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(&mut server.connect()).expect("the server answers")
}

/// A fresh `Obtain` of theirs, with a fence key.
fn obtained(server: &RedisServer, value: &str) -> u64 {
    assert_eq!(ask::<i64>(server, &["MSETNX", "n", value]), 1);
    server.cli(&["PEXPIRE", "n", "30000"]);
    ask(server, &["INCR", "n:fence"])
}

fn number(grant: &Grant) -> u64 {
    match grant.fence {
        Fence::Token(token) => token.as_u64(),
        _ => panic!("{grant:?}"),
    }
}

#[tokio::test]
async fn grants_of_both_sides_are_counted_at_one_key() {
    let server = RedisServer::start();
    let store = store_of(&server.url());
    let first = token();
    assert_eq!(number(&take(&store, "n", first).await), 1);
    assert_eq!(ask::<String>(&server, &["GET", "n"]), first.reveal_base64url());
    assert_eq!(ask::<i64>(&server, &["PTTL", "n:fence"]), -1);
    // Asked again, by us or by them with our token: the same number.
    let again = granted(acquire(&store, "n", first).await);
    assert_eq!((again.novelty, number(&again)), (Novelty::Repeated, 1));
    assert_eq!(ask::<String>(&server, &["GET", "n:fence"]), "1");
    assert_eq!(release(&store, "n", first).await.expect("it answers"), Released::Held);

    let theirs = "theirs-is-of-22-letters";
    assert_eq!(obtained(&server, theirs), 2);
    let Acquired::Busy(busy) = acquire(&store, "n", token()).await.expect("it answers").answer
    else {
        panic!("they hold it")
    };
    assert_eq!(busy.holder.fencing_token.map(|token| token.as_u64()), Some(2));
    let Inspection::Held(holder) = inspect(&store, "n").await else { panic!("they hold it") };
    assert_eq!(holder.fencing_token.map(|token| token.as_u64()), Some(2));
    server.cli(&["DEL", "n"]);
    let Inspection::Free { fencing_token } = inspect(&store, "n").await else { panic!("free") };
    assert_eq!(fencing_token.map(|token| token.as_u64()), Some(2));
    assert_eq!(number(&take(&store, "n", token()).await), 3);
    server.cli(&["DEL", "n"]);
    assert_eq!(obtained(&server, theirs), 4);
}

#[tokio::test]
async fn who_takes_a_lease_over_has_the_next_number() {
    let server = RedisServer::start();
    let store = store_of(&server.url());
    let (from, to) = (Token::from_base64url("AAAAAAAAAAAAAAAAAAAAAA").expect("a token"), token());
    assert_eq!(obtained(&server, &format!("{}host=a", from.reveal_base64url())), 1);
    let request = ExchangeRequest::new(name("n"), from, to, ttl(30_000));
    for novelty in [Novelty::Fresh, Novelty::Repeated] {
        let answer = store.exchange_token(&request, soon(&store)).await.expect("it answers").answer;
        let Exchanged::Granted(grant) = answer else { panic!("{answer:?}") };
        assert_eq!((grant.novelty, number(&grant)), (novelty, 2));
    }
}

#[tokio::test]
async fn counters_are_no_locks() {
    let server = RedisServer::start();
    let store = store_of(&server.url());
    for lock in ["a", "b"] {
        let _ = take(&store, lock, token()).await;
    }
    server.cli(&["SET", "gone:fence", "7"]);
    let page = store.list(&ListRequest::new(""), soon(&store)).await.expect("it answers").answer;
    let mut names: Vec<_> = page.locks.iter().map(|(name, _)| name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_counter_that_is_none_grants_nothing() {
    let server = RedisServer::start();
    let store = store_of(&server.url());
    server.cli(&["SET", "n:fence", "many"]);
    let refused = acquire(&store, "n", token()).await.expect("it answers").answer;
    assert!(matches!(refused, Acquired::Refused(_)), "{refused:?}");
    server.cli(&["DEL", "n:fence"]);
    server.cli(&["RPUSH", "n:fence", "1"]);
    let error = acquire(&store, "n", token()).await.expect_err("it is a list");
    assert_eq!(error.kind(), StoreErrorKind::Protocol, "{error}");
    assert_eq!(ask::<i64>(&server, &["EXISTS", "n"]), 0);
}

#[tokio::test]
async fn the_url_says_where_the_counter_is() {
    let server = RedisServer::start();
    let store = store_of(&format!("{}?fence_key={{*}}:number", server.url()));
    let _ = take(&store, "n", token()).await;
    assert_eq!(ask::<String>(&server, &["GET", "{n}:number"]), "1");
    for (url, dialect, says) in [
        ("redis://h?fence_key=number", Dialect::RedislockFenced, "one *"),
        ("redis://h?fence_key=*:fence", Dialect::Redislock, "redislock-fenced"),
        ("redis://h?fence_key=*:fence", Dialect::Native, "redislock-fenced"),
    ] {
        let builder = RedisStore::builder(url.parse().expect("a url"));
        let error = builder.dialect(dialect).build().expect_err(url);
        assert!(
            error.kind() == StoreErrorKind::Config && error.to_string().contains(says),
            "{error}"
        );
    }
}

#[tokio::test]
async fn sets_of_names_are_refused() {
    let server = RedisServer::start();
    let store = store_of(&server.url());
    let names = support::names(&["a", "b"]);
    let request = AcquireRequest::new(names, token(), ttl(30_000));
    let error = store.acquire(&request, soon(&store)).await.expect_err("one counter for both?");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn on_a_cluster_a_lock_has_its_counter_in_its_slot_or_is_refused() {
    let cluster = RedisCluster::start();
    let store = store_of(&cluster.url());
    assert_eq!(number(&take(&store, "{n}", token()).await), 1);
    let error = acquire(&store, "n", token()).await.expect_err("they are apart");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    let tagged = store_of(&format!("{}?fence_key={{*}}:fence", cluster.url()));
    for lock in ["a", "b", "c", "d"] {
        assert_eq!(number(&take(&tagged, lock, token()).await), 1);
    }
}
