//! Several names that are waited for: a set that waits holds nothing.

use fencelock_core::{
    AcquireRequest, Acquired, Inspection, Novelty, PlaceRequest, Refusal, Released, Revoked, Token,
    Wakeup,
};

use super::{
    Harness,
    line::{CLAIM, busy, has_lines, waits},
    support::{Ask as _, MINUTE, fenced, name, names, request, token, ttl},
    wakeups::listening,
};
use crate::Store;

/// Whether sets can wait here. What a store without sets or lines says is in `sets` and `line`.
async fn sets_wait(store: &impl Store) -> bool {
    store.capabilities().max_names >= 3 && has_lines(store).await
}

fn set(list: &[&str], token: Token) -> AcquireRequest {
    let mut waits = request(names(list), token);
    waits.place = Some(PlaceRequest::new(ttl(CLAIM), MINUTE));
    waits
}

/// Takes a place at a busy name, and checks at which and where.
async fn queue_at(store: &impl Store, asked: &AcquireRequest, at: &str, position: u32) {
    let queued = store.queue(asked, position).await;
    assert_eq!(queued.busy.name, name(at));
}

pub async fn a_set_waits_at_its_first_busy_name_and_holds_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let _ = store.take(name("b"), token()).await;
    let _ = store.take(name("c"), token()).await;
    let waiter = set(&["c", "b", "a"], token());
    queue_at(&store, &waiter, "b", 1).await;
    queue_at(&store, &waiter, "b", 1).await;
    assert_eq!(store.holder(&name("b")).await.waiting, 1);
    assert_eq!(store.holder(&name("c")).await.waiting, 0);
    store.assert_free(&name("a")).await;
    let _ = store.take(name("a"), token()).await;
}

pub async fn at_its_turn_the_name_is_kept_for_the_set_and_then_all_are_granted(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let holder = token();
    let before = store.take(name("b"), holder).await;
    let waiter = set(&["a", "b", "c"], token());
    queue_at(&store, &waiter, "b", 1).await;
    assert_eq!(store.give_back(name("b"), holder).await, Released::Held);
    // Kept, which is busy for all others; granted to nobody.
    let seen = busy(store.try_take(name("b"), token()).await);
    let left = seen.holder.remaining.expect("what is kept is not kept for ever");
    assert!(harness.timing().agrees(left, CLAIM), "{left:?}");
    let mut barges = request(name("b"), token());
    barges.barging = true;
    let _ = busy(store.ask_acquire(&barges).await);
    store.assert_free(&name("a")).await;
    assert_eq!(store.ask_revoke(&name("b")).await, Revoked::WasFree);
    let renewed = store.renew_for(name("b"), waiter.token, MINUTE).await;
    assert!(renewed.remaining().is_none(), "what is kept is not held: {renewed:?}");
    let grant = store.take_as(&waiter).await;
    assert!(harness.timing().agrees(grant.remaining, MINUTE), "{grant:?}");
    assert!(!store.capabilities().fencing || fenced(&grant) > fenced(&before));
    for at in ["a", "b", "c"] {
        store.assert_held_by(&name(at), waiter.token).await;
    }
    assert_eq!(store.fetch(&waiter).await.fence, grant.fence);
    assert_eq!(store.give_back(names(&["a", "b", "c"]), waiter.token).await, Released::Held);
}

pub async fn a_set_moves_on_to_its_next_busy_name_and_passes_on_what_was_kept(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let (first, second) = (token(), token());
    let before = store.take(name("a"), first).await;
    let _ = store.take(name("c"), second).await;
    let (waiter, behind) = (set(&["a", "b", "c"], token()), waits(name("a"), token()));
    queue_at(&store, &waiter, "a", 1).await;
    queue_at(&store, &behind, "a", 2).await;
    assert_eq!(store.give_back(name("a"), first).await, Released::Held);
    queue_at(&store, &waiter, "c", 1).await;
    // It holds nothing, so that the next in line has the name.
    let grant = store.fetch(&behind).await;
    assert!(!store.capabilities().fencing || fenced(&grant) > fenced(&before));
    store.assert_free(&name("b")).await;
    assert_eq!(store.give_back(name("c"), second).await, Released::Held);
    queue_at(&store, &waiter, "a", 1).await;
    store.assert_free(&name("c")).await;
    assert_eq!(store.give_back(name("a"), behind.token).await, Released::Held);
    let _ = store.take_as(&waiter).await;
}

pub async fn a_set_that_moves_on_leaves_a_free_name_to_those_behind_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let _ = store.take(name("a"), token()).await;
    harness.advance(&store, MINUTE / 2).await;
    let _ = store.take(name("b"), token()).await;
    let (waiter, behind) = (set(&["a", "b"], token()), waits(name("a"), token()));
    queue_at(&store, &waiter, "a", 1).await;
    queue_at(&store, &behind, "a", 2).await;
    // The lease of `a` ends; the first who looks is the set, which can't use it.
    harness.advance(&store, MINUTE / 2 + harness.timing().grain).await;
    queue_at(&store, &waiter, "b", 1).await;
    store.assert_held_by(&name("a"), behind.token).await;
    assert_eq!(store.fetch(&behind).await.waiting, 0);
}

pub async fn a_set_that_moves_on_leaves_a_name_free_that_nobody_else_waits_for(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let (first, second) = (token(), token());
    let before = store.take(name("a"), first).await;
    let _ = store.take(name("b"), second).await;
    let waiter = set(&["a", "b"], token());
    queue_at(&store, &waiter, "a", 1).await;
    assert_eq!(store.give_back(name("a"), first).await, Released::Held);
    queue_at(&store, &waiter, "b", 1).await;
    let seen = store.look(&name("a")).await;
    assert_eq!(seen, Inspection::Free { fencing_token: before.fence.token() });
    let _ = store.take(name("a"), token()).await;
}

pub async fn what_is_kept_for_a_set_that_does_not_come_goes_to_the_next(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let timing = harness.timing();
    let mut asked = request(name("a"), token());
    asked.ttl = ttl(MINUTE * 60);
    let _ = store.take_as(&asked).await;
    let (waiter, behind) = (set(&["a", "b"], token()), waits(name("a"), token()));
    queue_at(&store, &waiter, "a", 1).await;
    queue_at(&store, &behind, "a", 2).await;
    assert_eq!(store.give_back(name("a"), asked.token).await, Released::Held);
    harness.advance(&store, CLAIM - timing.before_end()).await;
    let _ = busy(store.try_take(name("a"), token()).await);
    queue_at(&store, &behind, "a", 1).await;
    harness.advance(&store, timing.before_end() + timing.grain).await;
    let grant = store.take_as(&behind).await;
    assert_eq!(grant.waiting, 0);
    store.assert_free(&name("b")).await;
    // The set comes late: it has no turn any more, and takes a new place.
    queue_at(&store, &waiter, "a", 1).await;
}

pub async fn a_set_whose_turn_ran_out_unseen_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await || !store.capabilities().remembers_tokens {
        return;
    }
    let holder = token();
    let _ = store.take(name("a"), holder).await;
    let waiter = set(&["a", "b"], token());
    queue_at(&store, &waiter, "a", 1).await;
    assert_eq!(store.give_back(name("a"), holder).await, Released::Held);
    harness.advance(&store, CLAIM + harness.timing().grain).await;
    store.assert_free(&name("a")).await;
    assert_eq!(store.ask_acquire(&waiter).await, Acquired::Refused(Refusal::TokenRetired));
    store.assert_free(&name("a")).await;
    let _ = store.take(names(&["a", "b"]), token()).await;
}

pub async fn a_set_that_gives_up_passes_on_what_was_kept_for_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let holder = token();
    let _ = store.take(name("b"), holder).await;
    let (waiter, behind) = (set(&["a", "b"], token()), waits(name("b"), token()));
    queue_at(&store, &waiter, "b", 1).await;
    queue_at(&store, &behind, "b", 2).await;
    // Once before its turn,
    let other = set(&["a", "b"], token());
    queue_at(&store, &other, "b", 3).await;
    let withdrawn = store.give_back(names(&["a", "b"]), other.token).await;
    assert_eq!(withdrawn, Released::Withdrawn);
    // and once at it.
    assert_eq!(store.give_back(name("b"), holder).await, Released::Held);
    let withdrawn = store.give_back(names(&["a", "b"]), waiter.token).await;
    assert_eq!(withdrawn, Released::Withdrawn);
    assert_eq!(store.fetch(&behind).await.waiting, 0);
    store.assert_free(&name("a")).await;
}

pub async fn a_try_for_a_set_at_its_turn_keeps_the_turn(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !sets_wait(&store).await {
        return;
    }
    let (first, second) = (token(), token());
    let _ = store.take(name("a"), first).await;
    let waiter = set(&["a", "b"], token());
    queue_at(&store, &waiter, "a", 1).await;
    let _ = store.take(name("b"), second).await;
    assert_eq!(store.give_back(name("a"), first).await, Released::Held);
    let mut tries = waiter.clone();
    tries.place = None;
    assert_eq!(busy(store.ask_acquire(&tries).await).name, name("b"));
    let _ = busy(store.try_take(name("a"), token()).await);
    assert_eq!(store.give_back(name("b"), second).await, Released::Held);
    match store.ask_acquire(&tries).await {
        Acquired::Granted(grant) => assert_eq!(grant.novelty, Novelty::Fresh),
        other => panic!("both are free for it: {other:?}"),
    }
}

pub async fn a_waiting_set_is_told_its_turn_and_not_that_it_holds(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((ear, subscription)) = listening(&other).await else { return };
    if !sets_wait(&store).await {
        return;
    }
    let holder = token();
    let _ = store.take(name("a"), holder).await;
    let mut waiter = set(&["a", "b"], token());
    waiter.listener = Some(subscription.listener);
    queue_at(&other, &waiter, "a", 1).await;
    assert_eq!(store.give_back(name("a"), holder).await, Released::Held);
    let turn = |wakeup: &Wakeup| match wakeup {
        Wakeup::Turn(token) => Some(*token),
        _ => None,
    };
    assert_eq!(ear.hears(turn).await, waiter.token);
    assert_eq!(ear.heard(), [Wakeup::Turn(waiter.token)]);
    let _ = other.take_as(&waiter).await;
}
