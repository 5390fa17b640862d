//! Kind CANCEL for the primitives in which several hold or meet: every future is dropped at every one
//! of its awaits, under every fault; then nothing of it is held, waits, or is looked after, long
//! before its ttl.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use fencelock::{
    Part,
    store::{Fault, StoreErrorKind, Verb},
};

use crate::world::{World, millis, secs};

type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// After so many polls every future here has ended, or waits for good.
const MOST_POLLS: usize = 10;

const FAULTS: [Fault; 6] = [
    Fault::Pass,
    Fault::Fail(StoreErrorKind::Unavailable),
    Fault::LostRequest,
    Fault::LostReply,
    Fault::HoldRequest,
    Fault::HoldReply,
];

/// Polls a future so often, lets held calls go and time pass in between, and drops it. True when it
/// ended by itself.
fn poll_then_drop(world: &World, polls: usize, let_go: bool, future: Boxed<'_>) -> bool {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(()) = future.as_mut().poll(&mut context) {
            return true;
        }
        if let_go {
            world.faulty.let_go();
        }
        world.clock.advance(millis(300));
    }
    false
}

async fn is_done(world: &World, what: &str) {
    let none = || {
        world.faulty.let_go();
        let names = ["k", "m", "z"];
        names.iter().all(|name| !world.is_held(name) && world.waiting(name) == 0)
            && world.keeper() == (0, 0)
            && world.routes() == 0
    };
    world.pass_by(secs(1), secs(120), what, none).await;
}

/// Runs a future under all faults, dropped after every number of polls.
async fn at_every_await<F>(verb: Verb, future_of: F)
where
    F: for<'a> Fn(&'a World) -> Boxed<'a>,
{
    for fault in &FAULTS {
        for let_go in [true, false] {
            for polls in 0..=MOST_POLLS {
                let world = World::reached().await;
                for _ in 0..2 {
                    world.faulty.plan(verb, fault.clone());
                }
                let ended = poll_then_drop(&world, polls, let_go, future_of(&world));
                let what = format!("nothing is left: {verb:?} {fault:?} polls {polls} {ended}");
                is_done(&world, &what).await;
                if ended {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_read_or_write_leaves_nothing() {
    at_every_await(Verb::Acquire, |world| {
        let lock = world.client.rwlock("k").ttl(secs(3_600)).wait(secs(20));
        Box::pin(async move {
            let _reader = lock.read().await;
            let _writer = lock.clone().wait(secs(1)).write().await;
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_downgrade_leaves_nothing() {
    at_every_await(Verb::Downgrade, |world| {
        let lock = world.client.rwlock("k").ttl(secs(3_600)).wait(secs(20));
        Box::pin(async move {
            if let Ok(writer) = lock.write().await {
                let _reader = writer.downgrade().await;
            }
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_acquire_of_permits_leaves_nothing() {
    at_every_await(Verb::Acquire, |world| {
        let semaphore = world.client.semaphore("k", 3).ttl(secs(3_600)).wait(secs(20));
        Box::pin(async move {
            let _all = semaphore.acquire_many(3).await;
            let _more = semaphore.clone().wait(secs(1)).acquire().await;
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_reentry_leaves_nothing() {
    at_every_await(Verb::Acquire, |world| {
        let lock = world.client.reentrant("k", "me").ttl(secs(3_600)).wait(secs(20));
        Box::pin(async move {
            let _outer = lock.lock().await;
            let _result = lock.run(|_held| tokio::task::yield_now()).await;
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_wait_at_a_latch_or_barrier_leaves_nothing() {
    at_every_await(Verb::Acquire, |world| {
        let latch = world.client.latch("k", 2).wait_limit(secs(20));
        Box::pin(async move { drop(latch.wait().await) })
    })
    .await;
    at_every_await(Verb::Acquire, |world| {
        let barrier = world.client.barrier("k", 2).wait_limit(secs(20));
        Box::pin(async move {
            let (_one, _other) = (barrier.wait().await, barrier.wait().await);
        })
    })
    .await;
    at_every_await(Verb::Acquire, |world| {
        let barrier = world.client.barrier("k", 1).wait_limit(secs(20));
        Box::pin(async move { drop(barrier.wait().await) })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_composite_leaves_nothing() {
    at_every_await(Verb::Acquire, |world| {
        let client = &world.client;
        let all = client.all_of([
            Part::permits(&client.semaphore("k", 2).ttl(secs(3_600)), 2),
            Part::write(&client.rwlock("m").ttl(secs(3_600))),
            Part::from(client.mutex("z").ttl(secs(3_600))),
        ]);
        Box::pin(async move {
            let guard = all.clone().wait(secs(20)).lock().await;
            let _busy = all.try_lock().await;
            if let Ok(guard) = guard {
                let _found = guard.release().await;
            }
        })
    })
    .await;
}
