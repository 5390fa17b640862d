//! The rules the three scripts must keep, on a real server: re-sent requests, spent nonces, deadlines,
//! floors, foreign values, memory limits. Speed is the program's business.

#![forbid(unsafe_code)]

use std::error::Error;

use fencelock_bench_layout::server::Server;
use redis::aio::MultiplexedConnection;
use redis::cmd;

type Outcome = Result<(), Box<dyn Error>>;

const ACQUIRE: &str = include_str!("../scripts/acquire.lua");
const RELEASE: &str = include_str!("../scripts/release.lua");
const RENEW: &str = include_str!("../scripts/renew.lua");
const ALICE: &str = "0123456789abcdef0123456789abcdef";
const BOB: &str = "fedcba9876543210fedcba9876543210";
const LEASE: &str = "00030000meta";

struct Redis {
    connection: MultiplexedConnection,
    _server: Server,
}

impl Redis {
    async fn start() -> Result<Self, Box<dyn Error>> {
        let server = Server::start().await?;
        Ok(Self { connection: server.connect().await?, _server: server })
    }

    async fn eval(
        &mut self,
        script: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<String, redis::RedisError> {
        let mut eval = cmd("EVAL");
        eval.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        eval.query_async(&mut self.connection).await
    }

    async fn acquire(&mut self, keys: &[&str], nonce: &str) -> Result<String, redis::RedisError> {
        self.eval(ACQUIRE, keys, &[nonce, "600000", LEASE]).await
    }

    async fn release(
        &mut self,
        keys: &[&str],
        nonce: &str,
        retain: &[&str],
    ) -> Result<String, redis::RedisError> {
        self.eval(RELEASE, keys, &[&[nonce][..], retain].concat()).await
    }

    async fn renew(
        &mut self,
        keys: &[&str],
        nonce: &str,
        ttl: &str,
    ) -> Result<String, redis::RedisError> {
        self.eval(RENEW, keys, &[nonce, ttl, "600000"]).await
    }

    async fn raw<T: redis::FromRedisValue>(
        &mut self,
        words: &[&str],
    ) -> Result<T, redis::RedisError> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connection).await
    }
}

fn letter(reply: &str) -> &str {
    &reply[16..17]
}

fn token(reply: &str) -> &str {
    &reply[17..33]
}

#[tokio::test]
async fn a_resent_acquire_gets_the_same_token_and_writes_nothing() -> Outcome {
    let mut redis = Redis::start().await?;
    for expect in ["", "1"] {
        redis.raw::<()>(&["FLUSHALL"]).await?;
        let arguments = [ALICE, "600000", LEASE, "", expect];
        let first = redis.eval(ACQUIRE, &["k"], &arguments).await?;
        let record: String = redis.raw(&["GET", "k"]).await?;
        let again = redis.eval(ACQUIRE, &["k"], &arguments).await?;
        assert_eq!((letter(&first), letter(&again)), ("g", "y"));
        assert_eq!(token(&first), token(&again));
        assert_eq!(&again[33..], format!("{}00030000", &first[..16]));
        assert_eq!(record, redis.raw::<String>(&["GET", "k"]).await?);
        assert_eq!(record, format!("fl1mh{ALICE}1{}{}{LEASE}", token(&first), &first[..16]));
    }
    Ok(())
}

#[tokio::test]
async fn busy_tells_token_lease_and_metadata_of_the_holder() -> Outcome {
    let mut redis = Redis::start().await?;
    let held = redis.acquire(&["k"], ALICE).await?;
    let busy = redis.acquire(&["k"], BOB).await?;
    assert_eq!(&busy[16..], format!("b0001{}{}{LEASE}", token(&held), &held[..16]));
    assert_eq!(&redis.release(&["k"], BOB, &[]).await?[16..], "t");
    assert_eq!(&redis.renew(&["k"], BOB, "00060000").await?[16..], "t0001");
    Ok(())
}

#[tokio::test]
async fn a_released_nonce_is_spent_and_its_release_can_be_resent() -> Outcome {
    let mut redis = Redis::start().await?;
    let first = redis.acquire(&["k"], ALICE).await?;
    assert_eq!(letter(&redis.release(&["k"], ALICE, &["600000"]).await?), "r");
    assert_eq!(letter(&redis.release(&["k"], ALICE, &["600000"]).await?), "a");
    assert_eq!(letter(&redis.acquire(&["k"], ALICE).await?), "s");
    assert_eq!(&redis.renew(&["k"], ALICE, "00030000").await?[16..], "x0001");
    let record: String = redis.raw(&["GET", "k"]).await?;
    assert_eq!(record, format!("fl1mf{ALICE}1{}", token(&first)));
    let second = redis.acquire(&["k"], BOB).await?;
    assert_eq!(letter(&second), "g");
    assert!(token(&second) > token(&first));
    Ok(())
}

#[tokio::test]
async fn a_release_without_retain_leaves_no_key() -> Outcome {
    let mut redis = Redis::start().await?;
    redis.acquire(&["k"], ALICE).await?;
    assert_eq!(letter(&redis.release(&["k"], ALICE, &[]).await?), "r");
    assert_eq!(redis.raw::<u32>(&["EXISTS", "k"]).await?, 0);
    assert_eq!(letter(&redis.release(&["k"], ALICE, &[]).await?), "x");
    Ok(())
}

#[tokio::test]
async fn a_token_ahead_of_the_clock_keeps_its_key_until_the_clock_is_past_it() -> Outcome {
    let mut redis = Redis::start().await?;
    let now = &redis.acquire(&["other"], ALICE).await?[..16];
    let floor = (now.parse::<u64>()? + 5_000_000).to_string();
    let arguments = [ALICE, "1000", "00001000", "", "", &floor, "10000000"];
    let held = redis.eval(ACQUIRE, &["k"], &arguments).await?;
    assert_eq!(token(&held).parse::<u64>()?, floor.parse::<u64>()? + 1);
    assert!(redis.raw::<i64>(&["PTTL", "k"]).await? > 4_000);
    assert_eq!(letter(&redis.release(&["k"], ALICE, &[]).await?), "r");
    assert!(redis.raw::<i64>(&["PTTL", "k"]).await? > 4_000);
    let next = redis.acquire(&["k"], BOB).await?;
    assert_eq!(token(&next).parse::<u64>()?, floor.parse::<u64>()? + 2);
    Ok(())
}

#[tokio::test]
async fn a_floor_too_far_ahead_and_a_deadline_in_the_past_are_refused() -> Outcome {
    let mut redis = Redis::start().await?;
    let now = redis.acquire(&["other"], ALICE).await?[..16].to_owned();
    let floor = (now.parse::<u64>()? + 60_000_000).to_string();
    let ahead = [ALICE, "1000", "00001000", "", "", &floor, "10000000"];
    assert_eq!(letter(&redis.eval(ACQUIRE, &["k"], &ahead).await?), "a");
    let late = [ALICE, "1000", "00001000", &now];
    assert_eq!(letter(&redis.eval(ACQUIRE, &["k"], &late).await?), "d");
    assert_eq!(redis.raw::<u32>(&["EXISTS", "k"]).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_foreign_value_is_reported_and_untouched() -> Outcome {
    let mut redis = Redis::start().await?;
    redis.raw::<()>(&["SET", "text", "somebody else's"]).await?;
    redis.raw::<()>(&["SET", "short", "fl1mh"]).await?;
    redis.raw::<()>(&["SET", "kind", &format!("fl1sh{ALICE}{}", "0".repeat(60))]).await?;
    redis.raw::<()>(&["HSET", "hash", "a", "b"]).await?;
    redis.raw::<()>(&["RPUSH", "list", "a"]).await?;
    for key in ["text", "short", "kind", "hash", "list"] {
        let before: Vec<u8> = redis.raw(&["DUMP", key]).await?;
        for expect in ["", "1"] {
            let arguments = [ALICE, "600000", LEASE, "", expect];
            assert_eq!(&redis.eval(ACQUIRE, &[key], &arguments).await?[16..], "f0001");
        }
        assert_eq!(&redis.acquire(&["a-free-one", key], ALICE).await?[16..], "f0002");
        assert_eq!(&redis.release(&[key], ALICE, &[]).await?[16..17], "f");
        assert_eq!(&redis.renew(&[key], ALICE, "00030000").await?[16..], "f0001");
        assert_eq!(before, redis.raw::<Vec<u8>>(&["DUMP", key]).await?);
    }
    assert_eq!(redis.raw::<u32>(&["EXISTS", "a-free-one"]).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_free_record_of_another_kind_is_taken_over_with_its_token() -> Outcome {
    let mut redis = Redis::start().await?;
    redis.raw::<()>(&["SET", "k", &format!("fl1sf{BOB}12000000000000000")]).await?;
    let taken = redis.acquire(&["k"], ALICE).await?;
    assert_eq!((letter(&taken), token(&taken)), ("g", "2000000000000001"));
    Ok(())
}

#[tokio::test]
async fn an_ended_lease_is_over_for_its_holder_and_free_for_others() -> Outcome {
    let mut redis = Redis::start().await?;
    let ended = format!("fl1mh{ALICE}1{stamp}{stamp}00030000", stamp = "1700000000000000");
    redis.raw::<()>(&["SET", "k", &ended, "PX", "600000"]).await?;
    assert_eq!(&redis.renew(&["k"], ALICE, "00030000").await?[16..], "x0001");
    assert_eq!(letter(&redis.acquire(&["k"], ALICE).await?), "s");
    assert_eq!(letter(&redis.acquire(&["k"], BOB).await?), "g");
    Ok(())
}

#[tokio::test]
async fn a_renewal_prolongs_and_never_shortens() -> Outcome {
    let mut redis = Redis::start().await?;
    let held = redis.acquire(&["k"], ALICE).await?;
    let shorter = redis.renew(&["k"], ALICE, "00000100").await?;
    assert_eq!(&shorter[16..], format!("k{}{}00030000", token(&held), &held[..16]));
    let longer = redis.renew(&["k"], ALICE, "00090000").await?;
    assert_eq!(&longer[16..], format!("k{}{}00090000", token(&held), &longer[..16]));
    let record: String = redis.raw(&["GET", "k"]).await?;
    assert_eq!(record, format!("fl1mh{ALICE}1{}{}00090000meta", token(&held), &longer[..16]));
    Ok(())
}

#[tokio::test]
async fn several_names_are_taken_all_or_none_with_one_token() -> Outcome {
    let mut redis = Redis::start().await?;
    redis.acquire(&["b"], BOB).await?;
    let busy = redis.acquire(&["a", "b", "c"], ALICE).await?;
    assert_eq!(&busy[16..21], "b0002");
    assert_eq!(redis.raw::<u32>(&["EXISTS", "a", "c"]).await?, 0);
    redis.release(&["b"], BOB, &["600000"]).await?;
    let all = redis.acquire(&["a", "b", "c"], ALICE).await?;
    assert_eq!(token(&redis.acquire(&["a", "b", "c"], ALICE).await?), token(&all));
    redis.raw::<()>(&["DEL", "c"]).await?;
    assert_eq!(letter(&redis.acquire(&["a", "b", "c"], ALICE).await?), "s");
    assert_eq!(&redis.renew(&["a", "b", "c"], ALICE, "00030000").await?[16..], "x0003");
    let freed = redis.release(&["a", "b", "c"], ALICE, &[]).await?;
    assert_eq!((&freed[16..17], &freed[57..58], &freed[98..]), ("r", "r", "x"));
    Ok(())
}

#[tokio::test]
async fn a_full_server_still_answers_busy_renews_and_releases() -> Outcome {
    let mut redis = Redis::start().await?;
    redis.acquire(&["k"], ALICE).await?;
    redis.raw::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await?;
    redis.raw::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await?;
    assert_eq!(letter(&redis.acquire(&["k"], BOB).await?), "b");
    assert_eq!(letter(&redis.acquire(&["k"], ALICE).await?), "y");
    let refused = redis.acquire(&["free"], BOB).await;
    assert!(refused.is_err_and(|error| error.code() == Some("OOM")));
    assert_eq!(letter(&redis.renew(&["k"], ALICE, "00090000").await?), "k");
    assert_eq!(letter(&redis.release(&["k"], ALICE, &["600000"]).await?), "r");
    assert_eq!(letter(&redis.release(&["k"], ALICE, &["600000"]).await?), "a");
    Ok(())
}
