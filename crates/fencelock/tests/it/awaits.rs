//! Kind CANCEL, completely: every public future is dropped at every one of its awaits, under every
//! fault; then the name becomes free long before its ttl, and nothing renews it.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use fencelock::{
    Client, Store,
    store::{Fault, FaultyStore, StoreErrorKind, Verb},
};

use crate::world::{World, millis, secs, take, until};

type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// After so many polls every future here has ended, or waits for good.
const MOST_POLLS: usize = 12;

const FAULTS: [Fault; 7] = [
    Fault::Pass,
    Fault::Fail(StoreErrorKind::Unavailable),
    Fault::Fail(StoreErrorKind::Denied),
    Fault::LostRequest,
    Fault::LostReply,
    Fault::HoldRequest,
    Fault::HoldReply,
];

/// Polls a future `polls` times, lets held calls go and time pass in between, and drops it.
/// True when it ended by itself.
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

/// Runs one verb under all faults, dropped after every number of polls.
async fn at_every_await<F>(verb: Verb, faults_in_a_row: usize, verb_of: F)
where
    F: for<'a> Fn(&'a World, Vec<fencelock::Guard>) -> Boxed<'a>,
{
    for fault in &FAULTS {
        for let_go in [true, false] {
            for polls in 0..=MOST_POLLS {
                let world = World::reached().await;
                let guards = match verb {
                    Verb::Acquire => Vec::new(),
                    _ => vec![take(world.mutex("job").ttl(secs(3_600))).await],
                };
                for _ in 0..faults_in_a_row {
                    world.faulty.plan(verb, fault.clone());
                }
                let future = verb_of(&world, guards);
                let ended = poll_then_drop(&world, polls, let_go, future);
                // What has not begun when it is dropped has no guard to give back.
                let what = format!("{verb:?} {fault:?} polls {polls} ended {ended}: it is free");
                world
                    .pass_by(secs(1), secs(60), &what, || {
                        world.faulty.let_go();
                        !world.is_held("job")
                    })
                    .await;
                world
                    .pass_by(secs(1), secs(60), "the keeper is done", || {
                        world.faulty.let_go();
                        world.keeper() == (0, 0)
                    })
                    .await;
                assert_eq!(
                    world.faulty.calls(Verb::Renew).min(1),
                    u64::from(verb == Verb::Renew && polls > 0)
                );
                if ended {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_try_leaves_nothing() {
    at_every_await(Verb::Acquire, 1, |world, _| {
        let mutex = world.mutex("job").ttl(secs(3_600));
        Box::pin(async move { drop(mutex.try_lock().await) })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_wait_leaves_nothing() {
    at_every_await(Verb::Acquire, 3, |world, _| {
        let mutex = world.mutex("job").ttl(secs(3_600)).wait(secs(20));
        Box::pin(async move { drop(mutex.lock().await) })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_run_leaves_nothing() {
    at_every_await(Verb::Acquire, 1, |world, _| {
        let mutex = world.mutex("job").ttl(secs(3_600)).wait(secs(20));
        Box::pin(async move {
            let _result = mutex.run(|_held| tokio::task::yield_now()).await;
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_release_is_finished() {
    at_every_await(Verb::Release, 2, |_, guards| {
        Box::pin(async move {
            for guard in guards {
                let _released = guard.release().await;
            }
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_renewal_leaves_nothing() {
    at_every_await(Verb::Renew, 1, |_, guards| {
        Box::pin(async move {
            for guard in guards {
                let _renewed = guard.renew(secs(3_600)).await;
            }
        })
    })
    .await;
}

/// Goal: an adoption that is dropped at any await is either not begun (the ticket stays good) or
/// given back. Method: as above; afterwards the ticket's own token is released, and the name must
/// be free.
#[tokio::test]
async fn a_dropped_adoption_leaves_nothing_of_its_own() {
    for fault in &FAULTS {
        for polls in 0..=MOST_POLLS {
            let world = World::reached().await;
            let ticket = take(world.mutex("job").ttl(secs(3_600))).await.leak().await.unwrap();
            world.faulty.plan(Verb::ExchangeToken, fault.clone());
            let (client, adopted) = (world.client.clone(), ticket.clone());
            let future: Boxed<'_> = Box::pin(async move { drop(client.adopt(adopted).await) });
            let ended = poll_then_drop(&world, polls, true, future);
            world
                .pass_by(secs(1), secs(60), "the keeper is done", || {
                    world.faulty.let_go();
                    world.keeper() == (0, 0)
                })
                .await;
            let lease = world.client.lease(ticket.names().clone(), ticket.token());
            let _released = lease.release().await.unwrap();
            until(&format!("{fault:?} {polls}"), || !world.is_held("job")).await;
            if ended {
                break;
            }
        }
    }
}

#[test]
fn a_future_that_is_dropped_outside_of_every_runtime_is_cleaned_up_by_the_keeper() {
    let world = World::new();
    world.faulty.plan(Verb::Acquire, Fault::HoldReply);
    let store: FaultyStore<_> = world.faulty.clone();
    let client = Client::with_store(Arc::new(store) as Arc<dyn Store>);
    let mutex = client.mutex("job").ttl(secs(3_600));
    let mut future = Box::pin(async move { drop(mutex.try_lock().await) });
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    assert!(world.is_held("job"));
    drop(future);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(until("it is free", || !world.is_held("job")));
}
