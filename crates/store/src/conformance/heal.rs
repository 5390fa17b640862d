//! Taking a lease that is provably ours elsewhere, where nobody holds it here.

use fencelock_core::{FencingToken, HealRequest, Healed, Inspection, Raised, Refusal, StoreTime};

use super::{
    Harness,
    support::{Ask as _, MINUTE, above, assert_unsupported, name, secs, token, ttl},
};
use crate::Store;

pub async fn a_free_name_is_taken(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let asked = HealRequest::new(name("k"), holder, ttl(MINUTE));
    assert_eq!(store.ask_heal(&asked).await, Healed::Healed);
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn a_lease_that_is_there_stays_as_it_is(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let grant = store.take(name("k"), holder).await;
    harness.advance(&store, secs(30)).await;
    let asked = HealRequest::new(name("k"), holder, ttl(MINUTE));
    assert_eq!(store.ask_heal(&asked).await, Healed::Healed);
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, secs(30)), "a heal is no renewal: {left:?}");
    assert_eq!(store.holder(&name("k")).await.fencing_token, grant.fence.token());
}

pub async fn a_name_that_somebody_else_holds_is_busy(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let answer = store.ask_heal(&HealRequest::new(name("k"), token(), ttl(MINUTE))).await;
    let Healed::Busy(busy) = answer else { panic!("expected busy, not {answer:?}") };
    assert_eq!((busy.name, busy.holder.proof), (name("k"), None));
    store.assert_held_by(&name("k"), holder).await;
}

pub async fn a_released_lease_is_not_healed(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let _ = store.give_back(name("k"), holder).await;
    let answer = store.ask_heal(&HealRequest::new(name("k"), holder, ttl(MINUTE))).await;
    if store.capabilities().remembers_tokens {
        assert_eq!(answer, Healed::Refused(Refusal::TokenRetired));
        store.assert_free(&name("k")).await;
    } else {
        assert_eq!(answer, Healed::Healed);
    }
}

pub async fn a_lease_that_ended_here_is_taken_again(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let grant = store.take(name("k"), holder).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let mut asked = HealRequest::new(name("k"), holder, ttl(MINUTE));
    let written = grant.fence.token().filter(|_| store.capabilities().writes_fences);
    asked.fencing_token = written;
    assert_eq!(store.ask_heal(&asked).await, Healed::Healed);
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
    let Some(written) = written else { return };
    // The number was written by this very token, and a re-sent write of it is still ours.
    assert_eq!(store.raise(name("k"), holder, written).await, Raised::Raised);
}

pub async fn the_fencing_token_comes_along_and_never_goes_back(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = HealRequest::new(name("k"), token(), ttl(MINUTE));
    if !store.capabilities().writes_fences {
        asked.fencing_token = Some(FencingToken::MAX);
        assert_unsupported(store.heal(&asked, store.by()).await);
        return store.assert_free(&name("k")).await;
    }
    let first = token();
    let kept = store.take_fenced(name("k"), first).await;
    let _ = store.give_back(name("k"), first).await;
    let larger = above(kept, 10);
    asked.fencing_token = Some(larger);
    assert_eq!(store.ask_heal(&asked).await, Healed::Healed);
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(larger));
    let _ = store.give_back(name("k"), asked.token).await;

    let mut smaller = HealRequest::new(name("k"), token(), ttl(MINUTE));
    smaller.fencing_token = Some(kept);
    assert_eq!(store.ask_heal(&smaller).await, Healed::Healed);
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(larger));
}

pub async fn a_healed_fencing_token_too_far_ahead_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = HealRequest::new(name("k"), token(), ttl(MINUTE));
    asked.fencing_token = Some(FencingToken::MAX);
    if store.capabilities().writes_fences {
        assert_eq!(store.ask_heal(&asked).await, Healed::Refused(Refusal::FenceAhead));
    } else {
        assert_unsupported(store.heal(&asked, store.by()).await);
    }
    assert_eq!(store.look(&name("k")).await, Inspection::Free { fencing_token: None });
}

pub async fn a_heal_after_its_deadline_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = HealRequest::new(name("k"), token(), ttl(MINUTE));
    asked.deadline = Some(StoreTime::from_micros(1));
    if store.capabilities().store_time {
        assert_eq!(store.ask_heal(&asked).await, Healed::Refused(Refusal::DeadlinePassed));
    } else {
        assert_unsupported(store.heal(&asked, store.by()).await);
    }
    store.assert_free(&name("k")).await;
}
