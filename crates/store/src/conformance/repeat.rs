//! Requests that are sent again, and copies that come late.

use fencelock_core::{
    Acquired, Exchanged, Grant, Novelty, Refusal, ReleaseRequest, Released, Renewed, Retain,
    Shortened,
};

use super::{
    Harness,
    support::{Ask as _, MINUTE, answered, metadata, name, request, secs, token},
};
use crate::Store;

fn granted(answer: Acquired) -> Grant {
    match answer {
        Acquired::Granted(grant) => grant,
        other => panic!("expected a grant, not {other:?}"),
    }
}

pub async fn the_same_acquire_again_has_the_same_fencing_token_and_prolongs_nothing(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let mut asked = request(name("k"), token());
    asked.metadata = metadata("who=first");
    let first = store.take_as(&asked).await;
    for (client, left) in [(&store, 50), (&other, 40), (&store, 30)] {
        harness.advance(&store, secs(10)).await;
        let again = granted(client.ask_acquire(&asked).await);
        assert_eq!((again.fence, again.novelty), (first.fence, Novelty::Repeated));
        assert!(harness.timing().agrees(again.remaining, secs(left)), "{again:?}");
        let shown = store.assert_held_by(&name("k"), asked.token).await;
        assert!(harness.timing().agrees(shown, secs(left)), "{shown:?}");
    }
}

pub async fn a_late_copy_of_an_acquire_whose_lease_was_released_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let asked = request(name("k"), token());
    let _ = store.take_as(&asked).await;
    let _ = store.give_back(name("k"), asked.token).await;
    let answer = store.ask_acquire(&asked).await;
    if store.capabilities().remembers_tokens {
        assert_eq!(answer, Acquired::Refused(Refusal::TokenRetired));
        store.assert_free(&name("k")).await;
        // Nor within retain, which begins with the release.
        harness.advance(&store, secs(500)).await;
        let answer = store.ask_acquire(&asked).await;
        assert_eq!(answer, Acquired::Refused(Refusal::TokenRetired));
    } else {
        assert_eq!(granted(answer).novelty, Novelty::Fresh);
    }
}

pub async fn a_late_copy_of_an_acquire_whose_lease_ended_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let asked = request(name("k"), token());
    let _ = store.take_as(&asked).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let answer = store.ask_acquire(&asked).await;
    if store.capabilities().remembers_tokens {
        assert_eq!(answer, Acquired::Refused(Refusal::TokenRetired));
        store.assert_free(&name("k")).await;
    } else {
        assert_eq!(granted(answer).novelty, Novelty::Fresh);
    }
}

pub async fn a_late_copy_does_not_disturb_the_next_holder(harness: &impl Harness) {
    let store = harness.fresh().await;
    let asked = request(name("k"), token());
    let _ = store.take_as(&asked).await;
    let _ = store.give_back(name("k"), asked.token).await;
    let next = token();
    let _ = store.take(name("k"), next).await;
    let answer = store.ask_acquire(&asked).await;
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    store.assert_held_by(&name("k"), next).await;
}

pub async fn the_same_release_again_says_the_same(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Held);
    let remembers = store.capabilities().remembers_tokens;
    let again = if remembers { Released::Held } else { Released::Expired };
    for _ in 0..2 {
        assert_eq!(store.give_back(name("k"), holder).await, again);
    }
    let _ = store.take(name("k"), token()).await;
}

pub async fn a_released_token_is_forgotten_with_its_record(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let mut asked = ReleaseRequest::new(name("k"), holder);
    asked.retain = Retain::new(secs(30));
    assert_eq!(answered(store.release(&asked, store.by()).await), Released::Held);
    harness.advance(&store, secs(30) - harness.timing().before_end()).await;
    let remembers = store.capabilities().remembers_tokens;
    let again = if remembers { Released::Held } else { Released::Expired };
    assert_eq!(store.give_back(name("k"), holder).await, again);
    // The copy prolonged nothing.
    harness.advance(&store, harness.timing().before_end() + secs(1)).await;
    assert_eq!(store.give_back(name("k"), holder).await, Released::Expired);
}

pub async fn the_same_renewal_again_changes_nothing_more(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    for _ in 0..3 {
        let Renewed::Extended { remaining, .. } =
            store.renew_for(name("k"), holder, secs(90)).await
        else {
            panic!("it is ours");
        };
        assert!(harness.timing().agrees(remaining, secs(90)), "{remaining:?}");
    }
}

pub async fn the_same_shorten_again_changes_nothing_more(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    for left in [30, 20] {
        let answer = store.shorten_to(name("k"), holder, secs(30)).await;
        let Shortened::Shortened { remaining } = answer else { panic!("it is ours") };
        assert!(harness.timing().agrees(remaining, secs(left)), "{remaining:?}");
        harness.advance(&store, secs(10)).await;
    }
}

pub async fn the_same_exchange_again_has_the_same_fencing_token_and_prolongs_nothing(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let Exchanged::Granted(first) = store.exchange(name("k"), old, new).await else {
        panic!("it is ours to give");
    };
    harness.advance(&store, secs(10)).await;
    let Exchanged::Granted(again) = store.exchange(name("k"), old, new).await else {
        panic!("it was given already");
    };
    assert_eq!((again.fence, again.novelty), (first.fence, Novelty::Repeated));
    assert!(harness.timing().agrees(again.remaining, secs(50)), "{again:?}");
}

pub async fn a_late_copy_of_an_exchange_brings_no_lease_back(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let _ = store.exchange(name("k"), old, new).await;
    let _ = store.give_back(name("k"), new).await;
    let answer = store.exchange(name("k"), old, new).await;
    if store.capabilities().remembers_tokens {
        assert_eq!(answer, Exchanged::Refused(Refusal::TokenRetired));
    } else {
        assert!(matches!(answer, Exchanged::NotHeld(_)), "{answer:?}");
    }
    store.assert_free(&name("k")).await;
}

pub async fn a_copy_of_part_of_a_set_never_takes_the_rest_again(harness: &impl Harness) {
    let store = harness.fresh().await;
    if store.capabilities().max_names < 2 {
        // What such a store says to a set is in `sets`.
        return;
    }
    let asked = request(super::support::names(&["a", "b"]), token());
    let _ = store.take_as(&asked).await;
    let _ = store.force(&name("a")).await;
    // No memory is needed for this: the token still holds the other name.
    let answer = store.ask_acquire(&asked).await;
    assert_eq!(answer, Acquired::Refused(Refusal::TokenRetired));
    store.assert_free(&name("a")).await;
    store.assert_held_by(&name("b"), asked.token).await;
}
