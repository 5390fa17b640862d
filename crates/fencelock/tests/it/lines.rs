//! A place in the line whose question, subscription or grant goes wrong on its way.

use fencelock::{
    Attempt, ErrorKind, Released,
    store::{Fault, StoreErrorKind, Verb},
};

use crate::world::{World, millis, secs, take, until};

/// Goal: a wait ends when it should, however long the store takes to listen. Method: the
/// subscription is held up, for the one that makes it and for one that only waits for it; each has
/// less time than a request may take.
#[tokio::test]
async fn a_wait_ends_in_time_while_the_subscription_hangs() {
    const WAIT: u64 = 400;
    for (what, first_waits) in [("alone", None), ("behind another", Some(secs(3_600)))] {
        let world = World::reached().await;
        let token = world.taken_by_another("job");
        world.faulty.plan(Verb::Listen, Fault::HoldRequest);
        let mutex = world.mutex("job").strict_fifo();
        let first = first_waits.map(|wait| {
            let mutex = mutex.clone().wait(wait);
            tokio::spawn(async move { mutex.lock().await.map(drop) })
        });
        let before = u32::from(first.is_some());
        if first.is_some() {
            until("it subscribes", || world.faulty.calls(Verb::Listen) == 1).await;
        }
        let waiter = tokio::spawn(async move { mutex.wait(millis(WAIT)).lock().await.map(drop) });
        until("it has a place", || world.waiting("job") == before + 1).await;
        until("it subscribes", || world.faulty.calls(Verb::Listen) == 1).await;
        world.clock.advance(millis(WAIT - 1));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert!(!waiter.is_finished(), "{what}: it has a millisecond left");
        world.clock.advance(millis(2));
        until(&format!("it ends, {what}"), || waiter.is_finished()).await;
        let error = waiter.await.unwrap().unwrap_err();
        assert!(error.is_wait_expired(), "{what}: {error}");
        until("its place is given up", || world.waiting("job") == before).await;
        assert_eq!(world.holder_token("job"), Some(token.to_hex().to_vec()), "{what}");
        if let Some(first) = first {
            first.abort();
            assert!(first.await.unwrap_err().is_cancelled());
        }
        world.faulty.let_go();
        until("nothing is left", || world.waiting("job") == 0 && world.keeper() == (0, 0)).await;
        assert_eq!(world.routes(), 0, "{what}");
    }
}

/// Goal: a waiter that does not know of its place and gives up leaves none. Method: the question for
/// the place, or the first one again, gets lost before or behind the store.
#[tokio::test]
async fn a_place_whose_answer_was_lost_goes_with_its_waiter() {
    let lost = [
        Fault::LostReply,
        Fault::LostRequest,
        Fault::HoldReply,
        Fault::Fail(StoreErrorKind::Unavailable),
    ];
    for fault in lost {
        for question in 1..=2 {
            let what = format!("{fault:?} of question {question}");
            let world = World::reached().await;
            let other = world.other();
            let guard = take(other.mutex("job").ttl(secs(3_600))).await;
            if question == 2 {
                world.faulty.plan(Verb::Acquire, Fault::Pass);
            }
            // Nothing is answered any more until it has given up.
            for _ in 0..100 {
                world.faulty.plan(Verb::Acquire, fault.clone());
            }
            let mutex = world.mutex("job").wait(millis(700)).ttl(secs(3_600));
            let waiter = tokio::spawn(async move { mutex.lock().await.map(drop) });
            let at_the_store =
                question == 2 || !matches!(fault, Fault::LostRequest | Fault::Fail(_));
            if at_the_store {
                until(&what, || world.waiting("job") == 1).await;
            }
            world.pass_by(millis(50), secs(5), &what, || waiter.is_finished()).await;
            let error = waiter.await.unwrap().unwrap_err();
            let kinds = [ErrorKind::WaitExpired, ErrorKind::Unknown, ErrorKind::Unavailable];
            assert!(kinds.contains(&error.kind()), "{what}: {error}");
            world.faulty.let_go();
            until(&what, || world.waiting("job") == 0).await;
            // The keeper goes on until no copy of the question can arrive any more.
            world.pass_by(millis(50), secs(10), &what, || world.keeper() == (0, 0)).await;
            assert_eq!(guard.release().await, Released::Held, "{what}");
            assert!(!world.is_held("job"), "{what}: it was handed to nobody");
            take(other.mutex("job")).await.release().await;
        }
    }
}

/// Goal: what was granted by a message is held like any other lease. Method: for five ttls others
/// try again and again, and another one waits behind it.
#[tokio::test]
async fn a_lease_that_was_granted_by_a_message_stays_exclusive_for_five_ttls() {
    const TTL: u64 = 9;
    let world = World::reached().await;
    let other = world.other();
    let guard = take(other.mutex("job").ttl(secs(TTL))).await;
    let mutex = world.mutex("job").ttl(secs(TTL));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it listens", || world.listens("job")).await;
    let asked = world.faulty.calls(Verb::Acquire);
    guard.release().await;
    let held = waiter.await.unwrap().unwrap();
    assert_eq!(world.faulty.calls(Verb::Acquire), asked, "the message was enough");
    let behind = tokio::spawn({
        let mutex = other.mutex("job").ttl(secs(TTL));
        async move { mutex.lock().await }
    });
    until("another one waits", || world.waiting("job") == 1).await;
    world.clock.advance(millis(60));
    until("the claim is prolonged", || held.validity_left() > secs(TTL - 1)).await;
    let end = world.clock.now().saturating_add(secs(5 * TTL));
    while world.clock.now() < end {
        world.clock.advance(millis(20));
        assert!(held.is_valid(), "{held:?}");
        match other.mutex("job").try_lock().await.unwrap() {
            Attempt::Busy(busy) => assert_eq!(busy.holder.fencing_token, held.fencing_token()),
            Attempt::Granted(guard) => panic!("two hold it: {guard:?} and {held:?}"),
        }
        // No renewal is sent in the last second of a lease: the clock stands still until one is.
        until("it is renewed", || held.validity_left() > secs(2)).await;
    }
    assert!(!behind.is_finished());
    let renewals = world.faulty.calls(Verb::Renew);
    assert!((5..=40).contains(&renewals), "{renewals} renewals");
    assert_eq!(held.release().await, Released::Held);
    behind.await.unwrap().unwrap().release().await;
}
