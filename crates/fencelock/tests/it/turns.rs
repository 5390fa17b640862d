//! Whose turn it is in the line of a process, when a lease ends in another way than by a release.

use fencelock::{
    Renew,
    store::{Fault, Verb},
};

use crate::world::{World, millis, secs, until};

/// Goal: a guard whose lease is over is in nobody's way, as with a holder in another process.
/// Method: it is kept, while another task of the same client waits.
#[tokio::test]
async fn a_lost_guard_that_is_kept_does_not_keep_the_turn() {
    let world = World::reached().await;
    let kept = world.mutex("job").ttl(secs(9)).renewal(Renew::Manual).lock().await.unwrap();
    let mutex = world.mutex("job").ttl(secs(9));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    tokio::task::yield_now().await;
    world.pass_by(secs(1), secs(30), "the next has it", || waiter.is_finished()).await;
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fencing_token() > kept.fencing_token());
    assert!(!kept.is_valid() && next.is_valid());
    drop(kept);
    assert!(next.is_valid());
    next.release().await;
    until("nothing is left", || world.keeper() == (0, 0) && !world.is_held("job")).await;
}

/// Goal: what was to be left behind is never passed on. Method: the last renewal is carried out and
/// its answer lost, while another task waits.
#[tokio::test]
async fn a_lease_that_could_not_be_leaked_is_not_passed_on() {
    let world = World::reached().await;
    let guard = world.mutex("job").ttl(secs(9)).lock().await.unwrap();
    let token = guard.token_hash();
    let mutex = world.mutex("job").ttl(secs(9));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("the range is there", || world.faulty.calls(Verb::Renew) == 1).await;
    tokio::task::yield_now().await;
    world.faulty.plan(Verb::Renew, Fault::LostReply);
    let leak = tokio::spawn(guard.leak());
    world.pass_by(millis(100), secs(5), "it failed", || leak.is_finished()).await;
    leak.await.unwrap().unwrap_err();
    world.pass_by(millis(10), secs(5), "the next has it", || waiter.is_finished()).await;
    let next = waiter.await.unwrap().unwrap();
    assert_ne!(next.token_hash(), token, "it is a lease of its own");
    let before = next.deadline();
    // In small steps: it may have been handed over for a short claim.
    world.pass_by(millis(20), secs(9), "it is renewed", || next.deadline() > before).await;
    next.release().await;
}

/// Goal: that somebody waits here is no reason to prolong a lease that nobody shall renew.
#[tokio::test]
async fn who_joins_the_line_renews_no_lease_that_its_holder_renews_itself() {
    let world = World::reached().await;
    let guard = world.mutex("job").ttl(secs(9)).renewal(Renew::Manual).lock().await.unwrap();
    let before = guard.deadline();
    world.clock.advance(secs(2));
    let mutex = world.mutex("job").ttl(secs(9)).renewal(Renew::Manual);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.deadline(), before);
    assert_eq!(world.faulty.calls(Verb::Renew), 0);
    waiter.abort();
    guard.release().await;
}

/// The same for a holder that got stuck.
#[tokio::test]
async fn who_joins_the_line_renews_no_lease_whose_holder_is_stuck() {
    let world = World::reached().await;
    let guard = world.mutex("job").ttl(secs(9)).progress_within(secs(1)).lock().await.unwrap();
    let before = guard.deadline();
    world.clock.advance(secs(2));
    let mutex = world.mutex("job").ttl(secs(9)).progress_within(secs(1));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.deadline(), before);
    waiter.abort();
    guard.release().await;
}

/// Goal: whoever takes a lock without renewal has its whole ttl, also from a task of this process.
#[tokio::test]
async fn a_lease_that_nobody_renews_is_whole_for_the_next_task_too() {
    let world = World::reached().await;
    let guard = world.mutex("job").ttl(secs(9)).renewal(Renew::Manual).lock().await.unwrap();
    let mutex = world.mutex("job").ttl(secs(9)).renewal(Renew::Manual);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    world.clock.advance(secs(4));
    guard.release().await;
    let next = waiter.await.unwrap().unwrap();
    assert!(next.validity_left() > secs(8), "{next:?}");
    next.release().await;
}
