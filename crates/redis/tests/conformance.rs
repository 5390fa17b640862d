//! The dialects keep the Contract, on a real server whose clock the suite moves.

mod support;

use std::time::Duration;

use fencelock_redis::{Dialect, IfUsed, RedisStore};
use fencelock_store::{
    conformance::{Harness, Timing, differential},
    core::{LockName, StoreNow, StoreTime, Ttl},
};
use fencelock_testkit::RedisServer;
use proptest::{prelude::*, test_runner::TestRunner};

/// A server for one case.
struct Server {
    server: RedisServer,
    dialect: Dialect,
    is_strict: bool,
}

impl Server {
    fn new(dialect: Dialect) -> Self {
        Self { server: RedisServer::builder().clock().start(), dialect, is_strict: false }
    }

    fn strict() -> Self {
        Self { is_strict: true, ..Self::new(Dialect::Native) }
    }

    fn key(&self, name: &LockName) -> Vec<u8> {
        match self.dialect {
            Dialect::PythonRedisLock => [b"lock:", name.as_bytes()].concat(),
            dialect => support::key_of(dialect, name),
        }
    }

    fn store(&self) -> RedisStore {
        if !self.is_strict {
            return support::store_at(&self.server.url(), self.dialect);
        }
        let url = self.server.url().parse().expect("a url");
        RedisStore::builder(url).strict_restart_guard(Ttl::MAX).build().expect("valid")
    }
}

impl Harness for Server {
    type Store = RedisStore;

    fn timing(&self) -> Timing {
        // The record says the end to the microsecond, a bare key only to the millisecond.
        Timing::running(Duration::from_secs(5), Duration::from_millis(2))
    }

    async fn fresh(&self) -> RedisStore {
        self.server.cli(&["FLUSHALL"]);
        let store = self.store();
        if self.is_strict {
            let by = support::soon(&store);
            let _ =
                store.initialise(Ttl::MAX, IfUsed::Refuse, by).await.expect("the store answers");
        }
        store
    }

    async fn another(&self, _: &RedisStore) -> RedisStore {
        self.store()
    }

    async fn advance(&self, _: &RedisStore, by: Duration) {
        self.server.clock().advance(by);
    }

    async fn time(&self, _: &RedisStore) -> StoreNow {
        let mut connection = self.server.connect();
        let (seconds, micros): (u64, u64) =
            redis::cmd("TIME").query(&mut connection).expect("the server answers");
        StoreNow::same(StoreTime::from_micros(seconds * 1_000_000 + micros))
    }

    async fn plant_foreign(&self, _: &RedisStore, name: &LockName) -> bool {
        let mut connection = self.server.connect();
        let key = self.key(name);
        redis::cmd("DEL").arg(&key).exec(&mut connection).expect("the place is free");
        let plant = match self.dialect {
            Dialect::Redisson
            | Dialect::RedissonFenced
            | Dialect::RedissonFair
            | Dialect::RedissonRw => ["SET", "owner", ""],
            _ => ["HSET", "owner", "1"],
        };
        let words = plant[1..].iter().filter(|word| !word.is_empty());
        redis::cmd(plant[0])
            .arg(key)
            .arg(words.collect::<Vec<_>>())
            .exec(&mut connection)
            .expect("planted");
        true
    }

    async fn read_foreign(&self, _: &RedisStore, name: &LockName) -> Option<Vec<u8>> {
        let mut connection = self.server.connect();
        let key = self.key(name);
        let value: Option<Vec<u8>> =
            redis::cmd("DUMP").arg(&key).query(&mut connection).expect("the server answers");
        let ends: i64 =
            redis::cmd("PEXPIRETIME").arg(&key).query(&mut connection).expect("the server answers");
        value.map(|mut value| {
            value.extend_from_slice(&ends.to_be_bytes());
            value
        })
    }
}

mod native {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::Native));
}

/// The strict restart guard changes nothing on a server that counts.
mod strict {
    use super::*;

    fencelock_store::conformance_suite!(Server::strict());
}

mod plain {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::Plain));
}

mod redislock {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::Redislock));
}

mod python_redis_lock {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::PythonRedisLock));
}

mod redisson {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::Redisson));
}

mod redisson_fenced {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::RedissonFenced));
}

mod redislock_fenced {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::RedislockFenced));
}

mod symfony {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::Symfony));
}

mod redisson_fair {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::RedissonFair));
}

mod redisson_rw {
    use super::*;

    fencelock_store::conformance_suite!(Server::new(Dialect::RedissonRw));
}

/// Goal: equal answers of the plain dialect and the table, as far as it can keep what the table
/// does. Method: the suite's own comparison, on one server for all sequences.
#[test]
fn the_plain_dialect_answers_as_the_table() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let harness = Server::new(Dialect::Plain);
    let store = harness.store();
    let config =
        ProptestConfig { cases: 40, source_file: Some(file!()), ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&differential::operations(), |operations| {
        let result = runtime.block_on(differential::run(&harness, &store, &operations));
        result.map(|_| ()).map_err(TestCaseError::fail)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
