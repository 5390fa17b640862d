//! Kind LOSS: the holder knows that the lock is lost before anybody else can have it.

use std::sync::Arc;

use fencelock::{
    Client, LeaseState, LossReason, Moment, Released, Renew, Store,
    store::{Fault, FaultyStore, StoreErrorKind, Verb},
};

use crate::{
    told,
    warped::Warped,
    world::{World, millis, now, secs, take, until},
};

#[tokio::test]
async fn loss_is_told_by_a_timer_while_the_store_is_silent() {
    let world = World::new();
    let guard = Arc::new(take(world.mutex("job").ttl(secs(3))).await);
    world.faulty.plan_for_all(Some(Fault::HoldRequest));
    let listener = Arc::clone(&guard);
    let told = tokio::spawn(async move { listener.lost().await });
    world.clock.advance(guard.validity_left());
    assert_eq!(told.await.unwrap(), LossReason::Expired);
    assert!(world.is_held("job"), "nobody else can have it yet");
}

#[tokio::test]
async fn after_a_pause_of_the_process_the_first_look_says_lost() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(3)).renewal(Renew::Manual)).await;
    let held = guard.validity_left();
    world.clock.advance(secs(9));
    // No thread but this one needs to have run since.
    assert!(!guard.is_valid());
    assert_eq!(guard.validity_left(), std::time::Duration::ZERO);
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::Expired));
    assert!(held < secs(3));
    assert_eq!(guard.release().await, Released::Expired);
}

#[tokio::test]
async fn validity_counts_from_the_sending_and_a_late_answer_is_not_taken() {
    let world = World::new();
    world.faulty.plan(Verb::Acquire, Fault::HoldReply);
    let mutex = world.mutex("job").ttl(secs(1));
    let attempt = tokio::spawn(async move { mutex.try_lock().await });
    until("it is granted at the store", || world.is_held("job")).await;
    world.clock.advance(millis(900));
    world.faulty.let_go();
    let error = attempt.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), fencelock::ErrorKind::TooLate, "{error}");
    until("it is given back", || !world.is_held("job")).await;

    // With 100 ms more it is taken, for what is left.
    world.faulty.plan(Verb::Acquire, Fault::HoldReply);
    let mutex = world.mutex("job").ttl(secs(1)).renewal(Renew::Manual);
    let attempt = tokio::spawn(async move { mutex.try_lock().await });
    until("it is granted at the store", || world.is_held("job")).await;
    world.clock.advance(millis(800));
    world.faulty.let_go();
    let guard = attempt.await.unwrap().unwrap().granted().unwrap();
    assert!(guard.validity_left() < millis(190), "{guard:?}");
    assert!(guard.validity_left() < world.left("job"));
}

#[tokio::test]
async fn a_waiting_caller_tries_again_when_an_answer_came_too_late() {
    let world = World::new();
    world.faulty.plan(Verb::Acquire, Fault::HoldReply);
    let mutex = world.mutex("job").ttl(secs(1)).wait(secs(30));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it is granted at the store", || world.is_held("job")).await;
    world.clock.advance(millis(900));
    world.faulty.let_go();
    world.pass_until(secs(20), "it is granted in time", || waiter.is_finished()).await;
    assert!(waiter.await.unwrap().unwrap().is_valid());
}

#[tokio::test]
async fn a_step_of_the_stores_clock_past_the_rest_of_a_lease_is_a_loss() {
    let world = World::new();
    let warped = Warped::new(world.memory.clone());
    let client = Client::with_store(Arc::new(warped.clone()) as Arc<dyn Store>);
    let short = take(client.mutex("short").ttl(secs(10)).renewal(Renew::Manual)).await;
    let long = take(client.mutex("long").ttl(secs(100)).renewal(Renew::Manual)).await;
    let (before, left) = (long.deadline(), long.validity_left());
    world.clock.advance(millis(10));
    warped.step_forward(secs(31));
    // Any answer tells it.
    client.inspect("other").await.unwrap();
    assert_eq!(now(short.lost()), Some(LossReason::ClockStep));
    assert!(long.is_valid());
    assert!(before.saturating_since(long.deadline()) > secs(30), "it ends that much earlier");
    assert!(long.validity_left() > left - secs(33));
}

/// Goal: a renewal that was carried out before a step of the store's clock, and is answered after
/// the step was noticed, does not count as if it had been carried out after it. Method: its answer
/// is held while another one tells the step.
#[tokio::test]
async fn a_renewal_from_before_a_step_of_the_clock_does_not_hide_it() {
    let world = World::new();
    let warped = Warped::new(world.memory.clone());
    let faulty = FaultyStore::new(warped.clone());
    let client = Client::with_store(Arc::new(faulty.clone()) as Arc<dyn Store>);
    let guard = take(client.mutex("job").ttl(secs(60))).await;
    faulty.plan(Verb::Renew, Fault::HoldReply);
    world.clock.advance(secs(20));
    until("it is renewed at the store", || world.left("job") == secs(60)).await;
    world.clock.advance(millis(1));
    warped.step_forward(secs(30));
    client.inspect("other").await.unwrap();
    // 40 s were left on the holder's clock, and 30 s of the store's are gone.
    let stepped = guard.validity_left();
    assert!(stepped < secs(10), "{stepped:?}");
    // All that comes later fails, so that only the held answer can lengthen it.
    faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    let deadline = guard.deadline();
    faulty.let_go();
    assert!(guard.deadline_changed(deadline).await > deadline, "it counts for the rest");
    assert!(guard.validity_left() < secs(30), "{guard:?}");
    faulty.plan_for_all(None);
    world.clock.advance(secs(10));
    until("it is renewed", || guard.validity_left() > secs(50)).await;
    assert_eq!(guard.release().await, Released::Held);
}

/// Goal: leaving a lock while its renewal is on its way is no loss. Method: the renewal reaches the
/// store when that knows another token already, and the answer to the exchange comes after that.
#[tokio::test]
async fn a_renewal_that_finds_the_token_exchanged_is_no_loss() {
    told::listen();
    let world = World::new();
    let warped = Warped::new(world.memory.clone()).with_binding();
    let near = FaultyStore::new(warped.clone());
    let far = FaultyStore::new(near.clone());
    let client = Client::with_store(Arc::new(far.clone()) as Arc<dyn Store>);
    let guard = take(client.mutex("loss:left").ttl(secs(60))).await;
    near.plan(Verb::Renew, Fault::HoldRequest);
    far.plan(Verb::ExchangeToken, Fault::HoldReply);
    world.clock.advance(secs(20));
    until("the renewal is sent", || near.calls(Verb::Renew) == 1).await;
    let leak = tokio::spawn(guard.leak());
    until("the token is exchanged", || world.left("loss:left") == secs(60)).await;
    near.let_go();
    until("the renewal was refused", || warped.renewals().len() == 1).await;
    // So that its answer has been looked at.
    let probe = take(client.mutex("probe").ttl(secs(1))).await;
    let before = probe.deadline();
    world.clock.advance(millis(334));
    until("another is renewed", || probe.deadline() > before).await;
    far.let_go();
    assert_eq!(leak.await.unwrap().unwrap().names().to_string(), "loss:left");
    assert!(world.is_held("loss:left"));
    assert_eq!(told::losses("loss:left"), 0);
}

#[tokio::test]
async fn the_end_of_a_lease_says_taken_to_its_waiters_and_listeners_once() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9))).await;
    let deadline = guard.deadline();
    assert!(now(guard.deadline_changed(deadline)).is_none());
    world.delete("job");
    world.taken_by_another("job");
    world.clock.advance(secs(3));
    assert_eq!(guard.deadline_changed(deadline).await, Moment::START);
    for _ in 0..2 {
        assert_eq!(guard.lost().await, LossReason::Taken);
    }
    assert_eq!(guard.release().await, Released::Taken);
}

#[tokio::test]
async fn what_is_left_of_a_lost_set_is_given_back() {
    let world = World::new();
    let guard = take(world.client.mutexes(["a", "b", "c"]).ttl(secs(9))).await;
    world.delete("b");
    world.clock.advance(secs(3));
    assert_eq!(guard.lost().await, LossReason::Disappeared);
    until("the rest is free", || !world.is_held("a") && !world.is_held("c")).await;
}

#[tokio::test]
async fn closing_the_client_ends_all_leases_and_gives_them_back() {
    let world = World::new();
    let guard = take(world.mutex("job")).await;
    let mutex = world.mutex("other");
    world.client.clone().close().await;
    assert_eq!(now(guard.lost()), Some(LossReason::Closed));
    assert!(!guard.is_valid());
    assert!(!world.is_held("job"));
    let error = mutex.lock().await.unwrap_err();
    assert!(error.is_closed(), "{error}");
    assert!(world.client.inspect("job").await.unwrap_err().is_closed());
    assert_ne!(guard.release().await, Released::Held);
}
