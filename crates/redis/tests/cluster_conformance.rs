//! The native format keeps the Contract on a cluster of three primaries, whose clocks the suite
//! moves all together.
//!
//! The prefix has a hash tag, so that the sets of names that the suite takes are in one slot; names
//! of many slots are in `cluster.rs`.

mod support;

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{
    conformance::{Harness, Timing},
    core::{LockName, StoreNow, StoreTime},
};
use fencelock_testkit::{RedisCluster, RedisServer};

const PREFIX: &str = "{suite}:";

/// A cluster for one case. Three servers take seconds to find together, so it is kept for the next
/// case, which begins with empty servers; two cases at a time have two. One that saw a case fail is
/// not used again, and none outlives the last case.
struct Cluster {
    cluster: Option<RedisCluster>,
    idle: Arc<Idle>,
}

type Idle = Mutex<Vec<RedisCluster>>;

impl Cluster {
    fn new() -> Self {
        static IDLE: Mutex<Weak<Idle>> = Mutex::new(Weak::new());
        let mut weak = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = weak.upgrade().unwrap_or_default();
        *weak = Arc::downgrade(&idle);
        drop(weak);
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cluster = kept.unwrap_or_else(|| RedisCluster::builder().clock().start());
        Self { cluster: Some(cluster), idle }
    }

    fn cluster(&self) -> &RedisCluster {
        self.cluster.as_ref().expect("it is there until the drop")
    }

    fn store(&self) -> RedisStore {
        let url = self.cluster().url().parse().expect("a url");
        RedisStore::builder(url).dialect(Dialect::Native).prefix(PREFIX).build().expect("a store")
    }

    /// The server that has all locks of the suite.
    fn server(&self) -> &RedisServer {
        &self.cluster().servers()[self.cluster().primary(self.cluster().slot(PREFIX.as_bytes()))]
    }

    fn key(name: &LockName) -> Vec<u8> {
        [PREFIX.as_bytes(), name.as_bytes()].concat()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.cluster.take());
        }
    }
}

impl Harness for Cluster {
    type Store = RedisStore;

    fn timing(&self) -> Timing {
        Timing::running(Duration::from_secs(5), Duration::from_millis(2))
    }

    async fn fresh(&self) -> RedisStore {
        self.cluster().flush();
        self.store()
    }

    async fn another(&self, _: &RedisStore) -> RedisStore {
        self.store()
    }

    async fn advance(&self, _: &RedisStore, by: Duration) {
        self.cluster().advance(by);
    }

    async fn time(&self, _: &RedisStore) -> StoreNow {
        let mut connection = self.server().connect();
        let (seconds, micros): (u64, u64) =
            redis::cmd("TIME").query(&mut connection).expect("the server answers");
        StoreNow::same(StoreTime::from_micros(seconds * 1_000_000 + micros))
    }

    async fn plant_foreign(&self, _: &RedisStore, name: &LockName) -> bool {
        let mut connection = self.server().connect();
        let key = Self::key(name);
        redis::cmd("DEL").arg(&key).exec(&mut connection).expect("the place is free");
        redis::cmd("HSET").arg(key).arg("owner").arg("1").exec(&mut connection).expect("planted");
        true
    }

    async fn read_foreign(&self, _: &RedisStore, name: &LockName) -> Option<Vec<u8>> {
        let mut connection = self.server().connect();
        let key = Self::key(name);
        redis::cmd("DUMP").arg(&key).query(&mut connection).expect("the server answers")
    }
}

fencelock_store::conformance_suite!(Cluster::new());
