//! Answers that were lost, or came late: what such nodes have is given back, without anybody who
//! waits for it.

use fencelock_store::{
    Fault, Outcome, Verb,
    core::{Acquired, Released, Renewed},
    rt,
};

use crate::world::{World, assert_no_quorum, ms};

/// Two are held by another, and one loses its answer: the lock is busy, and what the third granted
/// unseen is gone. (redisson #1606, redlock-rb #3)
#[tokio::test]
async fn a_grant_that_was_never_seen_is_released_when_the_ballot_is_lost() {
    let world = World::new(5);
    let other = rt::fresh_token();
    world.occupy(0, other).await;
    world.occupy(1, other).await;
    world.nodes[2].plan(Verb::Acquire, Fault::LostReply);
    // Its first release is lost, too.
    world.nodes[2].plan(Verb::Release, Fault::LostRequest);
    let token = rt::fresh_token();
    let (answer, ()) = tokio::join!(world.acquire(token), async {
        assert_eq!(world.held_on(token), [2, 3, 4]);
        world.clock.advance(ms(250));
    });
    let answer = answer.expect("four of five answer");
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    assert_eq!(world.held_on(token), [2], "those that answered are free at once");
    world.until("the third is free", || world.held_on(token).is_empty()).await;
    assert_eq!(world.held_on(other), [0, 1], "nobody else was touched");
}

#[tokio::test]
async fn a_grant_that_comes_after_the_ballot_was_lost_is_released() {
    let world = World::new(5);
    let other = rt::fresh_token();
    for node in 0..3 {
        world.occupy(node, other).await;
    }
    world.nodes[4].plan(Verb::Acquire, Fault::HoldRequest);
    let token = rt::fresh_token();
    let answer = world.acquire(token).await.expect("a majority answers");
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    // The release was there before the request: as on another connection.
    assert_eq!(world.nodes[4].calls(Verb::Release), 1);
    world.nodes[4].let_go();
    let came = || world.nodes[4].calls(Verb::Release) >= 2 && world.held_on(token).is_empty();
    world.until("the late grant is released", came).await;
}

#[tokio::test]
async fn a_grant_that_comes_after_the_lease_was_released_is_released() {
    let world = World::new(5);
    world.nodes[4].plan(Verb::Acquire, Fault::HoldRequest);
    let token = rt::fresh_token();
    world.hold(token).await;
    assert_eq!(world.release(token).await.expect("a majority answers"), Released::Held);
    assert_eq!(world.nodes[4].calls(Verb::Release), 1);
    world.nodes[4].let_go();
    let came = || world.nodes[4].calls(Verb::Release) >= 2 && world.held_on(token).is_empty();
    world.until("the late grant is released", came).await;
}

#[tokio::test]
async fn a_node_that_was_silent_when_the_lease_was_released_is_released_when_it_speaks() {
    let world = World::new(3);
    let token = rt::fresh_token();
    world.hold(token).await;
    world.break_nodes([1], &Fault::LostRequest);
    assert_eq!(world.release(token).await.expect("a majority answers"), Released::Held);
    assert_eq!(world.held_on(token), [1]);
    world.until("it was asked again", || world.nodes[1].calls(Verb::Release) > 1).await;
    world.mend();
    world.until("it is free", || world.held_on(token).is_empty()).await;
}

#[tokio::test]
async fn nobody_knows_whether_a_release_that_a_minority_answers_was_of_a_held_lease() {
    let world = World::new(5);
    let token = rt::fresh_token();
    world.hold(token).await;
    world.break_nodes(0..3, &Fault::LostReply);
    let (result, ()) = tokio::join!(world.release(token), async {
        world.clock.advance(ms(250));
    });
    assert_eq!(assert_no_quorum(result).outcome(), Outcome::Unknown);
    world.mend();
    // Whoever asks again hears it, since nodes remember.
    assert_eq!(world.release(token).await.expect("all answer"), Released::Held);
}

#[tokio::test]
async fn a_release_tells_a_lease_that_ended_from_one_that_was_taken() {
    let world = World::new(5);
    let token = rt::fresh_token();
    assert_eq!(world.release(token).await.expect("all answer"), Released::Expired);
    world.hold(token).await;
    world.clock.advance(ms(30_000));
    assert_eq!(world.release(token).await.expect("all answer"), Released::Expired);
    // A contender that lost a ballot has one of them: nobody was granted the lock.
    world.occupy(0, rt::fresh_token()).await;
    assert_eq!(world.release(token).await.expect("all answer"), Released::Expired);
    let next = rt::fresh_token();
    world.occupy(1, next).await;
    world.occupy(2, next).await;
    assert_eq!(world.release(token).await.expect("all answer"), Released::Taken);
}

/// The lease is gone where it counts, and what the rest has would hold others up.
#[tokio::test]
async fn what_is_left_of_a_lost_lease_is_given_back() {
    let world = World::new(5);
    let token = rt::fresh_token();
    world.hold(token).await;
    for node in 0..3 {
        world.nodes[node].inner().forget();
    }
    let renewed = world.renew(token).await.expect("all answer");
    assert!(matches!(renewed, Renewed::NotHeld(_)), "{renewed:?}");
    world.until("the rest is free", || world.held_on(token).is_empty()).await;
}

#[tokio::test]
async fn a_renewal_that_too_few_answer_is_unknown_and_ends_nothing() {
    let world = World::new(5);
    let token = rt::fresh_token();
    world.hold(token).await;
    world.clock.advance(ms(10_000));
    world.break_nodes(0..2, &Fault::LostRequest);
    world.nodes[2].inner().forget();
    // Two extended, one forgot it, two say nothing: neither yes nor no.
    let (renewed, ()) = tokio::join!(world.renew(token), async {
        world.clock.advance(ms(250));
    });
    assert_eq!(renewed.expect("three answer"), Renewed::Unknown);
    world.mend();
    let renewed = world.renew(token).await.expect("all answer");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
}
