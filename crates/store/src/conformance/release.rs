//! Giving a lease back.

use fencelock_core::{Inspection, Released};

use super::{
    Harness,
    support::{Ask as _, MINUTE, name, secs, token},
};

pub async fn a_release_frees_the_name_for_everybody(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    other.assert_free(&name("k")).await;
    let _ = other.take(name("k"), token()).await;
}

pub async fn a_release_by_another_token_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, secs(10)).await;
    assert_eq!(store.give_back(name("k"), token()).await, Released::Taken);
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, secs(50)), "{left:?}");
}

pub async fn a_release_of_a_name_nobody_ever_took_says_expired(harness: &impl Harness) {
    let store = harness.fresh().await;
    assert_eq!(store.give_back(name("k"), token()).await, Released::Expired);
    assert_eq!(store.look(&name("k")).await, Inspection::Free { fencing_token: None });
}

pub async fn a_release_in_the_instant_before_the_end_says_held(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, MINUTE - harness.timing().before_end()).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
}

pub async fn a_release_at_the_end_says_expired_however_often(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Expired);
    assert_eq!(store.give_back(name("k"), holder).await, Released::Expired);
    let _ = store.take(name("k"), token()).await;
}

pub async fn a_release_after_somebody_else_took_it_says_so_and_harms_nobody(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let (first, second) = (token(), token());
    let _ = store.take(name("k"), first).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let _ = store.take(name("k"), second).await;
    assert_eq!(store.give_back(name("k"), first).await, Released::Taken);
    store.assert_held_by(&name("k"), second).await;
}

pub async fn a_late_release_of_one_attempt_never_frees_the_next(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (first, second) = (token(), token());
    let _ = store.take(name("k"), first).await;
    let _ = store.give_back(name("k"), first).await;
    let _ = store.take(name("k"), second).await;
    assert_eq!(store.give_back(name("k"), first).await, Released::Taken);
    store.assert_held_by(&name("k"), second).await;
}

pub async fn the_fencing_token_outlives_the_lease(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let grant = store.take(name("k"), holder).await;
    let _ = store.give_back(name("k"), holder).await;
    let kept = Inspection::Free { fencing_token: grant.fence.token() };
    assert_eq!(store.look(&name("k")).await, kept);
}
