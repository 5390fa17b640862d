//! The primitives in which several hold or meet at one name, on every store: a Redis server of each
//! test's own, a file, and memory; between two clients, as two processes would have them.
//!
//! A store that can't have them says so: `Unsupported`, before anything is sent.
#![cfg(all(feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{sync::Arc, time::Duration};

use fencelock::{
    Attempt, Client, Error, ErrorKind, Inspection, Part, Released, Wait, fenced::check_read,
};
use fencelock_testkit::RedisServer;

const TTL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("{what}, within {PATIENCE:?}"))
}

/// Two clients of each kind of store.
struct Stores {
    _server: RedisServer,
    _folder: tempfile::TempDir,
    pairs: Vec<(Client, Client)>,
}

impl Stores {
    fn new() -> Self {
        let server = RedisServer::start();
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", folder.path().join("locks.db").display());
        let client = |url: &str| Client::builder(url).build().expect("the url is right");
        let plain = || {
            Client::builder(server.url_with_db(1))
                .dialect("plain")
                .build()
                .expect("the url is right")
        };
        let memory = fencelock::MemoryStore::new();
        let second = memory.another_client();
        let pairs = vec![
            (Client::with_store(Arc::new(memory)), Client::with_store(Arc::new(second))),
            (client(&server.url()), client(&server.url())),
            (client(&file), client(&file)),
            (plain(), plain()),
        ];
        Self { _server: server, _folder: folder, pairs }
    }

    /// Those that can have several at one name.
    fn sharing(&self) -> impl Iterator<Item = (&Client, &Client, String)> {
        let can = |pair: &&(Client, Client)| pair.0.capabilities().modes.are_shared();
        self.pairs.iter().filter(can).map(|(one, other)| (one, other, one.store_display()))
    }
}

fn granted<G>(attempt: Result<Attempt<G>, Error>, what: &str) -> G {
    match attempt.unwrap_or_else(|error| panic!("{what}: {error}")) {
        Attempt::Granted(guard) => guard,
        Attempt::Busy(busy) => panic!("{what}: busy, {busy:?}"),
    }
}

fn is_busy<G>(attempt: Result<Attempt<G>, Error>, what: &str) -> bool {
    matches!(attempt.unwrap_or_else(|error| panic!("{what}: {error}")), Attempt::Busy(_))
}

/// Waits until as many wait for a name that is held.
async fn until_waiting(client: &Client, name: &str, count: u32, what: &str) {
    let waiting = async {
        loop {
            match client.inspect(name).await.expect("the store works") {
                Inspection::Held(holder) if holder.waiting == count => return,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    soon(&format!("{count} wait: {what}"), waiting).await;
}

#[tokio::test]
async fn a_store_that_has_no_sharing_says_so_of_every_verb() {
    let stores = Stores::new();
    for (client, _) in
        stores.pairs.iter().filter(|(client, _)| !client.capabilities().modes.are_shared())
    {
        let (rwlock, semaphore) = (client.rwlock("k"), client.semaphore("k", 2));
        let (reentrant, latch) = (client.reentrant("k", "me"), client.latch("k", 1));
        let part = Part::read(&rwlock);
        let errors = [
            rwlock.read().await.map(drop).unwrap_err(),
            rwlock.write().await.map(drop).unwrap_err(),
            rwlock.try_read().await.map(drop).unwrap_err(),
            rwlock.try_write().await.map(drop).unwrap_err(),
            semaphore.acquire().await.map(drop).unwrap_err(),
            semaphore.try_acquire_many(2).await.map(drop).unwrap_err(),
            semaphore.set_limit(3).await.map(drop).unwrap_err(),
            reentrant.lock().await.map(drop).unwrap_err(),
            latch.count_down().await.unwrap_err(),
            latch.wait().await.unwrap_err(),
            client.barrier("k", 1).wait().await.map(drop).unwrap_err(),
            client.all_of([part]).lock().await.map(drop).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        // What needs none works.
        let guard = client.all_of([Part::from(client.mutex("k"))]).lock().await.unwrap();
        assert_eq!(guard.release().await, Released::Held);
    }
}

#[tokio::test]
async fn readers_share_and_the_line_is_served_in_order() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let (lock, theirs) = (one.rwlock("k").ttl(TTL), other.rwlock("k").ttl(TTL));
        let first = granted(lock.try_read().await, &what);
        let second = granted(theirs.try_read().await, &what);
        assert!(second.shared_token() > first.shared_token(), "{what}");
        assert!(is_busy(lock.try_write().await, &what));
        assert!(is_busy(one.mutex("k").try_lock().await, &what), "a mutex is its writer");

        let writer = tokio::spawn(async move { theirs.write().await.unwrap() });
        until_waiting(one, "k", 1, &what).await;
        assert!(is_busy(lock.try_read().await, &what), "it is behind the writer: {what}");
        let late = {
            let lock = lock.clone();
            tokio::spawn(async move { lock.read().await.unwrap() })
        };
        until_waiting(one, "k", 2, &what).await;
        assert_eq!(first.release().await, Released::Held, "{what}");
        let before = second.shared_token().unwrap();
        assert_eq!(second.release().await, Released::Held, "{what}");
        let writer = soon("the writer has it", writer).await.unwrap();
        let fencing_token = writer.fencing_token();
        assert!(!before.is_after(fencing_token.unwrap()), "{what}");
        assert!(check_read(fencing_token, before).is_stale(), "{what}");
        assert_eq!(writer.release().await, Released::Held, "{what}");
        let late = soon("the reader has it", late).await.unwrap();
        assert!(check_read(fencing_token, late.shared_token().unwrap()).accepted().is_some());
        assert_eq!(late.release().await, Released::Held, "{what}");
    }
}

#[tokio::test]
async fn a_downgrade_lets_readers_in_and_keeps_writers_out() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let (lock, theirs) = (one.rwlock("k").ttl(TTL), other.rwlock("k").ttl(TTL));
        let writer = granted(lock.try_write().await, &what);
        let fencing_token = writer.fencing_token().unwrap();
        let waiting = theirs.clone();
        let reader = tokio::spawn(async move { waiting.read().await.unwrap() });
        until_waiting(one, "k", 1, &what).await;
        let own = soon("it is a reader", writer.downgrade()).await.unwrap();
        assert_eq!(own.shared_token().unwrap().as_u64(), u64::from(fencing_token), "{what}");
        let reader = soon("the other reads, too", reader).await.unwrap();
        assert!(is_busy(theirs.try_write().await, &what));
        assert!(own.is_valid() && reader.is_valid(), "{what}");
        own.renew(TTL).await.unwrap();
        assert_eq!(own.release().await, Released::Held, "{what}");
        assert!(is_busy(lock.try_write().await, &what));
        drop(reader);
        let writer = soon("nobody reads any more", lock.write()).await.unwrap();
        assert!(writer.fencing_token().unwrap() > fencing_token, "{what}");
        assert_eq!(writer.release().await, Released::Held, "{what}");
    }
}

#[tokio::test]
async fn permits_are_counted_and_a_large_request_keeps_its_place() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let (own, theirs) = (one.semaphore("gpu", 4).ttl(TTL), other.semaphore("gpu", 4).ttl(TTL));
        let two = granted(own.try_acquire_many(2).await, &what);
        let one_more = granted(theirs.try_acquire().await, &what);
        assert!(two.permits() == 2 && two.number() < one_more.number(), "{what}");
        assert!(is_busy(own.try_acquire_many(2).await, &what));
        let all = theirs.clone();
        let all = tokio::spawn(async move { all.acquire_many(4).await.unwrap() });
        until_waiting(one, "gpu", 1, &what).await;
        assert!(is_busy(own.try_acquire().await, &what), "one is free, for who came first: {what}");
        let late = own.clone();
        let late = tokio::spawn(async move { late.acquire().await.unwrap() });
        until_waiting(one, "gpu", 2, &what).await;
        let Inspection::Held(holder) = one.inspect("gpu").await.unwrap() else { panic!("{what}") };
        let sharing = holder.sharing.unwrap();
        assert_eq!((sharing.holders, sharing.used, sharing.limit), (2, 3, Some(4)), "{what}");
        assert_eq!(two.release().await, Released::Held, "{what}");
        assert_eq!(one_more.release().await, Released::Held, "{what}");
        let all = soon("all permits", all).await.unwrap();
        assert_eq!(all.release().await, Released::Held, "{what}");
        let late = soon("one permit", late).await.unwrap();
        assert_eq!(late.release().await, Released::Held, "{what}");
    }
}

#[tokio::test]
async fn callers_who_disagree_on_the_limit_are_told_both_and_it_can_be_changed() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let (own, theirs) = (one.semaphore("gpu", 2).ttl(TTL), other.semaphore("gpu", 3).ttl(TTL));
        let permit = granted(own.try_acquire().await, &what);
        for error in [theirs.acquire().await.unwrap_err(), theirs.try_acquire().await.unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error}");
            let text = error.to_string();
            assert!(text.contains("3 permits") && text.contains("keeps 2"), "{text}");
        }
        for (semaphore, permits) in [(&own, 0), (&own, 3), (&one.semaphore("gpu", 0), 1)] {
            let error = semaphore.acquire_many(permits).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error}");
        }
        let waiting = own.clone();
        let waiting = tokio::spawn(async move { waiting.acquire_many(2).await });
        until_waiting(one, "gpu", 1, &what).await;
        let change = theirs.set_limit(3).await.unwrap();
        assert_eq!((change.before, change.used), (Some(2), 1), "{what}");
        // It asked for two of two: somebody has to say what it wants of three.
        let error = soon("it is told", waiting).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("keeps 3"), "{what}: {error}");
        let two = soon("two more", theirs.acquire_many(2)).await.unwrap();
        let change = own.set_limit(1).await.unwrap();
        assert_eq!((change.before, change.used), (Some(3), 3), "{what}");
        assert!(two.is_valid() && permit.is_valid(), "what is held stays: {what}");
        assert_eq!(two.release().await, Released::Held, "{what}");
        let single = one.semaphore("gpu", 1).ttl(TTL);
        assert!(is_busy(single.try_acquire().await, &what));
        assert_eq!(permit.release().await, Released::Held, "{what}");
        drop(soon("the only one", single.acquire()).await.unwrap());
    }
}

#[tokio::test]
async fn an_owner_enters_again_and_frees_with_its_last_hold() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let (own, same) = (one.reentrant("k", "job-7").ttl(TTL), other.reentrant("k", "job-7"));
        let outer = granted(own.try_lock().await, &what);
        let foreign = other.reentrant("k", "job-8").ttl(TTL);
        let waiting = foreign.clone();
        let waiting = tokio::spawn(async move { waiting.lock().await.unwrap() });
        until_waiting(one, "k", 1, &what).await;
        let inner = granted(same.try_lock().await, &what);
        assert_eq!(inner.fencing_token(), outer.fencing_token(), "{what}");
        assert_ne!(inner.token_hash(), outer.token_hash(), "{what}");
        assert_eq!(own.hold_count().await.unwrap(), 2, "{what}");
        assert_eq!(foreign.hold_count().await.unwrap(), 0, "{what}");
        assert_eq!(outer.release().await, Released::Held, "{what}");
        assert!(is_busy(foreign.try_lock().await, &what));
        assert_eq!(own.hold_count().await.unwrap(), 1, "{what}");
        let fencing_token = inner.fencing_token();
        assert_eq!(inner.release().await, Released::Held, "{what}");
        let next = soon("the other owner", waiting).await.unwrap();
        assert!(next.fencing_token() > fencing_token, "{what}");
        assert_eq!(next.release().await, Released::Held, "{what}");
    }
    let (client, _) = &stores.pairs[0];
    for owner in [String::new(), "x".repeat(65)] {
        assert!(client.reentrant("k", owner).lock().await.unwrap_err().is_config());
    }
}

#[tokio::test]
async fn a_latch_opens_for_all_who_wait_and_a_step_counts_once() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let (own, theirs) = (one.latch("ready", 2), other.latch("ready", 2));
        assert_eq!(own.remaining().await.unwrap(), 2, "{what}");
        let waits = |latch: &fencelock::Latch| {
            let latch = latch.clone();
            tokio::spawn(async move { latch.wait().await.unwrap() })
        };
        let waiting = [waits(&own), waits(&theirs)];
        own.count_down_as("a").await.unwrap();
        theirs.count_down_as("a").await.unwrap();
        assert_eq!(theirs.remaining().await.unwrap(), 1, "{what}");
        let error = own.clone().wait_limit(Wait::Never).wait().await.unwrap_err();
        assert!(error.is_wait_expired(), "{what}: {error}");
        assert!(error.to_string().contains("1 of 2 steps"), "{what}: {error}");
        let error = one.latch("ready", 3).count_down().await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains("keeps 2"), "{what}: {error}");
        own.count_down().await.unwrap();
        for waiting in waiting {
            soon("it is open", waiting).await.unwrap();
        }
        soon("it stays open", theirs.wait()).await.unwrap();
        theirs.count_down().await.unwrap();
        assert_eq!(own.remaining().await.unwrap(), 0, "{what}");
        let error = other.mutex("ready").try_lock().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ForeignValue, "{what}: {error}");
        assert!(error.to_string().contains("latch"), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_barrier_lets_nobody_pass_before_all_are_there_and_has_one_leader() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let mut last = None;
        for round in 0..3 {
            let what = format!("{what}, round {round}");
            let (own, theirs) = (one.barrier("step", 3), other.barrier("step", 3));
            let enter = |barrier: &fencelock::Barrier| {
                let barrier = barrier.clone();
                tokio::spawn(async move { barrier.wait().await.unwrap() })
            };
            let waiting = [enter(&own), enter(&theirs)];
            let third = soon("the third", theirs.wait()).await.unwrap();
            let mut passes = vec![third];
            for waiting in waiting {
                passes.push(soon(&what, waiting).await.unwrap());
            }
            assert_eq!(passes.iter().filter(|pass| pass.is_leader()).count(), 1, "{what}");
            assert!(passes.iter().all(|pass| pass.number() == passes[0].number()), "{what}");
            assert!(passes[0].number() > last, "{what}");
            last = passes[0].number();
        }
    }
}

#[tokio::test]
async fn a_composite_takes_all_or_nothing() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let parts = |client: &Client| {
            [
                Part::permits(&client.semaphore("gpu", 2).ttl(TTL), 2),
                Part::from(client.mutexes(["z", "a"]).ttl(TTL)),
                Part::read(&client.rwlock("catalogue").ttl(TTL)),
                Part::from(client.reentrant("order", "me").ttl(TTL)),
            ]
        };
        let (own, theirs) = (one.all_of(parts(one)), other.all_of(parts(other)));
        let guard = granted(own.try_lock().await, &what);
        let names: Vec<String> = guard.parts().map(|part| part.name().to_string()).collect();
        assert_eq!(names, ["a", "catalogue", "gpu", "order", "z"], "{what}");
        let fenced = guard.parts().filter(|part| part.fencing_token().is_some()).count();
        let shared = guard.parts().filter(|part| part.shared_token().is_some()).count();
        assert_eq!((fenced, shared), (3, 1), "{what}");
        assert_eq!(guard.parts().map(|part| part.permits()).sum::<u32>(), 2, "{what}");
        guard.renew(TTL).await.unwrap();
        assert!(is_busy(theirs.try_lock().await, &what));

        let waiting = theirs.clone();
        let waiting = tokio::spawn(async move { waiting.lock().await.unwrap() });
        until_waiting(one, "a", 1, &what).await;
        assert_eq!(guard.release().await, Released::Held, "{what}");
        let next = soon("the other has all", waiting).await.unwrap();
        assert!(next.is_valid(), "{what}");
        assert_eq!(next.release().await, Released::Held, "{what}");

        // The last part is busy: what was taken before it is free again.
        let blocker = granted(other.mutex("z").ttl(TTL).try_lock().await, &what);
        assert!(is_busy(own.try_lock().await, &what));
        let error = own.clone().wait(Wait::Never).lock().await.unwrap_err();
        assert!(error.is_wait_expired(), "{what}: {error}");
        let reader = granted(other.rwlock("catalogue").ttl(TTL).try_write().await, &what);
        let permits = granted(other.semaphore("gpu", 2).ttl(TTL).try_acquire_many(2).await, &what);
        for released in [reader.release().await, permits.release().await, blocker.release().await] {
            assert_eq!(released, Released::Held, "{what}");
        }
        let twice = [Part::from(one.mutex("a")), Part::read(&one.rwlock("a"))];
        assert!(one.all_of(twice).lock().await.unwrap_err().is_config(), "{what}");
        assert!(one.all_of([]).lock().await.unwrap_err().is_config(), "{what}");
    }
}

#[tokio::test]
async fn a_place_is_kept_over_several_waits() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let semaphore = one.semaphore("gpu", 3).ttl(TTL);
        let held = granted(other.semaphore("gpu", 3).ttl(TTL).try_acquire_many(3).await, &what);
        let mut place = semaphore.enqueue_many(2).await.unwrap();
        assert_eq!(place.position().unwrap().place, 1, "{what}");
        let dropped = tokio::time::timeout(Duration::from_millis(10), place.granted()).await;
        assert!(dropped.is_err(), "{what}: it is held");
        until_waiting(other, "gpu", 1, &what).await;
        assert_eq!(held.release().await, Released::Held, "{what}");
        let permit = soon("its turn", place.granted()).await.unwrap();
        assert_eq!(permit.permits(), 2, "{what}");
        assert_eq!(permit.release().await, Released::Held, "{what}");
        let mut writer = one.rwlock("k").ttl(TTL).enqueue_write().await.unwrap();
        let mut reader = one.rwlock("k").ttl(TTL).enqueue_read().await.unwrap();
        drop(soon("it writes", writer.granted()).await.unwrap());
        drop(soon("it reads", reader.granted()).await.unwrap());
        let mut owner = one.reentrant("k", "me").ttl(TTL).enqueue().await.unwrap();
        assert!(soon("it is ours", owner.granted()).await.unwrap().is_valid(), "{what}");
    }
}

#[tokio::test]
async fn scoped_work_sees_its_kind_and_gives_back() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let lock = one.rwlock("k").ttl(TTL);
        let number = lock.run_read(|held| async move { held.shared_token() }).await.unwrap();
        assert!(number.is_some(), "{what}");
        let number = lock.run_write(|held| async move { held.fencing_token() }).await.unwrap();
        assert!(number.is_some(), "{what}");
        let semaphore = one.semaphore("s", 3).ttl(TTL);
        let seen = semaphore.run_many(2, |held| async move { (held.permits(), held.is_valid()) });
        assert_eq!(seen.await.unwrap(), (2, true), "{what}");
        let owned = one.reentrant("r", "me").ttl(TTL);
        let nested = owned.run(|held| {
            let owned = owned.clone();
            async move {
                let inner = owned.run(|inner| async move { inner.fencing_token() });
                (held.fencing_token(), inner.await.unwrap(), owned.hold_count().await.unwrap())
            }
        });
        let (outer, inner, left) = nested.await.unwrap();
        assert!(outer.is_some() && outer == inner && left == 1, "{what}");
        let all = one.all_of([Part::write(&lock), Part::permits(&semaphore, 3)]);
        assert!(all.run(|held| async move { held.is_valid() }).await.unwrap(), "{what}");
        for name in ["k", "s", "r"] {
            let seen = other.inspect(name).await.unwrap();
            assert!(matches!(seen, Inspection::Free { .. }), "{what}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_leaked_share_outlives_its_guard_and_is_known_by_its_token() {
    let stores = Stores::new();
    for (one, other, what) in stores.sharing() {
        let reader = granted(one.rwlock("k").ttl(TTL).try_read().await, &what);
        let lease = reader.leak().await.unwrap();
        let writer = other.rwlock("k").ttl(TTL);
        assert!(is_busy(writer.try_write().await, &what));
        assert!(lease.renew(TTL).await.unwrap() > Duration::ZERO, "{what}");
        let again = other.lease(lease.names().clone(), lease.token());
        assert_eq!(again.release().await.unwrap(), Released::Held, "{what}");
        assert_eq!(granted(writer.try_write().await, &what).release().await, Released::Held);
    }
}

#[path = "../examples/rwlock.rs"]
#[allow(dead_code)] // Its `main`.
mod rwlock_example;
#[path = "../examples/semaphore.rs"]
#[allow(dead_code)] // Its `main`.
mod semaphore_example;

#[tokio::test]
async fn the_examples_run() {
    let stores = Stores::new();
    for (client, _, what) in stores.sharing() {
        soon(&what, rwlock_example::example(client)).await.expect("it runs");
        soon(&what, semaphore_example::example(client)).await.expect("it runs");
    }
}
