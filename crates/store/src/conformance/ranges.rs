//! Ranges of fencing tokens, for holders that follow each other under one lease.

use fencelock_core::{AcquireRequest, FencingToken, Grant, Names, Released, RenewRequest, Renewed};

use super::{
    Harness,
    line::waits,
    support::{Ask as _, MINUTE, above, fenced, name, names, request, token, ttl},
};
use crate::Store;

fn reserving(names: impl Into<Names>, reserve: u32) -> AcquireRequest {
    let mut asked = request(names, token());
    asked.reserve = reserve;
    asked
}

/// Whether the store has ranges; where it has none, checks that asking for one has no effect.
async fn has_ranges(store: &impl Store) -> bool {
    let can = store.capabilities();
    if can.queue && can.fencing {
        return true;
    }
    let asked = reserving(name("no-range"), 63);
    let grant = store.take_as(&asked).await;
    assert_eq!(grant.last_fence, None);
    let mut renewal = RenewRequest::new(name("no-range"), asked.token, ttl(MINUTE));
    renewal.reserve = 10;
    match store.ask_renew(&[renewal]).await.remove(0) {
        Renewed::Extended { last_fence, .. } => assert_eq!(last_fence, None),
        other => panic!("it is held: {other:?}"),
    }
    false
}

/// The first and the last fencing token.
fn ends(grant: &Grant) -> (FencingToken, FencingToken) {
    let first = fenced(grant);
    (first, grant.last_fence.unwrap_or(first))
}

async fn widen(store: &impl Store, holder: &AcquireRequest, reserve: u32) -> Option<FencingToken> {
    let mut renewal = RenewRequest::new(holder.names.clone(), holder.token, ttl(MINUTE));
    renewal.reserve = reserve;
    match store.ask_renew(&[renewal]).await.remove(0) {
        Renewed::Extended { last_fence, .. } => last_fence,
        other => panic!("it is held: {other:?}"),
    }
}

pub async fn a_grant_has_as_many_fencing_tokens_more_as_it_asked_for(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await {
        return;
    }
    let asked = reserving(name("k"), 63);
    let (first, last) = ends(&store.take_as(&asked).await);
    assert_eq!(last, above(first, 63));
    let holder = store.holder(&name("k")).await;
    assert_eq!((holder.fencing_token, holder.last_fence), (Some(first), Some(last)));
    assert_eq!(store.give_back(name("k"), asked.token).await, Released::Held);
    let next = store.take(name("k"), token()).await;
    assert_eq!(next.last_fence, None);
    assert!(fenced(&next) > last, "{next:?} after {last}");
}

pub async fn the_same_acquire_again_tells_the_same_range(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await {
        return;
    }
    let asked = reserving(name("k"), 5);
    let grant = store.take_as(&asked).await;
    let again = store.fetch(&asked).await;
    assert_eq!(ends(&again), ends(&grant));
}

pub async fn a_renewal_widens_the_range_without_a_gap(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await {
        return;
    }
    let asked = reserving(name("k"), 3);
    let (first, last) = ends(&store.take_as(&asked).await);
    assert_eq!(widen(&store, &asked, 0).await, Some(last));
    assert_eq!(widen(&store, &asked, 10).await, Some(above(last, 10)));
    assert_eq!(widen(&store, &asked, 20).await, Some(above(last, 30)));
    assert_eq!(ends(&store.fetch(&asked).await), (first, above(last, 30)));
    assert_eq!(store.give_back(name("k"), asked.token).await, Released::Held);
    let next = store.take(name("k"), token()).await;
    assert!(fenced(&next) > above(last, 30), "{next:?}");
}

pub async fn a_grant_without_a_range_can_have_one_later(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await {
        return;
    }
    let asked = reserving(name("k"), 0);
    let grant = store.take_as(&asked).await;
    assert_eq!(grant.last_fence, None);
    let first = fenced(&grant);
    assert_eq!(widen(&store, &asked, 0).await, None);
    assert_eq!(widen(&store, &asked, 7).await, Some(above(first, 7)));
    assert_eq!(fenced(&store.fetch(&asked).await), first);
}

pub async fn a_range_has_a_largest_length(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await {
        return;
    }
    let most = u64::from(AcquireRequest::MAX_RESERVE);
    let asked = reserving(name("k"), u32::MAX);
    let (first, last) = ends(&store.take_as(&asked).await);
    assert_eq!(last, above(first, most));
    assert_eq!(widen(&store, &asked, u32::MAX).await, Some(above(last, most)));
}

pub async fn a_hand_over_has_the_range_of_its_place(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await {
        return;
    }
    let holder = reserving(name("k"), 100);
    let (_, last) = ends(&store.take_as(&holder).await);
    let mut waiter = waits(name("k"), token());
    waiter.reserve = 7;
    store.queue(&waiter, 1).await;
    // What the holder asks for later is also before what is handed over.
    let last = widen(&store, &holder, 50).await.max(Some(last));
    assert_eq!(store.give_back(name("k"), holder.token).await, Released::Held);
    let (first, end) = ends(&store.fetch(&waiter).await);
    assert!(Some(first) > last, "{first} after {last:?}");
    assert_eq!(end, above(first, 7));
    let seen = store.holder(&name("k")).await;
    assert_eq!((seen.fencing_token, seen.last_fence), (Some(first), Some(end)));
}

pub async fn an_exchange_ends_the_range(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await {
        return;
    }
    let asked = reserving(name("k"), 9);
    let (_, last) = ends(&store.take_as(&asked).await);
    match store.exchange(name("k"), asked.token, token()).await {
        fencelock_core::Exchanged::Granted(grant) => {
            assert_eq!(grant.last_fence, None);
            assert!(fenced(&grant) > last, "{grant:?} after {last}");
        }
        other => panic!("it was held: {other:?}"),
    }
    // The old token has nothing to widen any more.
    let mut renewal = RenewRequest::new(name("k"), asked.token, ttl(MINUTE));
    renewal.reserve = 5;
    let answer = store.ask_renew(&[renewal]).await.remove(0);
    assert_eq!(answer, Renewed::NotHeld(fencelock_core::NotHeld::Taken));
}

pub async fn a_set_has_no_range(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_ranges(&store).await || store.capabilities().max_names < 2 {
        return;
    }
    let asked = reserving(names(&["a", "b"]), 63);
    assert_eq!(store.take_as(&asked).await.last_fence, None);
    assert_eq!(widen(&store, &asked, 63).await, None);
    for at in ["a", "b"] {
        let holder = store.holder(&name(at)).await;
        assert_eq!(holder.last_fence, holder.fencing_token);
    }
}
