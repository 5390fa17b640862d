//! What is so for threads only: they wait without a runtime, and inside any.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use fencelock::{
    Attempt, Client, Error, ErrorKind, Inspection, LossReason, ManualClock, MemoryStore, Released,
    Renew, Revoked, Store, blocking,
};

use crate::forms::{PATIENCE, Stores, TTL, until};

fn threads(client: Client) -> blocking::Client {
    blocking::Client::new(client).expect("the system gives a thread")
}

/// A client on a clock that stands still.
fn manual() -> (blocking::Client, ManualClock) {
    let clock = ManualClock::new();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::manual(clock.clone()));
    (threads(Client::with_store(store)), clock)
}

#[test]
fn every_verb_works_without_a_runtime_on_every_store() {
    let stores = Stores::new();
    for pair in &stores.pairs {
        let (own, other) = (&pair.own, &pair.other);
        let guard = own.mutex("job").ttl(TTL).label("nightly").lock().unwrap();
        assert!(guard.is_valid() && guard.name().to_string() == "job");
        guard.renew(TTL * 2).unwrap();
        assert!(guard.validity_left() > TTL);
        let Attempt::Busy(busy) = other.mutex("job").try_lock().unwrap() else {
            panic!("it is held")
        };
        assert_eq!(busy.holder.label.as_deref(), Some("nightly"));
        let listed = other.list("j").unwrap();
        assert!(matches!(listed[..], [(_, Inspection::Held(_))]));
        assert!(matches!(other.revoke("job"), Ok(Revoked::Requested(_))));
        assert!(guard.revoked_within(PATIENCE) && guard.is_revoked());
        assert_eq!(guard.lost_within(Duration::ZERO), None);

        let ticket = guard.detach().unwrap();
        let adopted = other.adopt_renewing(ticket.clone()).unwrap();
        let lease = own.lease(ticket.names().clone(), ticket.token());
        assert!(lease.renew(TTL).unwrap_err().is_lost());
        assert_eq!(lease.release().unwrap(), Released::Taken);
        assert!(own.danger().force_release("job").unwrap().is_some());
        assert!(adopted.renew(TTL).unwrap_err().is_lost());
        assert!(adopted.lost_within(PATIENCE).is_some());
        drop(adopted);

        let mut queued = other.mutex("job").enqueue().unwrap();
        assert_eq!(queued.granted().unwrap().release_now(), Released::Held);
        let set = own.mutexes(["a", "b"]).across_slots();
        assert!(set.run(|held| held.is_valid()).unwrap());
        let guard = set.lock().unwrap();
        assert!(matches!(set.try_lock(), Ok(Attempt::Busy(_))));
        assert_eq!(guard.release(), Released::Held);

        drop(own.mutex("job").ttl(TTL).lock().unwrap());
        until("the keeper gives it back", || pair.is_free("job"));
        own.clone().close();
        assert!(own.inspect("job").unwrap_err().is_closed());
    }
}

/// Goal: a call works wherever it is made, and blocks nothing but the thread that makes it. Method:
/// runtimes of both kinds, with timers and tasks of their own; the budget of the calling task is
/// used up before.
#[tokio::test]
async fn calls_are_made_inside_tasks_of_other_runtimes_on_every_store() {
    let stores = Stores::new();
    for pair in &stores.pairs {
        for _ in 0..200 {
            // Each costs a little of the budget that a task has for one poll.
            tokio::task::coop::consume_budget().await;
        }
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..1_000 {
            send.send(number).unwrap();
        }
        while !receive.is_empty() {
            let _taken = receive.recv().await;
            if receive.len().is_multiple_of(100) {
                let done = pair.own.mutex("job").ttl(TTL).run(|held| held.is_valid());
                assert!(done.unwrap(), "{}", pair.own.store_display());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_runtime_with_threads_hold_locks_by_blocking_on_every_store() {
    let stores = Stores::new();
    for pair in &stores.pairs {
        let inside = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let client = if number % 2 == 0 { pair.own.clone() } else { pair.other.clone() };
                let inside = Arc::clone(&inside);
                // More of them than the runtime has threads would only wait for each other.
                tokio::task::spawn_blocking(move || {
                    client.mutex("job").ttl(TTL).run(|_held| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    })
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("nobody else is inside").expect("it is granted");
        }
    }
}

#[test]
fn work_that_blocks_sees_the_loss_and_is_no_success() {
    let (client, clock) = manual();
    let other = client.clone();
    let seen = AtomicBool::new(false);
    let result = client.mutex("job").ttl(TTL).run(|held| {
        assert!(held.is_valid());
        std::thread::scope(|scope| {
            // A thread beside the work hears of it, though the work does not look.
            scope.spawn(|| {
                assert!(held.lost_within(PATIENCE).is_some());
                seen.store(true, Ordering::SeqCst);
            });
            other.danger().force_release("job").unwrap();
            until("it is noticed", || {
                clock.advance(Duration::from_secs(1));
                !held.is_valid()
            });
        });
        7
    });
    let error: Error = result.unwrap_err();
    assert!(error.is_lost() && error.loss() != Some(LossReason::Closed), "{error}");
    assert!(seen.load(Ordering::SeqCst));
}

#[test]
fn an_iterator_holds_the_lock_from_its_first_item_until_it_ends_is_lost_or_dropped() {
    let (client, _clock) = manual();
    let is_free = || matches!(client.inspect("job"), Ok(Inspection::Free { .. }));
    let mutex = client.mutex("job").ttl(TTL);
    let gone = Arc::new(AtomicBool::new(false));
    let numbers = || {
        let gone = Gone(Arc::clone(&gone));
        mutex.run_iter(move |held| {
            (1..=2).inspect(move |_| assert!(held.is_valid() && !gone.0.load(Ordering::SeqCst)))
        })
    };
    let mut items = numbers();
    assert!(is_free(), "nothing happens before the first item");
    for number in 1..=2 {
        assert_eq!(items.next().unwrap().unwrap(), number);
        assert!(!is_free());
    }
    assert!(items.next().is_none() && is_free() && gone.swap(false, Ordering::SeqCst));
    assert!(items.next().is_none(), "it stays over");

    // Lost between two items: there are more, and none is asked for.
    let mut items = numbers();
    assert_eq!(items.next().unwrap().unwrap(), 1);
    client.danger().force_release("job").unwrap();
    assert_eq!(items.next().unwrap().unwrap(), 2, "nobody has noticed");
    assert!(items.next().unwrap().unwrap_err().is_lost(), "the release does");
    assert!(items.next().is_none() && gone.swap(false, Ordering::SeqCst));

    // Dropped in the middle.
    let mut items = numbers();
    assert_eq!(items.next().unwrap().unwrap(), 1);
    drop(items);
    assert!(gone.load(Ordering::SeqCst));
    until("it is free", is_free);
}

/// Says when what has it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn an_iterator_tells_a_loss_before_it_asks_for_more() {
    let (client, clock) = manual();
    let asked = AtomicU32::new(0);
    let mutex = client.mutex("job").ttl(TTL).renewal(Renew::Manual);
    let count = |number: &u32| {
        asked.fetch_add(1, Ordering::SeqCst);
        if *number == 2 {
            clock.advance(TTL);
        }
    };
    // Lost while the second was made: it is not handed on.
    let mut items = mutex.run_iter(|_held| (1..).inspect(count));
    assert_eq!(items.next().unwrap().unwrap(), 1);
    assert!(items.next().unwrap().unwrap_err().is_lost());
    assert!(items.next().is_none());
    // Lost between two.
    let mut items = mutex.run_iter(|_held| (1..).inspect(count));
    assert_eq!(items.next().unwrap().unwrap(), 1);
    clock.advance(TTL);
    assert!(items.next().unwrap().unwrap_err().is_lost());
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[test]
fn a_guard_outlives_its_client_and_is_given_back_by_its_drop() {
    let (client, clock) = manual();
    let observer = client.as_async().clone();
    let guard = client.mutex("job").ttl(TTL).lock().unwrap();
    drop(client);
    let before = guard.deadline();
    clock.advance(TTL / 2);
    assert!(guard.deadline_changed(before) > before, "it is renewed");
    drop(guard);
    let observer = threads(observer);
    until("it is free", || matches!(observer.inspect("job"), Ok(Inspection::Free { .. })));
}

#[test]
fn async_code_and_threads_share_a_client() {
    let (client, _clock) = manual();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(client.as_async().mutex("job").ttl(TTL).lock()).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.mutex("job").ttl(TTL).lock().unwrap());
        until("it waits", || format!("{client:?}").contains("lines: 1"));
        assert_eq!(runtime.block_on(held.release()), Released::Held);
        let guard = fencelock::Guard::from(waiting.join().unwrap());
        assert_eq!(runtime.block_on(guard.release()), Released::Held);
    });
}

#[test]
fn what_is_wrong_is_told_by_the_same_kinds() {
    assert_eq!(blocking::connect("ftp://x/").unwrap_err().kind(), ErrorKind::Config);
    let locks = blocking::connect("memory:").unwrap();
    assert_eq!(locks.mutex("").lock().unwrap_err().kind(), ErrorKind::Config);
    let wrong = locks.mutex("job").ttl(Duration::from_nanos(1)).run(|_| panic!("not granted"));
    assert_eq!(wrong.map(|()| {}).unwrap_err().kind(), ErrorKind::Config);
    let locks = Client::builder("memory:").label("x").build_blocking().unwrap();
    assert_eq!(locks.mutexes(["a", "a"]).run(|held| held.names().len()).unwrap(), 1);
    #[cfg(feature = "quorum")]
    {
        let locks = blocking::connect_quorum(["memory:", "memory:", "memory:"]).unwrap();
        assert!(locks.mutex("job").run(|held| held.fencing_token()).unwrap().is_some());
    }
}

#[test]
fn everything_is_send_and_sync() {
    fn send_sync<T: Send + Sync>() {}
    send_sync::<blocking::Client>();
    send_sync::<blocking::Mutex>();
    send_sync::<blocking::Guard>();
    send_sync::<blocking::Held>();
    send_sync::<blocking::Attempt>();
    send_sync::<blocking::TokenLease>();
    send_sync::<blocking::AcrossSlots>();
    send_sync::<blocking::AcrossGuard>();
}
