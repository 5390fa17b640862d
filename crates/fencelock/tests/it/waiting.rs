//! Waiting: the line of this process, the line at the store, hand-over, cancellation.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fencelock::{
    Client, Guard, MemoryStore, Renew, Store,
    store::{Fault, Verb},
};

use crate::world::{World, millis, now, secs, take, until};

fn memory() -> (MemoryStore, Client, Client) {
    let store = MemoryStore::new();
    let client = |store: MemoryStore| Client::with_store(Arc::new(store) as Arc<dyn Store>);
    (store.clone(), client(store.clone()), client(store.another_client()))
}

fn waiting(store: &MemoryStore, name: &str) -> u32 {
    store.with_table(|table| table.waiting(&crate::world::name(name)))
}

#[tokio::test]
async fn a_release_starts_the_next_process_and_asks_nothing_for_it() {
    let world = World::reached().await;
    let other = world.other();
    let guard = take(other.mutex("job")).await;
    let mutex = world.mutex("job");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it waits", || world.waiting("job") == 1).await;
    // The second question told the store where it listens.
    until("it listens", || world.faulty.calls(Verb::Acquire) >= 2).await;
    let asked = world.faulty.calls(Verb::Acquire);
    let first = guard.fencing_token();
    assert_eq!(guard.release().await, fencelock::Released::Held);
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fencing_token() > first);
    assert_eq!(world.faulty.calls(Verb::Acquire), asked, "the message was enough");
    assert!(next.is_valid());
    // The claim is short; the keeper makes the whole ttl of it.
    assert!(next.validity_left() <= millis(500));
    world.clock.advance(millis(60));
    until("it is renewed", || next.validity_left() > secs(20)).await;
    assert_eq!(next.release().await, fencelock::Released::Held);
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_whole_when_it_is_handed_over() {
    let world = World::reached().await;
    let guard = take(world.other().mutex("job")).await;
    let mutex = world.mutex("job").ttl(secs(40)).renewal(Renew::Manual);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it listens", || world.faulty.calls(Verb::Acquire) >= 2).await;
    guard.release().await;
    let next = waiter.await.unwrap().unwrap();
    assert!(next.validity_left() > secs(39), "{next:?}");
    next.release().await;
}

/// Goal: no message is needed. Method: the subscription is refused, so that nobody is told.
#[tokio::test]
async fn who_hears_nothing_is_served_all_the_same() {
    let world = World::reached().await;
    let guard = take(world.other().mutex("job")).await;
    let denied = Fault::Fail(fencelock::store::StoreErrorKind::Denied);
    world.faulty.plan(Verb::Listen, denied);
    let mutex = world.mutex("job");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it was refused", || world.faulty.calls(Verb::Listen) == 1).await;
    guard.release().await;
    world.pass_by(millis(20), secs(2), "it asks", || waiter.is_finished()).await;
    waiter.await.unwrap().unwrap().release().await;
}

#[tokio::test]
async fn a_holder_that_died_is_missed_when_its_lease_ends() {
    let world = World::reached().await;
    world.taken_by_another("job");
    let mutex = world.mutex("job").ttl(secs(30));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it listens", || world.faulty.calls(Verb::Acquire) >= 2).await;
    // The heart-beat keeps the place for an hour.
    let left = world.left("job");
    world
        .pass_by(secs(3), left - secs(4), "an hour has passed", || false_until(&world, "job"))
        .await;
    assert_eq!(world.waiting("job"), 1);
    assert!(!waiter.is_finished());
    let end = world.left("job");
    world.pass_by(millis(5), end + millis(50), "it has the lock", || waiter.is_finished()).await;
    waiter.await.unwrap().unwrap().release().await;
}

/// Whether less than five seconds are left of the lease.
fn false_until(world: &World, name: &str) -> bool {
    world.left(name) < secs(5)
}

#[tokio::test]
async fn a_claim_that_nobody_took_up_goes_on_to_the_next() {
    let world = World::reached().await;
    let guard = take(world.other().mutex("job")).await;
    // Enqueued and then never polled again: a frozen process.
    let frozen = world.other();
    let mut queued = Box::pin(frozen.mutex("job").enqueue().await.unwrap());
    let mut waits = Box::pin(queued.granted());
    assert!(now(waits.as_mut()).is_none());
    let mutex = world.mutex("job");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("both wait", || world.waiting("job") == 2).await;
    until("it listens", || world.faulty.calls(Verb::Acquire) >= 2).await;
    guard.release().await;
    until("the frozen one has it", || world.waiting("job") == 1).await;
    assert!(!waiter.is_finished());
    // It was told when the claim ends: no heart-beat is waited for.
    world.pass_by(millis(10), millis(600), "the next has it", || waiter.is_finished()).await;
    drop(waits);
    waiter.await.unwrap().unwrap().release().await;
}

#[tokio::test]
async fn an_enqueued_place_is_kept_while_the_wait_is_dropped() {
    let world = World::reached().await;
    let other = world.other();
    let guard = take(other.mutex("job")).await;
    let mut queued = world.mutex("job").enqueue().await.unwrap();
    assert_eq!(queued.position().unwrap().place, 1);
    let mut behind = other.mutex("job").enqueue().await.unwrap();
    assert_eq!(behind.position().unwrap().place, 2);
    for _ in 0..3 {
        assert!(now(Box::pin(queued.granted()).as_mut()).is_none());
        assert!(now(Box::pin(behind.granted()).as_mut()).is_none());
    }
    guard.release().await;
    let first = queued.granted().await.unwrap();
    assert!(now(Box::pin(behind.granted()).as_mut()).is_none());
    first.release().await;
    behind.granted().await.unwrap().release().await;
    drop(queued);
    until("nothing is left", || world.keeper() == (0, 0)).await;
}

/// Goal: in one process the order is that of the calls, one task waits at the store, and every
/// grant has a larger fencing token.
#[tokio::test]
async fn the_tasks_of_a_process_are_served_in_order_and_one_waits_at_the_store() {
    let (store, client, other) = memory();
    let guard = take(other.mutex("job")).await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..50 {
        let (mutex, order) = (client.mutex("job"), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            order.lock().unwrap().push((n, guard.fencing_token().unwrap()));
            guard.release().await
        }));
        tokio::task::yield_now().await;
    }
    until("it waits", || waiting(&store, "job") == 1).await;
    guard.release().await;
    for task in tasks {
        assert_eq!(task.await.unwrap(), fencelock::Released::Held);
    }
    assert_eq!(waiting(&store, "job"), 0);
    let order = order.lock().unwrap();
    assert!(order.iter().map(|(n, _)| *n).eq(0..50), "{order:?}");
    assert!(order.windows(2).all(|pair| pair[0].1 < pair[1].1), "{order:?}");
}

/// Goal: a lease goes around inside a process without a question to the store, and others have
/// their turn soon after they begin to wait.
#[tokio::test]
async fn a_lease_is_passed_on_without_asking_and_given_up_when_others_wait() {
    let world = World::reached().await;
    let rounds = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (mutex, rounds, stop) = (world.mutex("job"), Arc::clone(&rounds), Arc::clone(&stop));
        tasks.push(tokio::spawn(async move {
            let mut last = None;
            while !stop.load(Ordering::Relaxed) {
                let guard = mutex.lock().await.unwrap();
                assert!(guard.fencing_token() > last);
                last = guard.fencing_token();
                rounds.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                guard.release().await;
            }
        }));
    }
    until("they go around", || rounds.load(Ordering::Relaxed) > 20_000).await;
    let asked = world.faulty.calls(Verb::Acquire) + world.faulty.calls(Verb::Release);
    assert!(asked < 2_000, "{asked} questions for 20,000 grants");
    let other = world.other();
    let waits = tokio::spawn(async move { other.mutex("job").lock().await });
    // The clock stands still: it is the number of passes that ends the turn.
    let guard = waits.await.unwrap().unwrap();
    guard.release().await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    until("nothing is left", || world.keeper() == (0, 0) && !world.is_held("job")).await;
}

/// Goal: any task of a line may go at any moment, and the others go on. Method: random aborts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_are_aborted_at_any_moment_stall_nobody() {
    let (store, client, other) = memory();
    for round in 0..300_u64 {
        let mut tasks = Vec::new();
        for n in 0..8_u64 {
            let mutex = if n % 4 == 3 { other.mutex("job") } else { client.mutex("job") };
            let mutex = if n % 5 == 4 { mutex.strict_fifo() } else { mutex };
            tasks.push(tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                if n % 2 == 0 {
                    tokio::task::yield_now().await;
                }
                drop_or_release(guard, n).await;
            }));
        }
        for (n, task) in tasks.iter().enumerate() {
            if (round + n as u64).is_multiple_of(3) {
                task.abort();
            }
            if (round + n as u64).is_multiple_of(5) {
                tokio::task::yield_now().await;
            }
        }
        for task in tasks {
            match tokio::time::timeout(secs(20), task).await.expect("nobody is stalled") {
                Ok(()) => {}
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }
    }
    let guard = tokio::time::timeout(secs(20), client.mutex("job").lock()).await.unwrap().unwrap();
    assert_eq!(waiting(&store, "job"), 0);
    guard.release().await;
}

async fn drop_or_release(guard: Guard, n: u64) {
    if n.is_multiple_of(3) {
        drop(guard);
    } else {
        guard.release().await;
    }
}

#[tokio::test]
async fn the_first_of_a_line_that_gives_up_leaves_its_place_to_the_next() {
    let world = World::reached().await;
    let other = world.other();
    let guard = take(other.mutex("job")).await;
    let first = tokio::spawn({
        let mutex = world.mutex("job").wait(secs(5));
        async move { mutex.lock().await.map(drop) }
    });
    until("it waits", || world.waiting("job") == 1).await;
    let second = tokio::spawn({
        let mutex = world.mutex("job");
        async move { mutex.lock().await }
    });
    // Somebody else, who came after the first.
    let mut third = other.mutex("job").enqueue().await.unwrap();
    assert_eq!(world.waiting("job"), 2);
    world.pass_by(millis(100), secs(6), "the first gives up", || first.is_finished()).await;
    assert!(first.await.unwrap().unwrap_err().is_wait_expired());
    assert_eq!(world.waiting("job"), 2, "the place was kept");
    guard.release().await;
    let next = second.await.unwrap().unwrap();
    assert!(now(Box::pin(third.granted()).as_mut()).is_none());
    next.release().await;
    third.granted().await.unwrap().release().await;
}

#[tokio::test]
async fn a_closed_client_ends_every_wait() {
    let world = World::reached().await;
    let _guard = take(world.other().mutex("job")).await;
    let mut tasks = Vec::new();
    for n in 0..4 {
        let mutex = world.mutex("job");
        let mutex = if n == 3 { mutex.strict_fifo() } else { mutex };
        tasks.push(tokio::spawn(async move { mutex.lock().await.map(drop) }));
        tokio::task::yield_now().await;
    }
    until("two wait at the store", || world.waiting("job") == 2).await;
    world.client.clone().close().await;
    for task in tasks {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), fencelock::ErrorKind::Closed, "{error}");
    }
}

/// A token that got out could be used by anybody: such a lease is not passed on.
#[tokio::test]
async fn a_lease_whose_token_was_read_is_given_back_to_the_store() {
    let world = World::reached().await;
    let guard = take_waiting(&world).await;
    let token = guard.token();
    let next = tokio::spawn({
        let mutex = world.mutex("job");
        async move { mutex.lock().await }
    });
    tokio::task::yield_now().await;
    guard.release().await;
    let next = next.await.unwrap().unwrap();
    assert_ne!(next.token(), token);
    next.release().await;
}

async fn take_waiting(world: &World) -> Guard {
    world.mutex("job").lock().await.unwrap()
}

/// Goal: what is passed on is over for the holder before, also for handles that outlive the work.
#[tokio::test]
async fn a_handle_that_outlives_its_work_is_not_valid() {
    let (_store, client, _) = memory();
    let mutex = client.mutex("job");
    let mut handles = Vec::new();
    for _ in 0..3 {
        let work = tokio::spawn({
            let mutex = mutex.clone();
            async move { mutex.run(|held| async move { held }).await.unwrap() }
        });
        handles.push(work);
    }
    let mut held = Vec::new();
    for handle in handles {
        held.push(handle.await.unwrap());
    }
    for held in held {
        assert!(!held.is_valid());
        assert_eq!(held.state(), fencelock::LeaseState::Released);
        assert!(now(Box::pin(held.lost()).as_mut()).is_none());
    }
}
