//! Kind CANCEL: dropped futures, dropped guards, shutdown.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use fencelock::{
    Client, MemoryStore, Store,
    store::{Fault, Verb},
};

use crate::world::{World, millis, secs, take, until};

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().unwrap()
}

#[test]
fn a_dropped_guard_is_given_back_wherever_it_is_dropped() {
    for place in ["multi", "current", "outside", "after shutdown", "unwinding", "other thread"] {
        let world = World::new();
        let client = world.client.clone();
        let home = runtime(usize::from(place == "multi"));
        let guard = home.block_on(take(client.mutex("job")));
        let started = Instant::now();
        match place {
            "multi" => home.block_on(async move {
                tokio::spawn(async move { drop(guard) }).await.unwrap();
            }),
            "current" => home.block_on(async move { drop(guard) }),
            "outside" => drop(guard),
            "after shutdown" => {
                home.shutdown_timeout(millis(10));
                drop(guard);
            }
            "unwinding" => {
                let unwound = std::panic::catch_unwind(AssertUnwindSafe(move || {
                    let _guard = guard;
                    panic!("of the test");
                }));
                assert!(unwound.is_err());
            }
            _ => std::thread::spawn(move || drop(guard)).join().unwrap(),
        }
        assert!(started.elapsed() < secs(5), "{place}");
        runtime(0).block_on(until(place, || !world.is_held("job") && world.keeper() == (0, 0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_cancelled_in_any_way_gives_its_lock_back() {
    for how in ["timeout", "select", "abort", "panic"] {
        let world = World::new();
        let mutex = world.mutex("job");
        let work = async move { mutex.run(|_held| std::future::pending::<()>()).await };
        match how {
            "timeout" => assert!(tokio::time::timeout(millis(20), work).await.is_err()),
            "select" => tokio::select! {
                _ = work => unreachable!("it never ends"),
                () = until("it is held", || world.is_held("job")) => {}
            },
            "abort" => {
                let task = tokio::spawn(work);
                until("it is held", || world.is_held("job")).await;
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            }
            _ => {
                let mutex = world.mutex("job");
                let work = async move { mutex.run(|_held| async { panic!("of the test") }).await };
                let ended: Result<Result<(), _>, _> = tokio::spawn(work).await;
                assert!(ended.unwrap_err().is_panic());
            }
        }
        until(how, || !world.is_held("job") && world.keeper() == (0, 0)).await;
    }
}

#[tokio::test]
async fn a_cancelled_waiter_is_gone_at_once_and_leaves_nothing() {
    let world = World::new();
    let token = world.taken_by_another("job");
    for _ in 0..200 {
        let mutex = world.mutex("job");
        let waiter = tokio::spawn(async move { mutex.lock().await.map(drop) });
        tokio::task::yield_now().await;
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    until("all places are given up", || world.keeper() == (0, 0)).await;
    assert_eq!(world.waiting("job"), 0);
    assert_eq!(world.holder_token("job"), Some(token.to_hex().to_vec()));
    world.delete("job");
    drop(take(world.mutex("job")).await);
}

#[tokio::test]
async fn several_names_are_taken_all_or_nothing_also_when_cancelled() {
    let world = World::new();
    world.taken_by_another("k7");
    let names: Vec<String> = (1..=10).map(|n| format!("k{n}")).collect();
    let mutex = world.client.mutexes(names);
    let waiter = tokio::spawn(async move { mutex.lock().await.map(drop) });
    until("it has tried", || world.faulty.calls(Verb::Acquire) > 0).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    for n in (1..=10).filter(|&n| n != 7) {
        assert!(!world.is_held(&format!("k{n}")));
    }
    until("its place is given up", || world.keeper() == (0, 0)).await;
    assert_eq!(world.waiting("k7"), 0);
}

#[tokio::test]
async fn the_last_client_flushes_what_is_pending_and_waits_for_no_store() {
    let world = World::new();
    let guard = take(world.mutex("job")).await;
    let World { faulty, client, memory, clock } = world;
    drop(guard);
    drop(client);
    let now = memory.store_now();
    let request = fencelock::store::core::InspectRequest::new(crate::world::name("job"));
    let seen = memory.with_table(|table| table.inspect(&request, now));
    assert!(matches!(seen, fencelock::store::core::Inspection::Free { .. }), "{seen:?}");

    let client = Client::with_store(Arc::new(faulty.clone()) as Arc<dyn Store>);
    let guard = take(client.mutex("job")).await;
    faulty.plan_for_all(Some(Fault::HoldRequest));
    drop(guard);
    let started = Instant::now();
    drop(client);
    let took = started.elapsed();
    assert!(took >= millis(240) && took < secs(5), "{took:?}");
    // The keeper goes on for as long as it makes sense.
    faulty.plan_for_all(None);
    faulty.let_go();
    let free = || {
        clock.advance(millis(10));
        let seen = memory.with_table(|table| table.inspect(&request, memory.store_now()));
        matches!(seen, fencelock::store::core::Inspection::Free { .. })
    };
    until("it is given back", free).await;
}

#[tokio::test]
async fn a_guard_outlives_its_client_and_is_renewed() {
    let world = World::new();
    let World { faulty, client, memory, clock } = world;
    let guard = take(client.mutex("job").ttl(secs(9))).await;
    drop(client);
    for _ in 0..3 {
        let before = guard.deadline();
        clock.advance(secs(3));
        until("it is renewed", || guard.deadline() > before).await;
    }
    let _still_there = (faulty, memory);
    assert_eq!(guard.release().await, fencelock::Released::Held);
}

#[test]
fn a_store_in_memory_works_from_two_runtimes_and_after_one_has_ended() {
    let client = Client::with_store(Arc::new(MemoryStore::new()) as Arc<dyn Store>);
    let first = runtime(0);
    let guard = first.block_on(take(client.mutex("job")));
    drop(first);
    assert_eq!(runtime(0).block_on(guard.release()), fencelock::Released::Held);
    runtime(1).block_on(client.clone().close());
}

/// Goal: however many releases wait for a store that is away, few of them are under way. Method:
/// 1 000 guards are dropped while every request is held up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_of_releases_is_given_back_few_at_a_time() {
    const MANY: u64 = 1_000;
    const AT_ONCE: u64 = 128;
    let world = World::new();
    let mut guards = Vec::new();
    for n in 0..MANY {
        guards.push(take(world.mutex(&format!("job:{n}")).ttl(secs(3_600))).await);
    }
    world.faulty.plan_for_all(Some(Fault::HoldRequest));
    drop(guards);
    until("all places are taken", || world.faulty.calls(Verb::Release) >= AT_ONCE).await;
    // They fail when their time is over; others follow, and no more at once than before.
    assert_eq!(world.faulty.calls(Verb::Release), AT_ONCE);
    assert_eq!(world.keeper().1, MANY);
    world.clock.advance(secs(1));
    until("the next are tried", || world.faulty.calls(Verb::Release) >= 2 * AT_ONCE).await;
    assert_eq!(world.faulty.calls(Verb::Release), 2 * AT_ONCE);
    world.faulty.plan_for_all(None);
    world.faulty.let_go();
    until("all are given back", || {
        world.clock.advance(millis(10));
        world.keeper().1 == 0
    })
    .await;
    assert!((0..MANY).all(|n| !world.is_held(&format!("job:{n}"))));
}
