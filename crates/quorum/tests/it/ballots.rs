//! Who wins, who loses, how soon that is known, and what a lost ballot leaves: nothing.

use std::{sync::Arc, time::Duration};

use fencelock_quorum::QuorumStore;
use fencelock_store::{
    Fault, ManualClock, MemoryStore, Outcome, Store, StoreErrorKind, Verb,
    core::{
        AcquireRequest, Acquired, InspectRequest, Inspection, LockName, Released, RenewRequest,
        Renewed, Ttl,
    },
    rt,
};

use crate::world::{TTL, World, assert_no_quorum, builder, fenced, granted, ms, name, request};

#[tokio::test]
async fn a_minority_that_is_away_hinders_nothing() {
    let away = Fault::Fail(StoreErrorKind::Unavailable);
    let silent = Fault::LostRequest;
    for (count, broken, fault) in
        [(5, 2, &away), (5, 2, &silent), (3, 1, &silent), (4, 1, &silent), (7, 3, &away)]
    {
        let world = World::new(count);
        world.break_nodes(0..broken, fault);
        let token = rt::fresh_token();
        // The clock stands still: nobody waits for those that say nothing.
        let grant = world.take(token).await;
        fenced(&grant);
        assert_eq!(grant.remaining, TTL);
        world.clock.advance(ms(5_000));
        let renewed = world.renew(token).await.expect("a majority answers");
        assert_eq!(renewed.remaining(), Some(TTL));
        let look = InspectRequest::new(name());
        let seen = world.store.inspect(&look, world.by()).await.expect("a majority answers");
        assert!(matches!(seen.answer, Inspection::Held(_)), "{seen:?}");
        assert_eq!(world.release(token).await.expect("a majority answers"), Released::Held);
    }
}

#[tokio::test]
async fn without_a_majority_each_node_is_named_with_its_answer_and_nothing_is_left() {
    let world = World::new(5);
    world.break_nodes(0..2, &Fault::Fail(StoreErrorKind::Unavailable));
    world.nodes[2].plan_for_all(Some(Fault::Fail(StoreErrorKind::Full)));
    let token = rt::fresh_token();
    // At once, since they say so themselves.
    let error = assert_no_quorum(world.acquire(token).await);
    assert_eq!(error.outcome(), Outcome::NotDone);
    let text = error.to_string();
    assert!(text.contains("2 of quorum(5: 3 needed) answered"), "{text}");
    for node in &world.nodes {
        assert!(text.contains(&node.to_string()), "{node} is missing: {text}");
    }
    assert_eq!(text.matches("a planned failure").count(), 3, "{text}");
    assert_eq!(text.matches("granted, and given back").count(), 2, "{text}");
    world.mend();
    assert_eq!(world.held_on(token), []);
    // And the name is free for the next.
    world.hold(rt::fresh_token()).await;
}

#[tokio::test]
async fn silence_of_a_majority_ends_with_the_limit_of_a_node() {
    let world = World::new(5);
    world.break_nodes(0..3, &Fault::LostRequest);
    let (token, started) = (rt::fresh_token(), world.clock.now());
    let (result, ()) = tokio::join!(world.acquire(token), async {
        world.clock.advance(ms(249));
        rt::yield_now().await;
        world.clock.advance(ms(1));
    });
    let error = assert_no_quorum(result);
    assert_eq!(error.outcome(), Outcome::NotDone, "what it left is taken back, so it is not done");
    assert_eq!(world.clock.now().saturating_since(started), ms(250));
    assert_eq!(world.held_on(token), []);
    // Renewals and releases can't be undone: nobody knows.
    for result in [
        tokio::join!(world.renew(token), async { world.clock.advance(ms(250)) }).0.map(|_| ()),
        tokio::join!(world.release(token), async { world.clock.advance(ms(250)) }).0.map(|_| ()),
    ] {
        assert_eq!(assert_no_quorum(result).outcome(), Outcome::Unknown);
    }
}

#[tokio::test]
async fn the_same_failure_everywhere_is_said_as_what_it_is() {
    let world = World::new(3);
    world.break_nodes(0..3, &Fault::Fail(StoreErrorKind::Denied));
    let error = world.acquire(rt::fresh_token()).await.expect_err("all refuse");
    assert_eq!(error.kind(), StoreErrorKind::Denied, "waiting does not help: {error}");
}

#[tokio::test]
async fn a_split_vote_is_busy_and_leaves_nothing() {
    let world = World::new(4);
    let other = rt::fresh_token();
    world.occupy(0, other).await;
    world.occupy(1, other).await;
    let token = rt::fresh_token();
    // Two of four are no majority, for neither of them.
    let answer = world.acquire(token).await.expect("a majority answers");
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    assert_eq!((world.held_on(token), world.held_on(other)), (vec![], vec![0, 1]));
}

#[tokio::test]
async fn busy_says_when_enough_nodes_may_be_free() {
    let world = World::new(3);
    world.occupy(0, rt::fresh_token()).await;
    world.clock.advance(ms(10_000));
    world.occupy(1, rt::fresh_token()).await;
    let answer = world.acquire(rt::fresh_token()).await.expect("a majority answers");
    let Acquired::Busy(busy) = answer else { panic!("two of three are taken: {answer:?}") };
    assert_eq!(busy.holder.remaining, Some(ms(20_000)), "one more is enough");
    // All three by others: two have to end.
    world.occupy(2, rt::fresh_token()).await;
    let answer = world.acquire(rt::fresh_token()).await.expect("a majority answers");
    let Acquired::Busy(busy) = answer else { panic!("all are taken: {answer:?}") };
    assert_eq!(busy.holder.remaining, Some(ms(30_000)));
}

#[tokio::test]
async fn a_slow_minority_is_part_of_the_lease_when_it_comes() {
    let world = World::new(5);
    for node in [3, 4] {
        world.nodes[node].plan(Verb::Acquire, Fault::HoldRequest);
    }
    let token = rt::fresh_token();
    world.hold(token).await;
    assert_eq!(world.held_on(token), [0, 1, 2]);
    for node in [3, 4] {
        world.nodes[node].let_go();
    }
    world.until("the late grants came", || world.held_on(token) == [0, 1, 2, 3, 4]).await;
    // They are not taken back, and they count: three others may go now.
    world.break_nodes(0..2, &Fault::Fail(StoreErrorKind::Unavailable));
    let renewed = world.renew(token).await.expect("a majority answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
}

#[tokio::test]
async fn a_lease_that_is_shorter_than_the_collecting_takes_is_not_granted_and_cleaned() {
    let world = World::new(5);
    for node in [2, 3, 4] {
        world.nodes[node].plan(Verb::Acquire, Fault::HoldReply);
    }
    let token = rt::fresh_token();
    let mut asked = request(token);
    asked.ttl = Ttl::new(ms(100)).expect("a ttl");
    let (result, ()) = tokio::join!(world.store.acquire(&asked, world.by()), async {
        world.clock.advance(ms(100));
    });
    assert_no_quorum(result);
    assert_eq!(world.held_on(token), []);
}

#[tokio::test]
async fn a_ttl_that_no_quarantine_covers_is_refused() {
    let world = World::new(3);
    let mut asked = request(rt::fresh_token());
    asked.ttl = Ttl::new(Duration::from_secs(61)).expect("a ttl");
    let error = world.store.acquire(&asked, world.by()).await.expect_err("it is too long");
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    assert_eq!(world.nodes[0].calls(Verb::Acquire), 0);
}

#[tokio::test]
async fn a_larger_quorum_needs_more_and_a_smaller_one_is_refused() {
    let world = World::new(5);
    let all = builder(&world.nodes).quorum(4).build().expect("four of five can work");
    world.break_nodes(0..2, &Fault::Fail(StoreErrorKind::Unavailable));
    let asked = request(rt::fresh_token());
    assert_no_quorum(all.acquire(&asked, world.by()).await);
    // The token of a lost ballot is used up.
    let asked = request(rt::fresh_token());
    let _ = granted(world.store.acquire(&asked, world.by()).await.expect("three are left").answer);
    for wrong in [0, 1, 2, 6] {
        let error = builder(&world.nodes).quorum(wrong).build().expect_err("no majority");
        assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    }
    let twice = [world.nodes[0].clone(), world.nodes[0].clone()];
    assert_eq!(builder(&twice).build().expect_err("one node").kind(), StoreErrorKind::Config);
    let short = builder(&world.nodes).quarantine(Duration::from_secs(1)).build();
    assert_eq!(short.expect_err("leases outlive it").kind(), StoreErrorKind::Config);
    assert_eq!(builder(&[]).build().expect_err("no node").kind(), StoreErrorKind::Config);
}

#[tokio::test]
async fn one_server_by_two_names_is_no_majority() {
    let clock = ManualClock::new();
    let (one, other) = (MemoryStore::manual(clock.clone()), MemoryStore::manual(clock.clone()));
    let nodes: [Arc<dyn Store>; 3] =
        [Arc::new(one.clone()), Arc::new(one.clone()), Arc::new(other)];
    let store = QuorumStore::builder(nodes).build().expect("nothing was asked yet");
    let by = clock.now().saturating_add(ms(1_000));
    let error = store.acquire(&request(rt::fresh_token()), by).await.map(|reply| reply.answer);
    let error = error.expect_err("one server has two votes");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
    assert!(error.to_string().contains("are one server"), "{error}");
    let seen = one.inspect(&InspectRequest::new(name()), by).await.expect("it answers").answer;
    assert!(matches!(seen, Inspection::Free { .. }), "it was given back: {seen:?}");
}

/// Goal: one lease of a batch that asks for more than the quorum allows is not prolonged, and all
/// others are. Method: in the middle of two, at the first lease of a batch, and alone.
#[tokio::test]
async fn a_lease_that_asks_for_too_much_spoils_no_other_renewal() {
    let world = World::new(3);
    let store = builder(&world.nodes).max_ttl(TTL).build().expect("the settings can work");
    let [first, greedy, last] = ["first", "greedy", "last"].map(|at| {
        let mut lease = request(rt::fresh_token());
        lease.names = LockName::new(at).expect("a name").into();
        lease
    });
    for lease in [&first, &greedy, &last] {
        let _ = granted(store.acquire(lease, world.by()).await.expect("all answer").answer);
    }
    world.clock.advance(ms(1_000));
    let renewal = |lease: &AcquireRequest, ttl: Duration| {
        RenewRequest::new(lease.names.clone(), lease.token, Ttl::new(ttl).expect("a ttl"))
    };
    let too_long = TTL + ms(1);
    for batch in [
        vec![renewal(&first, TTL), renewal(&greedy, too_long), renewal(&last, TTL)],
        vec![renewal(&greedy, too_long), renewal(&last, TTL)],
    ] {
        let renewed = store.renew(&batch, world.by()).await.expect("all answer").answer;
        assert_eq!(renewed.len(), batch.len());
        for (asked, renewed) in batch.iter().zip(&renewed) {
            match asked.token == greedy.token {
                true => assert_eq!(*renewed, Renewed::Unknown),
                false => assert_eq!(renewed.remaining(), Some(TTL)),
            }
        }
    }
    let alone = [renewal(&greedy, too_long)];
    let error = store.renew(&alone, world.by()).await.expect_err("there is nothing to ask");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
    let unchanged = [renewal(&greedy, TTL)];
    let renewed = store.renew(&unchanged, world.by()).await.expect("all answer").answer;
    assert_eq!(renewed[0].remaining(), Some(TTL), "it was not lost");
}
