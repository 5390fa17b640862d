//! What is not a record is reported as what it is, and never changed, by no verb.
//!
//! Where nothing but records can be at a name, each case checks that the name is simply free.

use fencelock_core::{
    Acquired, ExchangeRequest, Exchanged, Forced, HealRequest, Healed, Inspection, LockName,
    NotHeld, Raised, Released, Renewed, Shortened,
};

use super::{
    Harness,
    support::{Ask as _, MINUTE, name, names, secs, token, ttl},
};
use crate::Store;

/// Plants a foreign value at `k`, and says what is there now.
async fn planted<H: Harness>(harness: &H, store: &H::Store) -> Option<Vec<u8>> {
    if harness.plant_foreign(store, &name("k")).await {
        let value = harness.read_foreign(store, &name("k")).await;
        assert!(value.is_some(), "the harness can read what it planted");
        return value;
    }
    assert_eq!(store.look(&name("k")).await, Inspection::Free { fencing_token: None });
    let _ = store.take(name("k"), token()).await;
    None
}

async fn assert_unchanged<H: Harness>(harness: &H, store: &H::Store, value: &[u8]) {
    let now = harness.read_foreign(store, &name("k")).await;
    assert_eq!(now.as_deref(), Some(value), "a foreign value was changed");
}

pub async fn an_acquire_is_told_so(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some(value) = planted(harness, &store).await else { return };
    let answer = store.try_take(name("k"), token()).await;
    let Acquired::Foreign(foreign) = answer else { panic!("expected foreign, not {answer:?}") };
    assert_eq!(foreign.name, name("k"));
    assert_unchanged(harness, &store, &value).await;
}

pub async fn a_set_with_a_foreign_value_is_not_taken(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some(value) = planted(harness, &store).await else { return };
    if store.capabilities().max_names < 2 {
        // What such a store says to a set is in `sets`.
        return;
    }
    let answer = store.try_take(names(&["a", "k", "z"][..2]), token()).await;
    assert!(matches!(answer, Acquired::Foreign(_)), "{answer:?}");
    store.assert_free(&name("a")).await;
    assert_unchanged(harness, &store, &value).await;
}

pub async fn renewals_and_shortenings_are_told_so(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some(value) = planted(harness, &store).await else { return };
    let answer = store.renew_for(name("k"), token(), MINUTE).await;
    assert!(matches!(answer, Renewed::NotHeld(NotHeld::Foreign(_))), "{answer:?}");
    let answer = store.shorten_to(name("k"), token(), secs(1)).await;
    assert!(matches!(answer, Shortened::NotHeld(NotHeld::Foreign(_))), "{answer:?}");
    assert_unchanged(harness, &store, &value).await;
}

pub async fn a_release_says_taken(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some(value) = planted(harness, &store).await else { return };
    assert_eq!(store.give_back(name("k"), token()).await, Released::Taken);
    assert_unchanged(harness, &store, &value).await;
}

pub async fn an_exchange_and_a_heal_are_told_so(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some(value) = planted(harness, &store).await else { return };
    let asked = ExchangeRequest::new(name("k"), token(), token(), ttl(MINUTE));
    let answer = store.ask_exchange(&asked).await;
    assert!(matches!(answer, Exchanged::NotHeld(NotHeld::Foreign(_))), "{answer:?}");
    let answer = store.ask_heal(&HealRequest::new(name("k"), token(), ttl(MINUTE))).await;
    assert!(matches!(answer, Healed::Foreign(_)), "{answer:?}");
    assert_unchanged(harness, &store, &value).await;
}

pub async fn a_raise_is_told_so(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some(value) = planted(harness, &store).await else { return };
    if store.capabilities().writes_fences {
        let small = fencelock_core::FencingToken::new(1).expect("within the range");
        let answer = store.raise(name("k"), token(), small).await;
        assert!(matches!(answer, Raised::NotHeld(NotHeld::Foreign(_))), "{answer:?}");
    }
    // What a store without fencing tokens says to a raise is in `fence`.
    assert_unchanged(harness, &store, &value).await;
}

pub async fn an_inspection_shows_it_and_force_does_not_help(harness: &impl Harness) {
    let store = harness.fresh().await;
    let Some(value) = planted(harness, &store).await else { return };
    let seen = store.look(&name("k")).await;
    let Inspection::Foreign(kind) = seen else { panic!("expected foreign, not {seen:?}") };
    assert_eq!(store.force(&name("k")).await, Forced::Foreign(kind));
    assert_unchanged(harness, &store, &value).await;
}

pub async fn a_foreign_value_over_a_lease_is_a_loss(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let at: LockName = name("k");
    if !harness.plant_foreign(&store, &at).await {
        store.assert_held_by(&at, holder).await;
        return;
    }
    let value = harness.read_foreign(&store, &at).await.expect("it was planted");
    let answer = store.renew_for(name("k"), holder, MINUTE).await;
    assert!(matches!(answer, Renewed::NotHeld(NotHeld::Foreign(_))), "{answer:?}");
    assert_eq!(store.give_back(name("k"), holder).await, Released::Taken);
    assert_unchanged(harness, &store, &value).await;
}
