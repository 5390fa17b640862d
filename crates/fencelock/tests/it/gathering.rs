//! Latches and barriers, on a clock that a test moves: what is forgotten, who is counted, faults.

use std::sync::Arc;

use fencelock::{
    Barrier, BarrierPass, Wait,
    store::{Fault, Verb},
};
use tokio::task::JoinHandle;

use crate::world::{World, millis, secs, until};

fn enter(barrier: Barrier) -> JoinHandle<Result<BarrierPass, fencelock::Error>> {
    tokio::spawn(async move { barrier.wait().await })
}

#[tokio::test]
async fn a_latch_is_forgotten_after_its_ttl_since_the_last_step() {
    let world = World::reached().await;
    let latch = world.client.latch("ready", 3).ttl(secs(60));
    latch.count_down_as("a").await.unwrap();
    world.clock.advance(secs(59));
    latch.count_down_as("b").await.unwrap();
    world.clock.advance(secs(59));
    assert_eq!(latch.remaining().await.unwrap(), 1, "the second step prolonged the first");
    assert_eq!(world.keeper(), (0, 0), "nobody renews it");
    world.clock.advance(secs(2));
    assert_eq!(latch.remaining().await.unwrap(), 3);
    assert!(!world.is_held("ready"));
    // Another use of the name.
    latch.count_down_as("a").await.unwrap();
    assert_eq!(latch.remaining().await.unwrap(), 2);
}

#[tokio::test]
async fn a_step_whose_answer_is_lost_counts_once() {
    for fault in [Fault::LostReply, Fault::LostRequest] {
        let world = World::reached().await;
        for _ in 0..2 {
            world.faulty.plan(Verb::Acquire, fault.clone());
        }
        let latch = world.client.latch("ready", 3);
        let step = tokio::spawn(async move { latch.count_down().await });
        world.pass_by(millis(5), secs(30), "it ends", || step.is_finished()).await;
        step.await.unwrap().unwrap();
        assert_eq!(world.client.latch("ready", 3).remaining().await.unwrap(), 2, "{fault:?}");
        assert_eq!(world.faulty.calls(Verb::Release), 0, "a step is not taken back");
    }
}

#[tokio::test]
async fn a_step_that_is_dropped_on_the_way_is_not_taken_back() {
    let world = World::reached().await;
    world.faulty.plan(Verb::Acquire, Fault::HoldReply);
    let latch = world.client.latch("ready", 1);
    {
        let mut step = Box::pin(latch.count_down_as("a"));
        assert!(crate::world::now(step.as_mut()).is_none());
    }
    assert_eq!(latch.remaining().await.unwrap(), 0);
    latch.count_down_as("a").await.unwrap();
    latch.wait().await.unwrap();
    until("the keeper has nothing to do", || world.keeper() == (0, 0)).await;
    assert_eq!(latch.remaining().await.unwrap(), 0);
}

#[tokio::test]
async fn a_latch_has_one_step_to_as_many_as_can_be_held_together() {
    let world = World::reached().await;
    for count in [0, fencelock::Latch::MAX_COUNT + 1] {
        let error = world.client.latch("ready", count).wait().await.unwrap_err();
        assert!(error.is_config(), "{error}");
        let error = world.client.barrier("step", count).wait().await.unwrap_err();
        assert!(error.is_config(), "{error}");
    }
    let latch = world.client.latch("ready", fencelock::Latch::MAX_COUNT);
    for step in 0..fencelock::Latch::MAX_COUNT {
        assert_eq!(latch.remaining().await.unwrap(), fencelock::Latch::MAX_COUNT - step);
        latch.count_down().await.unwrap();
    }
    latch.wait().await.unwrap();
    let pass = world.client.barrier("alone", 1).wait().await.unwrap();
    assert!(pass.is_leader());
}

#[tokio::test]
async fn a_party_that_gave_up_is_not_counted() {
    let world = World::reached().await;
    let barrier = world.client.barrier("step", 2);
    let dropped = enter(barrier.clone());
    until("it waits", || world.waiting("step") == 1).await;
    dropped.abort();
    until("it is gone", || world.waiting("step") == 0).await;
    let expired = enter(barrier.clone().wait_limit(secs(2)));
    until("it waits", || world.waiting("step") == 1).await;
    world.pass_by(millis(100), secs(10), "it ends", || expired.is_finished()).await;
    let error = expired.await.unwrap().unwrap_err();
    assert!(error.is_wait_expired() && error.to_string().contains("2 parties"), "{error}");
    until("it is gone", || world.waiting("step") == 0).await;
    let alone = barrier.clone().wait_limit(Wait::Never).wait().await.unwrap_err();
    assert!(alone.is_wait_expired(), "{alone}");
    let first = enter(barrier.clone());
    until("it waits", || world.waiting("step") == 1).await;
    let last = barrier.wait().await.unwrap();
    let first = first.await.unwrap().unwrap();
    assert!(last.is_leader() && !first.is_leader());
    assert_eq!(first.number(), last.number());
    let none = || world.keeper() == (0, 0) && !world.is_held("step");
    world.pass_by(secs(1), secs(60), "nothing is left", none).await;
}

#[tokio::test]
async fn one_of_a_meeting_leads_however_short_its_ttl_is_and_however_late_it_comes() {
    let world = World::reached().await;
    for ttl in [millis(999), secs(10), secs(59), secs(600)] {
        let barrier = world.client.barrier("step", 2).ttl(ttl);
        let first = enter(barrier.clone());
        // Its place lasts longest once it can be told.
        until("it waits and listens", || world.listens("step")).await;
        let last = barrier.wait().await.unwrap();
        let first = first.await.unwrap().unwrap();
        assert!(last.is_leader() && !first.is_leader(), "{ttl:?}");
    }
}

/// Goal: no party hangs and there is one leader, whatever answer is lost. Method: the answers to the
/// party that comes last are lost; and the messages to the one that waited, whose heart-beat then
/// finds out.
#[tokio::test]
async fn a_lost_answer_or_message_keeps_nobody_at_a_barrier() {
    for fault in [Fault::LostReply, Fault::LostRequest] {
        let world = World::reached().await;
        let other = world.other();
        let first = enter(other.barrier("step", 2));
        until("it waits", || world.waiting("step") == 1).await;
        world.faulty.plan(Verb::Acquire, fault.clone());
        let last = enter(world.client.barrier("step", 2));
        world
            .pass_by(millis(5), secs(60), "it ends", || last.is_finished() && first.is_finished())
            .await;
        let (first, last) = (first.await.unwrap().unwrap(), last.await.unwrap().unwrap());
        assert!(last.is_leader() && !first.is_leader(), "{fault:?}");
        assert_eq!(first.number(), last.number(), "{fault:?}");
    }
    let world = World::reached().await;
    let first = enter(world.client.barrier("step", 2));
    until("it waits", || world.waiting("step") == 1).await;
    // Somebody whose question the first never hears the outcome of: its messages go elsewhere.
    let (line, now) = (world.memory.clone(), world.memory.store_now());
    let token = fencelock::store::rt::fresh_token();
    let names = fencelock::store::core::Names::one(crate::world::name("step"));
    let ttl = fencelock::Ttl::new(secs(60)).unwrap();
    let mut last = fencelock::store::core::AcquireRequest::new(names, token, ttl);
    last.mode = fencelock::store::core::Mode::Meeting { parties: 2 };
    let answer = line.with_table(|table| {
        let answer = table.acquire(&last, now);
        let _lost = table.take_mail();
        answer
    });
    assert!(matches!(answer, fencelock::store::core::Acquired::Granted(_)), "{answer:?}");
    world.pass_by(millis(500), secs(29), "its heart-beat finds out", || first.is_finished()).await;
    assert!(!first.await.unwrap().unwrap().is_leader());
}

#[tokio::test]
async fn a_waiter_at_a_latch_leaves_nothing_behind() {
    let world = World::reached().await;
    let latch = Arc::new(world.client.latch("ready", 1));
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let latch = Arc::clone(&latch);
            tokio::spawn(async move { latch.wait().await })
        })
        .collect();
    until("all wait", || world.waiting("ready") == 20).await;
    waiting[0].abort();
    until("one is gone", || world.waiting("ready") == 19).await;
    // What was dropped in the middle of a question is given back until that comes too late.
    world.pass_by(secs(1), secs(60), "it is done with", || world.keeper() == (0, 0)).await;
    let releases = world.faulty.calls(Verb::Release);
    latch.count_down().await.unwrap();
    for waiting in waiting.into_iter().skip(1) {
        waiting.await.unwrap().unwrap();
    }
    assert_eq!((world.waiting("ready"), world.routes()), (0, 0));
    until("the keeper has nothing to do", || world.keeper() == (0, 0)).await;
    assert_eq!(world.faulty.calls(Verb::Release), releases, "there is nothing to give back");
}
