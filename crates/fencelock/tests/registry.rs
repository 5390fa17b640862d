//! A registry of locks, on every store: what its source system publishes as examples, and what is of
//! this one's own making.
#![cfg(all(target_os = "linux", feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

use std::{sync::Arc, time::Duration};

use fencelock::{
    Client, Error, ManualClock, MemoryStore, Registry, RegistryLock, RegistrySettings, Released,
};
use fencelock_testkit::RedisServer;
use futures_util::{StreamExt as _, stream};
use tokio::sync::{mpsc, oneshot};

const PATIENCE: Duration = Duration::from_secs(30);

/// A registry on each kind of store, and what that needs to live.
struct Registries {
    server: RedisServer,
    _folder: tempfile::TempDir,
    all: Vec<Registry>,
}

impl Registries {
    fn new() -> Self {
        let server = RedisServer::start();
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", folder.path().join("locks.db").display());
        let client = |url: &str| Client::builder(url).build().unwrap();
        let dialect = |name, prefix| {
            let builder = Client::builder(server.url_with_db(1)).dialect(name);
            builder.key_prefix(prefix).build().unwrap()
        };
        let settings = RegistrySettings::default();
        let all = vec![
            Registry::new(client("memory:"), "reg", settings),
            Registry::new(client(&file), "reg", settings),
            Registry::new(client(&server.url()), "reg", settings),
            Registry::new(dialect("plain", ""), "reg", settings),
            Registry::new(dialect("spring", "registry"), "", settings),
        ];
        Self { server, _folder: folder, all }
    }
}

fn shown(result: &Result<&'static str, Error>) -> &'static str {
    match result {
        Ok(output) => output,
        Err(error) => {
            assert!(error.is_wait_expired(), "{error}");
            "FAILED"
        }
    }
}

#[tokio::test]
async fn of_five_that_try_once_one_is_served_and_four_are_not() {
    for registry in Registries::new().all {
        let (done, mut results) = mpsc::unbounded_channel();
        let (go, waits) = oneshot::channel::<()>();
        let first = registry.obtain("once");
        let told = done.clone();
        let (inside, is_inside) = oneshot::channel();
        let first = tokio::spawn(async move {
            let work = |_held| async move {
                let _ = inside.send(());
                told.send("OK").unwrap();
                let _ = waits.await;
            };
            assert!(first.try_run(work).await.unwrap().is_some());
        });
        is_inside.await.unwrap();
        for _ in 0..4 {
            let output = registry.obtain("once").try_run(|_held| async { "OK" }).await.unwrap();
            done.send(output.unwrap_or("FAILED")).unwrap();
        }
        go.send(()).unwrap();
        first.await.unwrap();
        drop(done);
        let mut all = Vec::new();
        while let Some(result) = results.recv().await {
            all.push(result);
        }
        assert_eq!(all, ["OK", "FAILED", "FAILED", "FAILED", "FAILED"], "{registry:?}");
    }
}

#[tokio::test]
async fn three_that_wait_as_long_as_a_lease_are_all_served() {
    for registry in Registries::new().all {
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let lock = registry.obtain("default");
                tokio::spawn(async move {
                    lock.run(|held| async move {
                        tokio::task::yield_now().await;
                        assert!(held.is_valid());
                        "OK"
                    })
                    .await
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(shown(&task.await.unwrap()), "OK", "{registry:?}");
        }
    }
}

/// One task that waits for a lock, says so when it is inside, and stays until it may go.
struct Waiter {
    inside: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<&'static str, Error>>,
}

fn waiter(lock: RegistryLock, wait: Duration) -> Waiter {
    let (inside, is_inside) = oneshot::channel();
    let (go, may_go) = oneshot::channel();
    let work = |_held| async move {
        let _ = inside.send(());
        let _ = may_go.await;
        "OK"
    };
    let task = tokio::spawn(async move { lock.run_within(wait, work).await });
    Waiter { inside: is_inside, go, task }
}

#[tokio::test]
async fn of_three_with_a_wait_of_their_own_the_one_with_too_short_a_one_is_not_served() {
    for registry in Registries::new().all {
        let lock = || registry.obtain("given");
        let first = waiter(lock(), PATIENCE);
        first.inside.await.unwrap();
        let second = waiter(lock(), PATIENCE);
        first.go.send(()).unwrap();
        assert_eq!(shown(&first.task.await.unwrap()), "OK", "{registry:?}");
        second.inside.await.unwrap();
        let third = waiter(lock(), Duration::from_millis(150));
        assert_eq!(shown(&third.task.await.unwrap()), "FAILED", "{registry:?}");
        second.go.send(()).unwrap();
        assert_eq!(shown(&second.task.await.unwrap()), "OK", "{registry:?}");
    }
}

/// A registry in memory, on a clock that the test moves.
fn manual(settings: RegistrySettings) -> (Registry, ManualClock) {
    let clock = ManualClock::new();
    let client = Client::with_store(Arc::new(MemoryStore::manual(clock.clone())));
    (Registry::new(client, "reg", settings), clock)
}

#[tokio::test]
async fn a_release_says_that_the_lease_had_ended_and_work_is_told_that_it_lost_the_lock() {
    let settings = RegistrySettings::default().expire_after(Duration::from_secs(10));
    let (registry, clock) = manual(settings);
    let guard = registry.obtain("k").lock().await.unwrap();
    assert_eq!(guard.name().as_bytes(), b"reg:k");
    clock.advance(Duration::from_secs(11));
    assert!(!guard.is_valid());
    assert_eq!(guard.release().await, Released::Expired);
    let endless = waiter(registry.obtain("k"), PATIENCE);
    endless.inside.await.unwrap();
    clock.advance(Duration::from_secs(11));
    assert!(endless.task.await.unwrap().unwrap_err().is_lost());
    drop(endless.go);
}

#[tokio::test]
async fn a_stream_holds_the_lock_until_it_ends_fails_or_is_dropped_and_an_empty_one_gives_it_back()
{
    for registry in Registries::new().all {
        let lock = registry.obtain("stream");
        let is_free = || async { lock.try_lock().await.unwrap().granted().is_some() };
        let mut items = lock.run_stream(|_held| stream::iter([1, 2]));
        assert_eq!(items.next().await.unwrap().unwrap(), 1);
        assert!(!is_free().await, "{registry:?}");
        assert_eq!(items.next().await.unwrap().unwrap(), 2);
        assert!(items.next().await.is_none());
        assert!(is_free().await, "{registry:?}");
        let mut none = lock.run_stream(|_held| stream::empty::<u8>());
        assert!(none.next().await.is_none());
        assert!(is_free().await, "{registry:?}");
        let failed = Err::<u8, Error>(registry.obtain([b'x'; 600]).try_lock().await.unwrap_err());
        let mut fails = lock.run_try_stream(|_held| stream::iter([failed]));
        assert!(fails.next().await.unwrap().is_err());
        assert!(is_free().await, "{registry:?}");
    }
}

#[tokio::test]
async fn a_name_has_one_object_while_somebody_uses_it_and_none_when_it_was_idle_for_long() {
    let settings = RegistrySettings::default().expire_evict_idle(Duration::from_secs(30));
    let (registry, clock) = manual(settings);
    let guard = registry.obtain("held").lock().await.unwrap();
    let had = registry.obtain("had");
    for name in ["a", "b"] {
        let _lock = registry.obtain(name);
    }
    assert_eq!(registry.len(), 4);
    // The background task has nothing else to go by than the clock.
    clock.advance(Duration::from_secs(31));
    while registry.len() > 2 {
        tokio::task::yield_now().await;
    }
    drop((guard, had));
    clock.advance(Duration::from_secs(31));
    while !registry.is_empty() {
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn each_wrong_name_is_told_for_itself() {
    let (registry, _clock) = manual(RegistrySettings::default());
    let (long, longer) = (registry.obtain([b'x'; 600]), registry.obtain([b'x'; 700]));
    let says =
        [long.try_lock().await, longer.try_lock().await].map(|one| one.unwrap_err().to_string());
    assert!(says[0].contains("604") && says[1].contains("704"), "{says:?}");
}

#[test]
fn outside_of_a_runtime_idle_objects_go_with_the_next_that_is_obtained() {
    let settings = RegistrySettings::default().expire_evict_idle(Duration::from_secs(30));
    let (registry, clock) = manual(settings);
    let _ = registry.obtain("a");
    clock.advance(Duration::from_secs(61));
    let _ = registry.obtain("b");
    assert_eq!(registry.len(), 1);
    clock.advance(Duration::from_secs(31));
    assert_eq!(registry.evict_idle(), 1);
}

#[tokio::test]
async fn the_task_that_evicts_ends_with_the_registry() {
    let (registry, _clock) = manual(RegistrySettings::default());
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let _ = registry.obtain("a");
    assert_eq!(tasks(), before + 1);
    drop(registry);
    while tasks() > before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_keys_are_those_of_the_source_systems() {
    let registries = Registries::new();
    let server = &registries.server;
    let key = |database: &str, key: &str| {
        let script =
            format!("redis.call('SELECT', {database}) return redis.call('EXISTS', '{key}')");
        server.cli(&["EVAL", &script, "0"])
    };
    for (registry, database, at) in
        [(3, "1", "reg:k"), (4, "1", "registry:k")].map(|(n, d, k)| (&registries.all[n], d, k))
    {
        let guard = registry.obtain("k").lock().await.unwrap();
        assert_eq!(key(database, at), redis::Value::Int(1), "{registry:?}");
        assert_eq!(guard.release().await, Released::Held);
        assert_eq!(key(database, at), redis::Value::Int(0), "{registry:?}");
    }
    let spring = Client::builder(server.url()).dialect("spring").key_prefix("reg").build().unwrap();
    let error = spring.registry("reg").obtain("k").try_lock().await.unwrap_err();
    assert!(error.to_string().contains("registry key"), "{error}");
}

#[cfg(feature = "serde")]
#[test]
fn settings_are_read_from_a_configuration() {
    let read = |text: &str| toml::from_str::<RegistrySettings>(text);
    let settings = read("expire-after = '10s'\nexpire-evict-idle = '1m 30s'").unwrap();
    assert_eq!(settings.expire_after, Duration::from_secs(10));
    assert_eq!(settings.expire_evict_idle, Duration::from_secs(90));
    assert_eq!(read("").unwrap(), RegistrySettings::default());
    assert_eq!(read("renewal = 'auto'").unwrap().renewal, fencelock::Renew::Auto);
    for wrong in [
        "expire-after = '10'",
        "expire-after = 10",
        "expire-after = '0s'",
        "expires = '1s'",
        "renewal = 'x'",
    ] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(!error.is_empty(), "{wrong}");
    }
    let error = read("expire_after = '10s'").unwrap_err().to_string();
    assert!(error.contains("expire-after"), "it names those that there are: {error}");
}
