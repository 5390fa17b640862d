//! Looking at a name.

use fencelock_core::Inspection;

use super::{
    Harness,
    support::{Ask as _, MINUTE, metadata, name, request, secs, token},
};
use crate::Store;

pub async fn a_name_that_nobody_took_is_free(harness: &impl Harness) {
    let store = harness.fresh().await;
    assert_eq!(store.look(&name("k")).await, Inspection::Free { fencing_token: None });
}

pub async fn a_held_name_shows_its_holder(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = request(name("k"), token());
    asked.metadata = metadata("who=me");
    let grant = store.take_as(&asked).await;
    harness.advance(&store, secs(15)).await;
    let left = store.assert_held_by(&name("k"), asked.token).await;
    assert!(harness.timing().agrees(left, secs(45)), "{left:?}");
    let holder = store.holder(&name("k")).await;
    assert_eq!(holder.fencing_token, grant.fence.token());
    let kept = if store.capabilities().metadata { &b"who=me"[..] } else { b"" };
    assert_eq!(holder.metadata.as_bytes(), kept);
}

pub async fn an_ended_lease_shows_as_free(harness: &impl Harness) {
    let store = harness.fresh().await;
    let grant = store.take(name("k"), token()).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let free = Inspection::Free { fencing_token: grant.fence.token() };
    assert_eq!(store.look(&name("k")).await, free);
}

pub async fn looking_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    for _ in 0..4 {
        harness.advance(&store, secs(10)).await;
        store.assert_held_by(&name("k"), holder).await;
    }
    harness.advance(&store, secs(20) + harness.timing().grain).await;
    store.assert_free(&name("k")).await;
}
