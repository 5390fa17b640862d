//! Bringing the end of a lease nearer.

use fencelock_core::{NotHeld, Shortened};

use super::{
    Harness,
    support::{Ask as _, MINUTE, name, secs, token},
};
use crate::Store;

fn remaining(answer: &Shortened) -> std::time::Duration {
    match answer {
        Shortened::Shortened { remaining } => *remaining,
        other => panic!("expected a shortened lease, not {other:?}"),
    }
}

pub async fn a_shortened_lease_ends_at_its_new_end(harness: &impl Harness) {
    let store = harness.fresh().await;
    let timing = harness.timing();
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let left = remaining(&store.shorten_to(name("k"), holder, secs(20)).await);
    assert!(timing.agrees(left, secs(20)), "{left:?}");
    harness.advance(&store, secs(20) - timing.before_end()).await;
    store.assert_held_by(&name("k"), holder).await;
    harness.advance(&store, timing.before_end() + timing.grain).await;
    store.assert_free(&name("k")).await;
    let _ = store.take(name("k"), token()).await;
}

pub async fn shortening_never_prolongs(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let left = remaining(&store.shorten_to(name("k"), holder, secs(600)).await);
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn shortening_by_another_token_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let answer = store.shorten_to(name("k"), token(), secs(1)).await;
    assert_eq!(answer, Shortened::NotHeld(NotHeld::Taken));
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn shortening_an_ended_lease_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let why =
        if store.capabilities().remembers_tokens { NotHeld::Expired } else { NotHeld::Absent };
    let answer = store.shorten_to(name("k"), holder, secs(1)).await;
    assert_eq!(answer, Shortened::NotHeld(why));
    store.assert_free(&name("k")).await;
}

pub async fn a_shortened_lease_can_be_prolonged_again(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let _ = store.shorten_to(name("k"), holder, secs(10)).await;
    let _ = store.renew_for(name("k"), holder, MINUTE).await;
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}
