//! Kind AMBIG: nobody knows whether a request was carried out.

use std::sync::Arc;

use fencelock::{
    Client, ErrorKind, Released, Store,
    store::{Fault, StoreErrorKind, Verb, core::Acquired},
};

use crate::{
    warped::Warped,
    world::{World, millis, secs, take, until},
};

#[tokio::test]
async fn a_lost_reply_is_asked_for_again_with_the_same_token() {
    let world = World::reached().await;
    world.faulty.plan(Verb::Acquire, Fault::LostReply);
    let mutex = world.mutex("job").wait(secs(30));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it is granted at the store", || world.is_held("job")).await;
    let token = world.holder_token("job");
    world.pass_until(secs(10), "the grant is known", || waiter.is_finished()).await;
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(world.holder_token("job"), token, "nothing was acquired anew");
    assert!(guard.validity_left() < world.left("job"));
    assert_eq!(guard.release().await, Released::Held);
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn an_unknown_acquire_is_told_and_taken_back() {
    let world = World::reached().await;
    world.faulty.plan(Verb::Acquire, Fault::LostReply);
    let mutex = world.mutex("job").ttl(secs(3_600));
    let attempt = tokio::spawn(async move { mutex.try_lock().await });
    world.pass_until(secs(10), "the try ends", || attempt.is_finished()).await;
    let error = attempt.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    world.pass_until(secs(10), "it is free", || !world.is_held("job")).await;
    until("the keeper is done", || world.keeper() == (0, 0)).await;
}

#[tokio::test]
async fn the_clean_up_goes_on_until_the_store_answers_again() {
    let world = World::reached().await;
    world.faulty.plan_for_all(Some(Fault::LostReply));
    let mutex = world.mutex("job").ttl(secs(3_600));
    world.faulty.plan(Verb::Release, Fault::LostRequest);
    world.faulty.plan(Verb::Release, Fault::LostRequest);
    let attempt = tokio::spawn(async move { mutex.try_lock().await });
    world.pass_until(secs(10), "the try ends", || attempt.is_finished()).await;
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    for _ in 0..100 {
        world.clock.advance(millis(100));
        tokio::task::yield_now().await;
    }
    assert!(world.is_held("job"));
    world.faulty.plan_for_all(None);
    world.pass_until(secs(2), "it is free soon after", || !world.is_held("job")).await;
}

/// Goal: a request that arrives after everybody gave up leaves nothing behind. Method: it is held
/// on the way, and arrives before its deadline and after it.
#[tokio::test]
async fn a_late_acquire_leaves_no_orphan() {
    for (late_by, granted) in [(millis(0), true), (secs(5), false)] {
        let world = World::new();
        let warped = Warped::new(world.memory.clone());
        let client = Client::with_store(Arc::new(warped.clone()) as Arc<dyn Store>);
        client.connect_now().await.unwrap();
        warped.delay_acquires();
        let mutex = client.mutex("job").ttl(secs(3_600));
        let attempt = tokio::spawn(async move { mutex.try_lock().await });
        world.pass_until(secs(3), "the try ends", || attempt.is_finished()).await;
        assert_eq!(attempt.await.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
        let requests = warped.arriving();
        assert_eq!(requests.len(), 1);
        let deadline = requests[0].deadline.expect("the offset is known");
        // The release of the clean-up was there first.
        let mut now = world.memory.store_now();
        now.lease = deadline.saturating_add(late_by);
        let answer = world.memory.with_table(|table| table.acquire(&requests[0], now));
        assert_eq!(matches!(answer, Acquired::Granted(_)), granted, "{answer:?}");
        world.pass_until(secs(10), "it is free", || !world.is_held("job")).await;
    }
}

#[tokio::test]
async fn a_new_attempt_after_an_uncertain_one_does_not_wait_for_itself() {
    let world = World::reached().await;
    world.faulty.plan(Verb::Acquire, Fault::LostReply);
    let mutex = world.mutex("job").ttl(secs(3_600));
    let first = mutex.clone();
    let attempt = tokio::spawn(async move { first.try_lock().await });
    world.pass_until(secs(10), "the try ends", || attempt.is_finished()).await;
    let second = mutex.wait(secs(60));
    let waiter = tokio::spawn(async move { second.lock().await });
    world.pass_until(secs(20), "it is granted", || waiter.is_finished()).await;
    assert!(waiter.await.unwrap().unwrap().is_valid());
}

#[tokio::test]
async fn a_release_is_repeated_and_knows_its_own_trace() {
    for fault in [
        Fault::LostRequest,
        Fault::LostReply,
        Fault::Fail(StoreErrorKind::Unavailable),
        Fault::HoldRequest,
        Fault::HoldReply,
    ] {
        let world = World::new();
        let guard = take(world.mutex("job")).await;
        world.faulty.plan(Verb::Release, fault.clone());
        let release = tokio::spawn(guard.release());
        world.pass_until(secs(5), "it ends", || release.is_finished()).await;
        assert_eq!(release.await.unwrap(), Released::Held, "{fault:?}");
        assert!(!world.is_held("job"));
    }
}

#[tokio::test]
async fn a_release_whose_reply_was_lost_is_not_called_taken() {
    let world = World::new();
    let guard = take(world.mutex("job")).await;
    world.faulty.plan(Verb::Release, Fault::LostReply);
    let release = tokio::spawn(guard.release());
    until("it is free", || !world.is_held("job")).await;
    world.taken_by_another("job");
    world.pass_until(secs(5), "it ends", || release.is_finished()).await;
    assert_eq!(release.await.unwrap(), Released::Unknown);
    assert!(world.is_held("job"));
}

#[tokio::test]
async fn a_repeated_release_of_an_evicted_record_is_unknown() {
    let world = World::new();
    let guard = take(world.mutex("job")).await;
    world.faulty.plan(Verb::Release, Fault::LostReply);
    let release = tokio::spawn(guard.release());
    until("it is free", || !world.is_held("job")).await;
    // The record is evicted before the second try.
    world.delete("job");
    world.pass_until(secs(5), "it ends", || release.is_finished()).await;
    assert_eq!(release.await.unwrap(), Released::Unknown);
}

#[tokio::test]
async fn a_release_that_is_never_answered_is_unknown_and_nothing_renews_it() {
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Denied, StoreErrorKind::Protocol] {
        let world = World::new();
        let guard = take(world.mutex("job").ttl(secs(9))).await;
        world.faulty.plan_for_all(Some(Fault::Fail(kind)));
        let release = tokio::spawn(guard.release());
        world.pass_until(secs(5), "it ends", || release.is_finished()).await;
        assert_eq!(release.await.unwrap(), Released::Unknown);
        assert_eq!(world.keeper().0, 0, "nothing is renewed");
        world.faulty.plan_for_all(None);
        world.pass_until(secs(2), "the keeper gave it back", || !world.is_held("job")).await;
    }
}
