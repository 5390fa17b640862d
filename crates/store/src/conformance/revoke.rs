//! Asking for a lease back.

use fencelock_core::{
    Exchanged, Holder, Inspection, Proof, Released, RenewRequest, Renewed, RevokeRequest, Revoked,
    Token, Wakeup,
};

use super::{
    Harness,
    line::{has_lines, waits},
    support::{Ask as _, MINUTE, assert_unsupported, name, request, secs, token, ttl},
    wakeups::listening,
};
use crate::Store;

/// Whether leases can be revoked; where they can't, checks that the store says so.
async fn can_revoke(store: &impl Store) -> bool {
    if store.capabilities().revoke {
        return true;
    }
    let holder = token();
    let _ = store.take(name("held"), holder).await;
    for at in ["held", "free"] {
        let asked = RevokeRequest::new(name(at));
        assert_unsupported(store.revoke(&asked, store.by()).await);
    }
    assert!(!store.holder(&name("held")).await.revoked);
    false
}

fn requested(answer: Revoked) -> Holder {
    match answer {
        Revoked::Requested(holder) => holder,
        other => panic!("it is held by somebody who renews it: {other:?}"),
    }
}

/// Whether a renewal of `k` says that it was asked for.
async fn hears(store: &impl Store, holder: Token) -> bool {
    match store.renew_for(name("k"), holder, MINUTE).await {
        Renewed::Extended { revoked, .. } => revoked,
        other => panic!("it is held: {other:?}"),
    }
}

pub async fn a_request_for_a_lease_stands_until_its_end_and_ends_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await {
        return;
    }
    let holder = token();
    let grant = store.take(name("k"), holder).await;
    assert!(!store.holder(&name("k")).await.revoked);
    assert!(!hears(&store, holder).await);
    harness.advance(&store, secs(20)).await;
    let seen = requested(store.ask_revoke(&name("k")).await);
    assert_eq!(seen.proof, Some(Proof::from(holder)));
    assert_eq!(seen.fencing_token, grant.fence.token());
    assert!(seen.revoked);
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, secs(40)), "{left:?}");
    for _ in 0..3 {
        assert!(store.holder(&name("k")).await.revoked);
        assert!(hears(&store, holder).await, "each renewal repeats it");
    }
    // Once more is the same.
    assert!(requested(store.ask_revoke(&name("k")).await).revoked);
    assert!(hears(&store, holder).await);
    match store.try_take(name("k"), token()).await {
        fencelock_core::Acquired::Busy(busy) => assert!(busy.holder.revoked),
        other => panic!("it is held: {other:?}"),
    }
}

pub async fn the_holder_is_told_that_its_lease_is_wanted(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let Some((ear, subscription)) = listening(&other).await else { return };
    if !can_revoke(&store).await {
        return;
    }
    let mut asked = request(name("k"), token());
    asked.listener = Some(subscription.listener);
    let _ = other.take_as(&asked).await;
    let _ = requested(store.ask_revoke(&name("k")).await);
    let told = |wakeup: &Wakeup| match wakeup {
        Wakeup::Revoked(token) => Some(*token),
        _ => None,
    };
    assert_eq!(ear.hears(told).await, asked.token);
}

pub async fn the_next_grant_is_not_revoked(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await || !has_lines(&store).await {
        return;
    }
    let (first, waiter, last) = (token(), waits(name("k"), token()), token());
    let _ = store.take(name("k"), first).await;
    store.queue(&waiter, 1).await;
    let _ = requested(store.ask_revoke(&name("k")).await);
    assert_eq!(store.give_back(name("k"), first).await, Released::Held);
    // Handed over,
    assert!(!store.holder(&name("k")).await.revoked);
    assert!(!hears(&store, waiter.token).await);
    let _ = requested(store.ask_revoke(&name("k")).await);
    // ended and taken,
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let _ = store.take(name("k"), last).await;
    assert!(!hears(&store, last).await);
    let _ = requested(store.ask_revoke(&name("k")).await);
    // taken by force and taken.
    let _ = store.force(&name("k")).await;
    let next = token();
    let _ = store.take(name("k"), next).await;
    assert!(!hears(&store, next).await);
}

pub async fn nobody_is_asked_for_a_free_name(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await {
        return;
    }
    assert_eq!(store.ask_revoke(&name("k")).await, Revoked::WasFree);
    assert_eq!(store.look(&name("k")).await, Inspection::Free { fencing_token: None });
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    assert_eq!(store.ask_revoke(&name("k")).await, Revoked::WasFree);
    let next = token();
    let _ = store.take(name("k"), next).await;
    assert!(!hears(&store, next).await);
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    assert_eq!(store.ask_revoke(&name("k")).await, Revoked::WasFree);
}

pub async fn a_lease_that_nobody_renews_is_not_asked_for(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await {
        return;
    }
    let mut asked = request(name("k"), token());
    asked.unattended = true;
    let _ = store.take_as(&asked).await;
    assert!(store.holder(&name("k")).await.unattended);
    let answer = store.ask_revoke(&name("k")).await;
    let Revoked::Unattended(holder) = answer else { panic!("nobody renews it: {answer:?}") };
    assert!(holder.unattended && !holder.revoked, "{holder:?}");
    let seen = store.holder(&name("k")).await;
    assert!(!seen.revoked, "{seen:?}");
    let left = store.assert_held_by(&name("k"), asked.token).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn a_renewal_says_whether_the_lease_is_attended_from_then_on(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await {
        return;
    }
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let mut last = RenewRequest::new(name("k"), holder, ttl(MINUTE));
    last.unattended = true;
    let _ = store.ask_renew(std::slice::from_ref(&last)).await;
    let answer = store.ask_revoke(&name("k")).await;
    assert!(matches!(answer, Revoked::Unattended(_)), "{answer:?}");
    assert!(!hears(&store, holder).await, "it was renewed, and was not asked for before");
    let _ = requested(store.ask_revoke(&name("k")).await);
}

pub async fn an_exchange_does_not_make_a_request_undone(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await {
        return;
    }
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let _ = requested(store.ask_revoke(&name("k")).await);
    let answer = store.exchange(name("k"), old, new).await;
    assert!(matches!(answer, Exchanged::Granted(_)), "{answer:?}");
    assert!(hears(&store, new).await);
}

pub async fn a_request_says_how_many_wait(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await || !has_lines(&store).await {
        return;
    }
    let _ = store.take(name("k"), token()).await;
    store.queue(&waits(name("k"), token()), 1).await;
    store.queue(&waits(name("k"), token()), 2).await;
    assert_eq!(requested(store.ask_revoke(&name("k")).await).waiting, 2);
}

pub async fn what_is_not_a_record_is_left_alone(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_revoke(&store).await || !harness.plant_foreign(&store, &name("k")).await {
        return;
    }
    let before = harness.read_foreign(&store, &name("k")).await;
    let answer = store.ask_revoke(&name("k")).await;
    assert!(matches!(answer, Revoked::Foreign(_)), "{answer:?}");
    assert_eq!(harness.read_foreign(&store, &name("k")).await, before);
}
