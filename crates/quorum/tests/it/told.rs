//! Who waits is told by the nodes, and by nothing that they tell is anything granted.

use std::sync::{Arc, Mutex};

use fencelock_quorum::QuorumStore;
use fencelock_store::{
    Fault, Store, StoreErrorKind, Subscription, Verb, WakeupSink,
    core::{AcquireRequest, Acquired, ListenerId, PlaceRequest, Released, Token, Wakeup},
    rt,
};

use crate::world::{TTL, World, granted, ms, name, poll_times, request};

/// Keeps what it hears.
#[derive(Debug, Default)]
struct Ear {
    heard: Mutex<Vec<Wakeup>>,
    broken: Mutex<u32>,
}

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        self.heard.lock().expect("nothing panics").push(wakeup);
    }

    fn broken(&self) {
        *self.broken.lock().expect("nothing panics") += 1;
    }
}

impl Ear {
    /// All that came since the last look.
    fn take(&self) -> Vec<Wakeup> {
        std::mem::take(&mut self.heard.lock().expect("nothing panics"))
    }
}

async fn listening(store: &QuorumStore, world: &World) -> (Arc<Ear>, Subscription) {
    let ear = Arc::new(Ear::default());
    let sink = Arc::clone(&ear) as Arc<dyn WakeupSink>;
    (ear, store.listen(sink, world.by()).await.expect("the nodes can be listened to"))
}

fn waits(listener: ListenerId) -> AcquireRequest {
    let mut waits = request(rt::fresh_token());
    (waits.barging, waits.listener) = (true, Some(listener));
    waits.place = Some(PlaceRequest::new(waits.ttl, ms(15_000)));
    waits
}

async fn ask(store: &QuorumStore, asked: &AcquireRequest, world: &World) -> Acquired {
    store.acquire(asked, world.by()).await.expect("a majority answers").answer
}

/// How many wait for the name at each node.
fn lines(world: &World) -> Vec<u32> {
    let line = |node: usize| {
        world.nodes[node].inner().current().with_table(|table| table.waiting(&name()))
    };
    (0..world.nodes.len()).map(line).collect()
}

#[tokio::test]
async fn a_release_tells_one_waiter_twice_and_nobody_else() {
    for (count, _) in [(3, 2), (5, 3), (4, 3)] {
        let world = World::new(count);
        let (ear, subscription) = listening(&world.store, &world).await;
        let other = world.another();
        let (other_ear, other_subscription) = listening(&other, &world).await;
        let holder = rt::fresh_token();
        world.hold(holder).await;
        let (first, second) = (waits(subscription.listener), waits(other_subscription.listener));
        assert!(matches!(ask(&world.store, &first, &world).await, Acquired::Queued(_)));
        assert!(matches!(ask(&other, &second, &world).await, Acquired::Queued(_)));
        assert_eq!(lines(&world), vec![2; count]);
        assert_eq!(world.release(holder).await.expect("all answer"), Released::Held);
        let turn = Wakeup::Turn(first.token);
        assert_eq!(ear.take(), [turn, turn], "at once, and when a majority has told it");
        assert_eq!(other_ear.take(), []);
        // Nothing was granted: it is anybody's.
        assert_eq!(world.held_on(first.token), []);
        let next = waits(subscription.listener);
        let grant = granted(ask(&world.store, &next, &world).await);
        assert_eq!(grant.waiting, 2, "the old place of its own is one of them");
        assert_eq!(world.release(first.token).await.expect("all answer"), Released::Withdrawn);
        assert_eq!(lines(&world), vec![1; count]);
        assert_eq!((ear.take(), other_ear.take()), (vec![], vec![]));
        assert_eq!(world.release(next.token).await.expect("all answer"), Released::Held);
        assert_eq!(other_ear.take(), [Wakeup::Turn(second.token); 2]);
    }
}

#[tokio::test]
async fn a_lost_ballot_leaves_places_where_it_was_busy_and_no_lease_anywhere() {
    let world = World::new(5);
    let (ear, subscription) = listening(&world.store, &world).await;
    let other = rt::fresh_token();
    for node in 0..3 {
        world.occupy(node, other).await;
    }
    let asked = waits(subscription.listener);
    let answer = ask(&world.store, &asked, &world).await;
    assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
    assert_eq!((world.held_on(asked.token), lines(&world)), (vec![], vec![1, 1, 1, 0, 0]));
    // One node is enough to be told.
    let inner = world.nodes[2].inner();
    let release = fencelock_store::core::ReleaseRequest::new(name(), other);
    let _ = inner.release(&release, world.by()).await.expect("it answers");
    assert_eq!(ear.take(), [Wakeup::Turn(asked.token)]);
    // And a place is given up by a release, as anywhere.
    let _ = world.release(asked.token).await.expect("all answer");
    assert_eq!(lines(&world), vec![0; 5]);
}

/// Goal: a ballot that comes to nothing else than a place has none. Method: too few nodes answer.
#[tokio::test]
async fn a_ballot_without_a_majority_of_answers_leaves_no_place() {
    let world = World::new(5);
    let (_ear, subscription) = listening(&world.store, &world).await;
    world.hold(rt::fresh_token()).await;
    world.break_nodes(0..3, &Fault::Fail(StoreErrorKind::Unavailable));
    let asked = waits(subscription.listener);
    let result = world.store.acquire(&asked, world.by()).await;
    crate::world::assert_no_quorum(result.map(|reply| reply.answer));
    world.until("the places were given up", || lines(&world) == vec![0; 5]).await;
}

#[tokio::test]
async fn only_a_place_that_does_not_insist_and_is_heard_is_left() {
    let world = World::new(3);
    let (_ear, subscription) = listening(&world.store, &world).await;
    world.hold(rt::fresh_token()).await;
    let whole = waits(subscription.listener);
    let (mut insists, mut deaf, mut strange) = (whole.clone(), whole.clone(), whole.clone());
    insists.barging = false;
    deaf.listener = None;
    // What another store, or an older subscription, was called.
    strange.listener = Some(rt::fresh_listener());
    for mut asked in [insists, deaf, strange] {
        asked.token = rt::fresh_token();
        let answer = ask(&world.store, &asked, &world).await;
        assert!(matches!(answer, Acquired::Busy(_)), "{asked:?}: {answer:?}");
    }
    assert_eq!(lines(&world), [0, 0, 0]);
    drop(subscription);
    let answer = ask(&world.store, &whole, &world).await;
    assert!(matches!(answer, Acquired::Busy(_)), "nobody listens any more: {answer:?}");
    assert_eq!(lines(&world), [0, 0, 0]);
}

#[tokio::test]
async fn a_majority_of_nodes_that_tell_is_enough_and_fewer_are_refused() {
    let world = World::new(3);
    world.nodes[1].plan(Verb::Listen, Fault::Fail(StoreErrorKind::Denied));
    let (ear, subscription) = listening(&world.store, &world).await;
    let holder = rt::fresh_token();
    world.hold(holder).await;
    let asked = waits(subscription.listener);
    assert!(matches!(ask(&world.store, &asked, &world).await, Acquired::Queued(_)));
    assert_eq!(lines(&world), [1, 0, 1], "one that is never told would be in the way there");
    let _ = world.release(holder).await.expect("all answer");
    assert_eq!(ear.take(), [Wakeup::Turn(asked.token); 2]);
    for node in 0..2 {
        world.nodes[node].plan(Verb::Listen, Fault::Fail(StoreErrorKind::Denied));
    }
    let sink = Arc::new(Ear::default()) as Arc<dyn WakeupSink>;
    let error = world.store.listen(sink, world.by()).await.expect_err("one tells us");
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
}

/// Time stands still: nobody waits for a node that is slow to listen to.
#[tokio::test]
async fn a_node_that_is_late_is_listened_to_when_it_answers() {
    let world = World::new(3);
    world.nodes[2].plan(Verb::Listen, Fault::HoldReply);
    let (ear, subscription) = listening(&world.store, &world).await;
    let holder = rt::fresh_token();
    world.hold(holder).await;
    let first = waits(subscription.listener);
    assert!(matches!(ask(&world.store, &first, &world).await, Acquired::Queued(_)));
    assert_eq!(lines(&world), [1, 1, 0]);
    let _ = world.release(first.token).await.expect("all answer");
    world.nodes[2].let_go();
    for _ in 0..1_000 {
        rt::yield_now().await;
    }
    let second = waits(subscription.listener);
    assert!(matches!(ask(&world.store, &second, &world).await, Acquired::Queued(_)));
    assert_eq!(lines(&world), [1, 1, 1]);
    let _ = world.release(holder).await.expect("all answer");
    assert_eq!(ear.take(), [Wakeup::Turn(second.token); 2]);
    drop(subscription);
    world.hold(rt::fresh_token()).await;
    let third = waits(rt::fresh_listener());
    assert!(matches!(ask(&world.store, &third, &world).await, Acquired::Busy(_)));
    assert_eq!(ear.take(), []);
}

/// The holder of a lock is one that listens, too.
#[tokio::test]
async fn a_holder_hears_that_its_lease_is_wanted() {
    let world = World::new(3);
    let (ear, subscription) = listening(&world.store, &world).await;
    let mut asked = request(rt::fresh_token());
    asked.listener = Some(subscription.listener);
    let _ = granted(ask(&world.store, &asked, &world).await);
    let revoke = fencelock_store::core::RevokeRequest::new(name());
    let _ = world.store.revoke(&revoke, world.by()).await.expect("all answer");
    let heard = ear.take();
    assert!(heard.contains(&Wakeup::Revoked(asked.token)), "{heard:?}");
}

/// Goal: whatever becomes of the future of a ballot that waits, the release of its token leaves no
/// place and no lease. Method: dropped at every poll, with nodes that are late.
#[tokio::test]
async fn a_waiting_ballot_that_is_dropped_at_any_poll_leaves_no_place_behind_its_release() {
    for late in [Verb::Acquire, Verb::Release] {
        for polls in 0..8 {
            let world = World::new(3);
            let (_ear, subscription) = listening(&world.store, &world).await;
            let holder = rt::fresh_token();
            world.hold(holder).await;
            // One of the nodes is free, so that the ballot has something to take back.
            let free = fencelock_store::core::ReleaseRequest::new(name(), holder);
            let _ = world.nodes[2].inner().release(&free, world.by()).await.expect("it answers");
            if polls > 0 {
                world.nodes[1].plan(late, Fault::HoldRequest);
            }
            let asked = waits(subscription.listener);
            let mut acquire = world.store.acquire(&asked, world.by());
            let _ended = poll_times(&mut acquire, polls).await;
            drop(acquire);
            let release = fencelock_store::core::ReleaseRequest::new(name(), asked.token);
            let (_released, ()) = tokio::join!(world.store.release(&release, world.by()), async {
                world.nodes[1].let_go();
            });
            let what = format!("nothing is left after {polls} polls");
            let token: Token = asked.token;
            world
                .until(&what, || {
                    world.nodes[1].let_go();
                    world.held_on(token).is_empty() && lines(&world) == [0, 0, 0]
                })
                .await;
        }
    }
}

/// A place lapses where nothing else ends it.
#[tokio::test]
async fn a_waiter_that_is_gone_is_in_the_way_no_longer_than_its_place_lives() {
    let world = World::new(3);
    let (gone_ear, gone) = listening(&world.store, &world).await;
    let (ear, subscription) = listening(&world.store, &world).await;
    world.hold(rt::fresh_token()).await;
    let silent = waits(gone.listener);
    assert!(matches!(ask(&world.store, &silent, &world).await, Acquired::Queued(_)));
    world.clock.advance(ms(15_001));
    let asked = waits(subscription.listener);
    assert!(matches!(ask(&world.store, &asked, &world).await, Acquired::Queued(_)));
    world.clock.advance(TTL);
    let last = rt::fresh_token();
    world.hold(last).await;
    let next = waits(subscription.listener);
    assert!(matches!(ask(&world.store, &next, &world).await, Acquired::Queued(_)));
    let _ = world.release(last).await.expect("all answer");
    assert_eq!(gone_ear.take(), []);
    assert_eq!(ear.take(), [Wakeup::Turn(next.token); 2]);
}
