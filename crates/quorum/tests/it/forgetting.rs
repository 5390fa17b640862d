//! Nodes that forget: healed while a majority has the lease, and kept out of new grants for as long
//! as an old one may run.

use fencelock_store::{
    Fault, Store as _, StoreErrorKind, Verb,
    core::{
        Acquired, FencingToken, InspectRequest, Inspection, RaiseFenceRequest, Raised, Renewed,
    },
    rt,
};

use crate::world::{World, builder, fenced, ms, name, request};

#[tokio::test]
async fn a_node_that_forgot_the_lease_is_healed_at_the_next_renewal() {
    let world = World::new(3);
    let token = rt::fresh_token();
    let mut asked = request(token);
    asked.metadata = fencelock_store::core::Metadata::new(*b"who=me").expect("short");
    let grant = world.store.acquire(&asked, world.by()).await.expect("all answer");
    let fence = fenced(&crate::world::granted(grant.answer));
    // One after the other forgets; without healing, the second one would end the lease.
    for node in [0, 1, 2, 0] {
        world.clock.advance(ms(10_000));
        world.nodes[node].inner().forget();
        assert_eq!(world.held_on(token).len(), 2);
        let renewed = world.renew(token).await.expect("all answer");
        assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
        world.until("it was healed", || world.held_on(token).len() == 3).await;
        let look = InspectRequest::new(name());
        let seen = world.nodes[node].inner().inspect(&look, world.by()).await.expect("it answers");
        let Inspection::Held(holder) = seen.answer else { panic!("it is held: {seen:?}") };
        assert_eq!(holder.metadata, asked.metadata);
        assert_eq!(holder.fencing_token, Some(fence), "later grants are above it there, too");
    }
}

/// A raise reached two of three; one of these forgets, and the two that are left tell two numbers.
#[tokio::test]
async fn a_node_is_healed_with_the_highest_fencing_token_of_the_lease() {
    let world = World::new(3);
    let token = rt::fresh_token();
    let fence = fenced(&world.take(token).await);
    let above = FencingToken::new(fence.as_u64() + 5).expect("in range");
    let raise = RaiseFenceRequest::new(request(token).names, token, above);
    let raised = world.nodes[1].inner().raise_fence(&raise, world.by()).await.expect("it answers");
    assert_eq!(raised.answer, Raised::Raised);
    world.nodes[2].inner().forget();
    let _ = world.renew(token).await.expect("all answer");
    world.until("it was healed", || world.held_on(token).len() == 3).await;
    let look = InspectRequest::new(name());
    let seen = world.nodes[2].inner().inspect(&look, world.by()).await.expect("it answers");
    let Inspection::Held(holder) = seen.answer else { panic!("it is held: {seen:?}") };
    assert_eq!(holder.fencing_token, Some(above));
}

#[tokio::test]
async fn a_heal_is_not_counted_in_the_verdict_that_it_follows() {
    let world = World::new(3);
    let token = rt::fresh_token();
    world.hold(token).await;
    world.nodes[0].inner().forget();
    world.nodes[1].inner().forget();
    // Both could be healed, and nobody else has them: but somebody may have had them meanwhile.
    let renewed = world.renew(token).await.expect("all answer");
    assert!(matches!(renewed, Renewed::NotHeld(_)), "{renewed:?}");
    assert_eq!(world.nodes[0].calls(Verb::Heal) + world.nodes[1].calls(Verb::Heal), 0);
}

#[tokio::test]
async fn a_node_that_somebody_else_has_is_not_healed_and_hinders_nothing() {
    let world = World::new(3);
    let (token, other) = (rt::fresh_token(), rt::fresh_token());
    world.hold(token).await;
    world.nodes[2].inner().forget();
    world.occupy(2, other).await;
    let renewed = world.renew(token).await.expect("all answer");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    world.until("it was tried", || world.nodes[2].calls(Verb::Heal) == 1).await;
    assert_eq!((world.held_on(token), world.held_on(other)), (vec![0, 1], vec![2]));
}

#[tokio::test]
async fn a_heal_that_comes_after_the_release_is_released() {
    let world = World::new(3);
    let token = rt::fresh_token();
    world.hold(token).await;
    world.nodes[2].inner().forget();
    world.nodes[2].plan(Verb::Heal, Fault::HoldRequest);
    let _ = world.renew(token).await.expect("all answer");
    world.until("the heal is on its way", || world.nodes[2].calls(Verb::Heal) == 1).await;
    let _ = world.release(token).await.expect("all answer");
    let before = world.nodes[2].calls(Verb::Release);
    world.nodes[2].let_go();
    let again = || world.nodes[2].calls(Verb::Release) > before && world.held_on(token).is_empty();
    world.until("what was healed is released", again).await;
}

#[tokio::test]
async fn no_heal_begins_once_the_release_has_begun() {
    let world = World::new(3);
    let token = rt::fresh_token();
    world.hold(token).await;
    world.nodes[2].inner().forget();
    // The renewal is answered by two at once, and by the one that forgot after the release.
    world.nodes[2].plan(Verb::Renew, Fault::HoldReply);
    let _ = world.renew(token).await.expect("a majority answers");
    let _ = world.release(token).await.expect("all answer");
    world.nodes[2].let_go();
    for _ in 0..100 {
        rt::yield_now().await;
    }
    assert_eq!(world.nodes[2].calls(Verb::Heal), 0);
    assert_eq!(world.held_on(token), []);
}

/// `a` holds two of three. One of these restarts empty: were it counted for `b` at once, `b` would
/// have two of three while `a` still counts on its lease.
#[tokio::test]
async fn a_node_that_was_restarted_is_granted_nothing_until_no_old_lease_can_run() {
    let world = World::new(3);
    let other = world.another();
    // The other client has seen all nodes before.
    let _ = other.connect(world.by()).await.expect("all answer");
    world.break_nodes([2], &Fault::Fail(StoreErrorKind::Unavailable));
    let a = rt::fresh_token();
    world.hold(a).await;
    world.mend();
    world.nodes[1].inner().restart();
    let by = || world.by();
    let first = request(rt::fresh_token());
    let answer = other.acquire(&first, by()).await.expect("a majority answers").answer;
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    world.until("nothing is left", || world.held_on(first.token).is_empty()).await;
    // Known by now: it is not even asked.
    let asked = world.nodes[1].calls(Verb::Acquire);
    world.break_nodes([2], &Fault::Fail(StoreErrorKind::Unavailable));
    let error = other.acquire(&request(rt::fresh_token()), by()).await.expect_err("too few");
    assert!(error.to_string().contains("restarted 0s ago, counts again in 6"), "{error}");
    assert_eq!(world.nodes[1].calls(Verb::Acquire), asked);
    world.mend();
    // What it is renewed and healed for is not new.
    let renewed = world.renew(a).await.expect("all answer");
    assert!(matches!(renewed, Renewed::NotHeld(_)), "one of three was left: {renewed:?}");
    world.clock.advance(ms(61_100));
    let answer = other.acquire(&request(rt::fresh_token()), by()).await.expect("all answer").answer;
    let _ = crate::world::granted(answer);
}

/// The counterexample to the case above: it is the quarantine that keeps the two apart.
#[tokio::test]
async fn without_quarantine_a_restarted_node_makes_two_majorities() {
    let world = World::new(3);
    let other = builder(&world.nodes).quarantine(ms(0)).build().expect("it can work");
    let _ = other.connect(world.by()).await.expect("all answer");
    world.break_nodes([2], &Fault::Fail(StoreErrorKind::Unavailable));
    world.hold(rt::fresh_token()).await;
    world.mend();
    world.nodes[1].inner().restart();
    let asked = request(rt::fresh_token());
    let answer = other.acquire(&asked, world.by()).await.expect("all answer").answer;
    let _ = crate::world::granted(answer);
}

/// A node that lost its highest fencing token does not bring smaller ones back: the next follows
/// the clock.
#[tokio::test]
async fn fencing_tokens_grow_though_nodes_forgot_theirs() {
    let world = World::new(3);
    let mut last: Option<FencingToken> = None;
    for round in 0..6 {
        let token = rt::fresh_token();
        let fence = fenced(&world.take(token).await);
        assert!(last < Some(fence), "{last:?} {fence}");
        last = Some(fence);
        let _ = world.release(token).await.expect("all answer");
        world.nodes[round % 3].inner().forget();
        world.clock.advance(ms(1));
    }
}
