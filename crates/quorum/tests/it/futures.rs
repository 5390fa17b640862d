//! Futures that are dropped, at every poll, and runtimes that end: what is left is found by the
//! release of the token, also where it comes after that.

use fencelock_store::{Fault, Store as _, Verb, core::ReleaseRequest, rt};

use crate::world::{World, name, poll_times, request};

/// More polls than any acquire below needs.
const POLLS: u32 = 12;

/// Which nodes do what to the acquire.
const PLANS: [&[(usize, Fault)]; 4] = [
    &[],
    &[(0, Fault::HoldRequest), (1, Fault::HoldReply)],
    &[(0, Fault::HoldRequest), (1, Fault::HoldRequest), (2, Fault::HoldReply)],
    &[(0, Fault::HoldReply), (1, Fault::HoldReply), (2, Fault::HoldReply)],
];

#[tokio::test]
async fn an_acquire_that_is_dropped_at_any_poll_leaves_nothing_behind_its_release() {
    for plan in PLANS {
        for polls in 0..POLLS {
            let world = World::new(3);
            // A grant just before makes a second round necessary: more places to be dropped at.
            let first = rt::fresh_token();
            world.hold(first).await;
            let _ = world.release(first).await.expect("all answer");
            // Without a poll nothing is sent, and the faults would meet the next one.
            for (node, fault) in plan.iter().filter(|_| polls > 0) {
                world.nodes[*node].plan(Verb::Acquire, fault.clone());
            }
            let asked = request(rt::fresh_token());
            let mut acquire = world.store.acquire(&asked, world.by());
            let ended = poll_times(&mut acquire, polls).await;
            drop(acquire);
            let release = ReleaseRequest::new(name(), asked.token);
            let (released, ()) = tokio::join!(world.store.release(&release, world.by()), async {
                for node in &world.nodes {
                    node.let_go();
                }
            });
            let _ = released.expect("all answer");
            // The calls that were left behind end now,
            for _ in 0..50 {
                rt::yield_now().await;
            }
            // and what they still brought about goes again.
            let what = format!("all is free after {polls} polls ({}) {plan:?}", ended.is_some());
            world.until(&what, || world.held_on(asked.token).is_empty()).await;
            world.hold(rt::fresh_token()).await;
        }
    }
}

#[tokio::test]
async fn a_release_that_is_dropped_goes_on_by_itself() {
    for polls in 1..4 {
        let world = World::new(3);
        let token = rt::fresh_token();
        world.hold(token).await;
        world.break_nodes([0, 1], &Fault::LostRequest);
        let request = ReleaseRequest::new(name(), token);
        let mut release = world.store.release(&request, world.by());
        assert!(poll_times(&mut release, polls).await.is_none());
        drop(release);
        world.mend();
        world.clock.advance(std::time::Duration::from_millis(250));
        world.until("it is free everywhere", || world.held_on(token).is_empty()).await;
    }
}

#[tokio::test]
async fn the_same_request_again_after_a_drop_finds_its_lease() {
    let world = World::new(3);
    world.nodes[0].plan(Verb::Acquire, Fault::HoldReply);
    world.nodes[1].plan(Verb::Acquire, Fault::HoldReply);
    let asked = request(rt::fresh_token());
    let mut acquire = world.store.acquire(&asked, world.by());
    assert!(poll_times(&mut acquire, 2).await.is_none());
    drop(acquire);
    // Dropping takes nothing back: that is up to whoever dropped it.
    let first = world.take(asked.token).await;
    let second = world.take(asked.token).await;
    assert_eq!(first, second);
    for node in &world.nodes {
        node.let_go();
    }
    for _ in 0..50 {
        rt::yield_now().await;
    }
    assert_eq!(world.held_on(asked.token), [0, 1, 2]);
}

/// The runtime that asked is gone before the node answers: the release is sent all the same, by a
/// thread of the store.
#[test]
fn a_runtime_that_ends_leaves_the_rest_to_the_store() {
    let world = World::new(3);
    let other = rt::fresh_token();
    let token = rt::fresh_token();
    rt::block_on(async {
        world.occupy(0, other).await;
        world.occupy(1, other).await;
        world.nodes[2].plan(Verb::Acquire, Fault::LostReply);
        world.nodes[2].plan(Verb::Release, Fault::HoldRequest);
        let answer = world.acquire(token).await.expect("two answer");
        assert!(matches!(answer, fencelock_store::core::Acquired::Busy(_)), "{answer:?}");
        assert_eq!(world.held_on(token), [2]);
    });
    rt::block_on(world.until("the third is free", || world.held_on(token).is_empty()));
}
