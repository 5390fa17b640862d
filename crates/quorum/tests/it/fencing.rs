//! One fencing token for all nodes: unique, and larger than those of all earlier grants, whoever of
//! the nodes was slow, away, or has another clock.

use std::sync::Arc;

use fencelock_quorum::QuorumStore;
use fencelock_store::{
    Fault, ManualClock, MemoryStore, Store, StoreErrorKind, Verb,
    core::{FencingToken, Released},
    rt,
};

use crate::world::{World, fenced, granted, ms, request};

/// The run that breaks "each node counts, the client takes the highest": one slow node each time.
#[tokio::test]
async fn one_slow_node_each_time_does_not_make_two_equal_tokens() {
    let world = World::new(3);
    let mut last: Option<FencingToken> = None;
    for slow in [2, 0, 1, 2, 1, 0, 0, 1, 2] {
        world.nodes[slow].plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
        let token = rt::fresh_token();
        let fence = fenced(&world.take(token).await);
        // The clock stands still: only what the nodes remember makes it larger.
        assert!(last < Some(fence), "{last:?} {fence}");
        last = Some(fence);
        assert_eq!(world.release(token).await.expect("two answer"), Released::Held);
        world.mend();
    }
}

#[tokio::test]
async fn a_fresh_number_costs_no_second_round_and_an_old_one_costs_one() {
    let world = World::new(3);
    let raises = || world.nodes.iter().map(|node| node.calls(Verb::RaiseFence)).sum::<u64>();
    let first = rt::fresh_token();
    world.hold(first).await;
    let _ = world.release(first).await.expect("all answer");
    assert_eq!(raises(), 0);
    // In the same microsecond the nodes have that number already.
    let second = rt::fresh_token();
    world.hold(second).await;
    let _ = world.release(second).await.expect("all answer");
    assert_eq!(raises(), 3);
    world.clock.advance(ms(1));
    world.hold(rt::fresh_token()).await;
    assert_eq!(raises(), 3);
}

#[tokio::test]
async fn a_number_that_no_majority_accepts_is_no_grant_and_leaves_nothing() {
    let world = World::new(3);
    let first = rt::fresh_token();
    world.hold(first).await;
    let _ = world.release(first).await.expect("all answer");
    for node in &world.nodes[..2] {
        node.plan(Verb::RaiseFence, Fault::LostRequest);
    }
    let token = rt::fresh_token();
    let (result, ()) = tokio::join!(world.acquire(token), async {
        world.clock.advance(ms(250));
    });
    crate::world::assert_no_quorum(result);
    assert_eq!(world.held_on(token), []);
}

#[tokio::test]
async fn nodes_whose_clocks_differ_by_seconds_agree_on_growing_numbers() {
    let clocks: Vec<_> = (0..3).map(|_| ManualClock::new()).collect();
    clocks[1].advance(ms(3_000));
    clocks[2].advance(ms(7_000));
    let nodes: Vec<_> = clocks.iter().map(|clock| MemoryStore::manual(clock.clone())).collect();
    let of = |order: [usize; 3]| {
        let nodes = order.map(|node| Arc::new(nodes[node].clone()) as Arc<dyn Store>);
        let builder = QuorumStore::builder(nodes).node_timeout(ms(60_000));
        builder.build().expect("it can work")
    };
    // Each client follows another clock.
    let clients = [of([0, 1, 2]), of([1, 2, 0]), of([2, 0, 1])];
    let mut last: Option<FencingToken> = None;
    for round in 0..30 {
        let client = &clients[(round * 7 + round / 3) % 3];
        let by = client.clock().now().saturating_add(ms(60_000));
        let asked = request(rt::fresh_token());
        let answer = client.acquire(&asked, by).await.expect("all answer").answer;
        let fence = fenced(&granted(answer));
        assert!(last < Some(fence), "{last:?} {fence}");
        last = Some(fence);
        let release = fencelock_store::core::ReleaseRequest::new(asked.names, asked.token);
        let _ = client.release(&release, by).await.expect("all answer");
    }
}

#[tokio::test]
async fn a_floor_is_kept_and_one_too_far_ahead_is_refused() {
    let world = World::new(3);
    let now = world.nodes[0].inner().current().store_now().wall.as_micros();
    let floor = |ahead_us: u64| FencingToken::new(now + ahead_us).expect("in range");
    let mut asked = request(rt::fresh_token());
    asked.floor = Some(floor(5_000_000));
    let reply = world.store.acquire(&asked, world.by()).await.expect("all answer");
    assert!(fenced(&granted(reply.answer)) > floor(5_000_000));
    let _ = world.release(asked.token).await.expect("all answer");
    let mut asked = request(rt::fresh_token());
    asked.floor = Some(floor(60_000_000));
    let reply = world.store.acquire(&asked, world.by()).await.expect("all answer");
    let refused = fencelock_store::core::Refusal::FenceAhead;
    assert_eq!(reply.answer, fencelock_store::core::Acquired::Refused(refused));
    assert_eq!(world.held_on(asked.token), []);
}
