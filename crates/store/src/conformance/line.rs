//! The line of a name: who waits for it, and how a lease goes from one to the next.
//!
//! No case here listens: whoever asks is served. What is told stands in `wakeups`.

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, Acquired, Busy, ExchangeRequest, Exchanged, Fence, Forced, LockName, NotHeld,
    Novelty, PlaceRequest, Refusal, ReleaseRequest, Released, RenewRequest, Renewed, Retain, Token,
};

use super::{
    Harness,
    support::{
        Ask as _, MINUTE, above, all_at_once, fenced, metadata, name, request, secs, token, ttl,
    },
};
use crate::Store;

/// How long a lease runs that is handed over, in this suite: longer than any case takes.
pub(super) const CLAIM: Duration = secs(10);

/// A lease that outlasts every case.
const HOUR: Duration = secs(3_600);

/// A request that waits, and is told nothing.
pub(super) fn waits(at: LockName, token: Token) -> AcquireRequest {
    let mut waits = request(at, token);
    waits.place = Some(PlaceRequest::new(ttl(CLAIM), MINUTE));
    waits
}

/// Whether the store has lines; where it has none, checks that a place has no effect.
pub(super) async fn has_lines(store: &impl Store) -> bool {
    if store.capabilities().queue {
        return true;
    }
    let (at, holder) = (name("no-line"), token());
    let _ = store.take(at.clone(), holder).await;
    let waiter = waits(at.clone(), token());
    let busy = busy(store.ask_acquire(&waiter).await);
    assert_eq!(busy.holder.waiting, 0);
    assert_eq!(store.give_back(at.clone(), holder).await, Released::Held);
    store.assert_free(&at).await;
    false
}

pub(super) fn busy(answer: Acquired) -> Busy {
    match answer {
        Acquired::Busy(busy) => busy,
        other => panic!("expected busy, not {other:?}"),
    }
}

/// A long lease of `k`.
async fn hold(store: &impl Store) -> (Token, fencelock_core::Grant) {
    let mut asked = request(name("k"), token());
    asked.ttl = ttl(HOUR);
    (asked.token, store.take_as(&asked).await)
}

pub async fn places_are_served_in_the_order_of_their_arrival(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let other = harness.another(&store).await;
    let (first, grant) = hold(&store).await;
    assert_eq!(grant.waiting, 0);
    let waiters: Vec<_> = (0..5).map(|_| waits(name("k"), token())).collect();
    for (index, waiter) in (1..).zip(&waiters) {
        let queued = if index % 2 == 0 {
            store.queue(waiter, index).await
        } else {
            other.queue(waiter, index).await
        };
        assert_eq!(queued.busy.name, name("k"));
        assert_eq!(queued.busy.holder.waiting, index);
        assert_eq!(queued.busy.holder.proof, None, "a contender must not learn the proof");
    }
    let (mut holder, mut highest) = (first, grant.fence);
    for (behind, waiter) in (0..5).rev().zip(&waiters) {
        assert_eq!(other.give_back(name("k"), holder).await, Released::Held);
        store.assert_held_by(&name("k"), waiter.token).await;
        let grant = store.fetch(waiter).await;
        assert_eq!(grant.waiting, behind);
        if store.capabilities().fencing {
            assert!(grant.fence.token() > highest.token(), "{grant:?} after {highest:?}");
        }
        (holder, highest) = (waiter.token, grant.fence);
    }
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    store.assert_free(&name("k")).await;
}

pub async fn asking_again_keeps_the_place_and_never_doubles_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let (first, second) = (waits(name("k"), token()), waits(name("k"), token()));
    for _ in 0..3 {
        store.queue(&first, 1).await;
        let queued = store.queue(&second, 2).await;
        assert_eq!(queued.busy.holder.waiting, 2);
    }
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    assert_eq!(store.give_back(name("k"), first.token).await, Released::Held);
    assert_eq!(store.give_back(name("k"), second.token).await, Released::Held);
    store.assert_free(&name("k")).await;
}

pub async fn a_try_leaves_no_place_and_hears_how_many_wait(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    for waiting in 0..3 {
        for _ in 0..2 {
            let busy = busy(store.try_take(name("k"), token()).await);
            assert_eq!(busy.holder.waiting, waiting);
        }
        assert_eq!(store.holder(&name("k")).await.waiting, waiting);
        store.queue(&waits(name("k"), token()), waiting + 1).await;
    }
    match store.renew_for(name("k"), holder, HOUR).await {
        Renewed::Extended { waiting, .. } => assert_eq!(waiting, 3),
        other => panic!("it is held: {other:?}"),
    }
}

pub async fn a_withdrawn_place_is_gone_and_the_next_moves_up(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let waiters: Vec<_> = (0..3).map(|_| waits(name("k"), token())).collect();
    for (index, waiter) in (1..).zip(&waiters) {
        store.queue(waiter, index).await;
    }
    assert_eq!(store.give_back(name("k"), waiters[0].token).await, Released::Withdrawn);
    store.queue(&waiters[1], 1).await;
    store.queue(&waiters[2], 2).await;
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, HOUR), "{left:?}");
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    store.assert_held_by(&name("k"), waiters[1].token).await;
    // A copy of the withdrawal harms nobody.
    assert_eq!(store.give_back(name("k"), waiters[0].token).await, Released::Taken);
    store.assert_held_by(&name("k"), waiters[1].token).await;
    assert_eq!(store.give_back(name("k"), waiters[2].token).await, Released::Withdrawn);
    assert_eq!(store.give_back(name("k"), waiters[1].token).await, Released::Held);
    store.assert_free(&name("k")).await;
}

pub async fn a_handed_lease_runs_for_its_claim_and_a_renewal_makes_it_the_ttl(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let timing = harness.timing();
    let (holder, _) = hold(&store).await;
    let waiter = waits(name("k"), token());
    store.queue(&waiter, 1).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    let left = store.assert_held_by(&name("k"), waiter.token).await;
    assert!(timing.agrees(left, CLAIM), "{left:?}");
    let answer = store.renew_for(name("k"), waiter.token, MINUTE).await;
    let left = answer.remaining().expect("it was prolonged");
    assert!(timing.agrees(left, MINUTE), "{left:?}");
    harness.advance(&store, MINUTE - timing.before_end()).await;
    store.assert_held_by(&name("k"), waiter.token).await;
}

pub async fn a_claim_is_never_longer_than_the_ttl(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let mut waiter = waits(name("k"), token());
    waiter.place = Some(PlaceRequest::new(ttl(HOUR), MINUTE));
    store.queue(&waiter, 1).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    let left = store.assert_held_by(&name("k"), waiter.token).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn asking_after_the_hand_over_is_answered_with_the_same_grant_and_prolongs_nothing(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let timing = harness.timing();
    let (holder, before) = hold(&store).await;
    let waiter = waits(name("k"), token());
    store.queue(&waiter, 1).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    let first = store.fetch(&waiter).await;
    assert!(timing.agrees(first.remaining, CLAIM), "{first:?}");
    harness.advance(&store, secs(3)).await;
    let second = store.fetch(&waiter).await;
    assert!(timing.agrees(second.remaining, CLAIM - secs(3)), "{second:?}");
    assert!(second.remaining < first.remaining, "{second:?} after {first:?}");
    assert_eq!(second.fence, first.fence);
    if store.capabilities().fencing {
        assert!(fenced(&first) > fenced(&before));
        assert_eq!(store.holder(&name("k")).await.fencing_token, first.fence.token());
    }
    // The old holder has lost it to the next.
    let answer = store.renew_for(name("k"), holder, MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Taken));
    assert_eq!(store.give_back(name("k"), holder).await, Released::Taken);
    store.assert_held_by(&name("k"), waiter.token).await;
}

pub async fn a_name_that_is_free_goes_to_the_first_in_line_and_not_to_a_newcomer(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let timing = harness.timing();
    let _ = store.take(name("k"), token()).await;
    harness.advance(&store, secs(30)).await;
    let (first, second) = (waits(name("k"), token()), waits(name("k"), token()));
    store.queue(&first, 1).await;
    store.queue(&second, 2).await;
    harness.advance(&store, secs(30) + timing.grain).await;
    // The lease has ended, and nobody has looked since.
    store.assert_free(&name("k")).await;
    let busy = busy(store.try_take(name("k"), token()).await);
    assert_eq!(busy.holder.waiting, 1);
    let left = store.assert_held_by(&name("k"), first.token).await;
    assert!(timing.agrees(left, CLAIM), "{left:?}");
}

pub async fn an_ended_lease_goes_to_the_first_in_line_whoever_asks(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, secs(30)).await;
    let (first, second) = (waits(name("k"), token()), waits(name("k"), token()));
    store.queue(&first, 1).await;
    store.queue(&second, 2).await;
    harness.advance(&store, secs(30) + harness.timing().grain).await;
    store.queue(&second, 1).await;
    store.assert_held_by(&name("k"), first.token).await;
    // Who crashed comes back, and changes nothing.
    assert_eq!(store.give_back(name("k"), holder).await, Released::Taken);
    store.assert_held_by(&name("k"), first.token).await;
}

pub async fn the_release_of_an_ended_lease_passes_it_on(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, secs(30)).await;
    let waiter = waits(name("k"), token());
    store.queue(&waiter, 1).await;
    harness.advance(&store, secs(30) + harness.timing().grain).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Expired);
    store.assert_held_by(&name("k"), waiter.token).await;
}

pub async fn the_first_in_line_takes_an_ended_lease_for_its_whole_ttl(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let timing = harness.timing();
    let _ = store.take(name("k"), token()).await;
    harness.advance(&store, secs(30)).await;
    let (first, second) = (waits(name("k"), token()), waits(name("k"), token()));
    store.queue(&first, 1).await;
    store.queue(&second, 2).await;
    harness.advance(&store, secs(30) + timing.grain).await;
    let grant = store.take_as(&first).await;
    assert!(timing.agrees(grant.remaining, MINUTE), "{grant:?}");
    assert_eq!(grant.waiting, 1);
    store.queue(&second, 1).await;
}

pub async fn a_claim_that_ran_out_goes_to_the_next_and_its_waiter_is_refused(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let timing = harness.timing();
    let (holder, _) = hold(&store).await;
    let (first, second) = (waits(name("k"), token()), waits(name("k"), token()));
    store.queue(&first, 1).await;
    store.queue(&second, 2).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    harness.advance(&store, CLAIM - timing.before_end()).await;
    store.assert_held_by(&name("k"), first.token).await;
    harness.advance(&store, timing.before_end() + timing.grain).await;
    assert_eq!(store.ask_acquire(&first).await, Acquired::Refused(Refusal::TokenRetired));
    let answer = store.renew_for(name("k"), first.token, MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Expired));
    let _ = store.take_as(&second).await;
    store.assert_held_by(&name("k"), second.token).await;
    assert_eq!(store.give_back(name("k"), first.token).await, Released::Taken);
    let left = store.assert_held_by(&name("k"), second.token).await;
    assert!(timing.agrees(left, MINUTE), "{left:?}");
}

pub async fn a_barging_newcomer_takes_a_free_name_before_the_line(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let _ = store.take(name("k"), token()).await;
    harness.advance(&store, secs(30)).await;
    let waiter = waits(name("k"), token());
    store.queue(&waiter, 1).await;
    let mut barges = request(name("k"), token());
    barges.barging = true;
    // Not what is held, though.
    let _ = busy(store.ask_acquire(&barges).await);
    harness.advance(&store, secs(30) + harness.timing().grain).await;
    let grant = store.take_as(&barges).await;
    assert_eq!(grant.waiting, 1);
    store.queue(&waiter, 1).await;
    assert_eq!(store.give_back(name("k"), barges.token).await, Released::Held);
    store.assert_held_by(&name("k"), waiter.token).await;
}

pub async fn a_barging_place_is_not_handed_the_lease_but_finds_it_free(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let mut first = waits(name("k"), token());
    first.barging = true;
    let mut second = first.clone();
    second.token = token();
    store.queue(&first, 1).await;
    store.queue(&second, 2).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    store.assert_free(&name("k")).await;
    // Whoever asks first has it, and no place is left of it.
    let grant = store.take_as(&second).await;
    assert_eq!(grant.waiting, 1);
    store.queue(&first, 1).await;
    assert_eq!(store.give_back(name("k"), second.token).await, Released::Held);
    let grant = store.take_as(&first).await;
    assert_eq!(grant.waiting, 0);
}

pub async fn a_place_whose_waiter_was_not_heard_of_is_passed_over(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let (first, second) = (waits(name("k"), token()), waits(name("k"), token()));
    store.queue(&first, 1).await;
    harness.advance(&store, secs(40)).await;
    store.queue(&second, 2).await;
    harness.advance(&store, secs(30)).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    let grant = store.fetch(&second).await;
    assert_eq!(grant.waiting, 0);
}

pub async fn a_place_lasts_as_long_as_its_waiter_asks(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let (first, second) = (waits(name("k"), token()), waits(name("k"), token()));
    store.queue(&first, 1).await;
    store.queue(&second, 2).await;
    for _ in 0..4 {
        harness.advance(&store, secs(40)).await;
        store.queue(&first, 1).await;
        store.queue(&second, 2).await;
    }
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    store.assert_held_by(&name("k"), first.token).await;
}

pub async fn a_forced_release_passes_the_lease_on(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let waiter = waits(name("k"), token());
    store.queue(&waiter, 1).await;
    match store.force(&name("k")).await {
        Forced::Removed(removed) => assert_eq!(removed.waiting, 1),
        other => panic!("it was held: {other:?}"),
    }
    store.assert_held_by(&name("k"), waiter.token).await;
    let answer = store.renew_for(name("k"), holder, MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Taken));
}

pub async fn a_retired_token_gets_no_place(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await || !store.capabilities().remembers_tokens {
        return;
    }
    let refused = Acquired::Refused(Refusal::TokenRetired);
    let released = waits(name("a"), token());
    let _ = store.take_as(&released).await;
    let _ = store.give_back(name("a"), released.token).await;
    assert_eq!(store.ask_acquire(&released).await, refused);
    store.assert_free(&name("a")).await;
    let ended = waits(name("b"), token());
    let _ = store.take_as(&ended).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    assert_eq!(store.ask_acquire(&ended).await, refused);
    store.assert_free(&name("b")).await;
}

pub async fn a_request_for_a_place_after_its_deadline_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await || !store.capabilities().store_time {
        return;
    }
    let (holder, _) = hold(&store).await;
    let reply = store.connect(store.by()).await.expect("the store answers");
    let mut waiter = waits(name("k"), token());
    waiter.deadline = reply.at.map(|at| at.saturating_add(harness.timing().slack));
    store.queue(&waiter, 1).await;
    harness.advance(&store, harness.timing().slack + secs(1)).await;
    // The place that it has stays; a new one is not given.
    let refused = Acquired::Refused(Refusal::DeadlinePassed);
    assert_eq!(store.ask_acquire(&waiter).await, refused);
    let mut late = waiter.clone();
    late.token = token();
    assert_eq!(store.ask_acquire(&late).await, refused);
    assert_eq!(store.holder(&name("k")).await.waiting, 1);
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    store.assert_held_by(&name("k"), waiter.token).await;
}

pub async fn the_floor_of_a_place_counts_at_the_hand_over(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await || !store.capabilities().fencing {
        return;
    }
    let (holder, grant) = hold(&store).await;
    let mut waiter = waits(name("k"), token());
    // Ahead of the clock, and less than the store allows.
    let slack = u64::try_from(harness.timing().slack.as_micros()).expect("a slack of seconds");
    waiter.floor = Some(above(fenced(&grant), 1_000_000 + slack));
    store.queue(&waiter, 1).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    let grant = store.fetch(&waiter).await;
    assert!(grant.fence.token() > waiter.floor, "{grant:?}");
}

pub async fn a_floor_too_far_ahead_gets_no_place(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await || !store.capabilities().fencing {
        return;
    }
    let (holder, _) = hold(&store).await;
    let mut waiter = waits(name("k"), token());
    waiter.floor = Some(fencelock_core::FencingToken::MAX);
    assert_eq!(store.ask_acquire(&waiter).await, Acquired::Refused(Refusal::FenceAhead));
    assert_eq!(store.holder(&name("k")).await.waiting, 0);
    // A place that it had stays as it was.
    waiter.floor = None;
    store.queue(&waiter, 1).await;
    waiter.floor = Some(fencelock_core::FencingToken::MAX);
    assert_eq!(store.ask_acquire(&waiter).await, Acquired::Refused(Refusal::FenceAhead));
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    store.assert_held_by(&name("k"), waiter.token).await;
}

pub async fn the_new_holder_is_shown_as_the_waiter_described_itself_last(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await || !store.capabilities().metadata {
        return;
    }
    let mut holder = request(name("k"), token());
    holder.metadata = metadata("who=holder");
    let _ = store.take_as(&holder).await;
    let mut waiter = waits(name("k"), token());
    waiter.metadata = metadata("who=waiter");
    store.queue(&waiter, 1).await;
    assert_eq!(store.holder(&name("k")).await.metadata, holder.metadata);
    waiter.metadata = metadata("who=waiter, later");
    store.queue(&waiter, 1).await;
    assert_eq!(store.give_back(name("k"), holder.token).await, Released::Held);
    assert_eq!(store.holder(&name("k")).await.metadata, waiter.metadata);
}

pub async fn a_line_outlives_a_record_of_which_nothing_is_retained(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let mut asked = request(name("k"), token());
    (asked.ttl, asked.retain) = (ttl(secs(20)), Retain::NOTHING);
    let grant = store.take_as(&asked).await;
    let mut first = waits(name("k"), token());
    first.retain = Retain::NOTHING;
    let mut second = first.clone();
    second.token = token();
    store.queue(&first, 1).await;
    store.queue(&second, 2).await;
    // The lease ends, and its record may be gone when somebody looks.
    harness.advance(&store, secs(40)).await;
    store.queue(&second, 1).await;
    let handed = store.fetch(&first).await;
    assert!(!store.capabilities().fencing || fenced(&handed) > fenced(&grant));
    let mut back = ReleaseRequest::new(name("k"), first.token);
    back.retain = Retain::NOTHING;
    let reply = store.release(&back, store.by()).await.expect("the store answers");
    assert_eq!(reply.answer, Released::Held);
    let last = store.fetch(&second).await;
    assert!(!store.capabilities().fencing || fenced(&last) > fenced(&handed));
}

pub async fn an_exchange_keeps_the_line(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (old, before) = hold(&store).await;
    let waiter = waits(name("k"), token());
    store.queue(&waiter, 1).await;
    let asked = ExchangeRequest::new(name("k"), old, token(), ttl(MINUTE));
    match store.ask_exchange(&asked).await {
        Exchanged::Granted(grant) => {
            assert_eq!(grant.novelty, Novelty::Fresh);
            assert!(grant.fence == Fence::None || grant.fence.token() > before.fence.token());
        }
        other => panic!("it was held: {other:?}"),
    }
    store.queue(&waiter, 1).await;
    assert_eq!(store.give_back(name("k"), old).await, Released::Taken);
    store.assert_held_by(&name("k"), asked.to).await;
    assert_eq!(store.give_back(name("k"), asked.to).await, Released::Held);
    store.assert_held_by(&name("k"), waiter.token).await;
}

pub async fn a_release_gives_up_the_lease_and_the_place_of_one_token(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (old, _) = hold(&store).await;
    let (both, behind) = (waits(name("k"), token()), waits(name("k"), token()));
    store.queue(&both, 1).await;
    store.queue(&behind, 2).await;
    // No caller of ours does that: a lease for a token that still waits.
    let asked = ExchangeRequest::new(name("k"), old, both.token, ttl(MINUTE));
    assert!(matches!(store.ask_exchange(&asked).await, Exchanged::Granted(_)));
    assert_eq!(store.give_back(name("k"), both.token).await, Released::Held);
    store.assert_held_by(&name("k"), behind.token).await;
}

pub async fn whoever_has_no_part_in_a_lease_leaves_its_line_alone(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let (holder, _) = hold(&store).await;
    let waiters: Vec<_> = (0..2).map(|_| waits(name("k"), token())).collect();
    for (index, waiter) in (1..).zip(&waiters) {
        store.queue(waiter, index).await;
    }
    let stranger = token();
    assert_eq!(store.give_back(name("k"), stranger).await, Released::Taken);
    let not_held = Renewed::NotHeld(NotHeld::Taken);
    assert_eq!(store.renew_for(name("k"), stranger, MINUTE).await, not_held);
    // Whoever waits does not hold it.
    assert_eq!(store.renew_for(name("k"), waiters[0].token, MINUTE).await, not_held);
    let _ = store.shorten_to(name("k"), waiters[0].token, secs(1)).await;
    let _ = store.exchange(name("k"), waiters[0].token, token()).await;
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, HOUR), "{left:?}");
    for (index, waiter) in (1..).zip(&waiters) {
        store.queue(waiter, index).await;
    }
}

pub async fn of_many_waiters_at_once_each_is_served_once(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let other = harness.another(&store).await;
    let (mut holder, _) = hold(&store).await;
    let waiters: Vec<_> = (0..24).map(|_| waits(name("k"), token())).collect();
    let answers = all_at_once(waiters.iter().enumerate().map(|(index, waiter)| {
        if index % 2 == 0 {
            store.acquire(waiter, store.by())
        } else {
            other.acquire(waiter, other.by())
        }
    }))
    .await;
    let mut order = vec![None; waiters.len()];
    for (waiter, answer) in waiters.iter().zip(answers) {
        match answer.expect("the store answers").answer {
            Acquired::Queued(queued) => {
                let index = usize::try_from(queued.position - 1).expect("a small number");
                assert_eq!(order[index].replace(waiter.token), None, "two have one place");
            }
            other => panic!("there was no place: {other:?}"),
        }
    }
    for next in order.into_iter().flatten() {
        assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
        store.assert_held_by(&name("k"), next).await;
        holder = next;
    }
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    store.assert_free(&name("k")).await;
}

pub async fn a_renewal_of_many_says_how_many_wait_for_each(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_lines(&store).await {
        return;
    }
    let mut batch = Vec::new();
    for (index, text) in (0..).zip(["a", "b", "c"]) {
        let holder = token();
        let _ = store.take(name(text), holder).await;
        for position in 1..=index {
            store.queue(&waits(name(text), token()), position).await;
        }
        batch.push(RenewRequest::new(name(text), holder, ttl(MINUTE)));
    }
    let waiting = |answer: &Renewed| match answer {
        Renewed::Extended { waiting, revoked: false, .. } => *waiting,
        other => panic!("it is held, and nobody asked for it back: {other:?}"),
    };
    let answers = store.ask_renew(&batch).await;
    assert_eq!(answers.iter().map(waiting).collect::<Vec<_>>(), [0, 1, 2]);
}
