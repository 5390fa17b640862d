//! Writing a larger fencing token to a lease.

use fencelock_core::{FencingToken, NotHeld, RaiseFenceRequest, Raised, Refusal, Token};

use super::{
    Harness,
    support::{Ask as _, MINUTE, above, assert_unsupported, fenced, name, token},
};
use crate::Store;

/// Takes `k` and says with which fencing token; on a store without such, checks that it says so.
async fn taken(store: &impl Store, holder: Token) -> Option<FencingToken> {
    let grant = store.take(name("k"), holder).await;
    if store.capabilities().writes_fences {
        return Some(fenced(&grant));
    }
    let raise = RaiseFenceRequest::new(name("k"), holder, FencingToken::MAX);
    assert_unsupported(store.raise_fence(&raise, store.by()).await);
    store.assert_held_by(&name("k"), holder).await;
    assert_eq!(store.holder(&name("k")).await.fencing_token, grant.fence.token());
    None
}

pub async fn a_larger_fencing_token_is_written_by_the_holder(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let Some(first) = taken(&store, holder).await else { return };
    let larger = above(first, 10);
    assert_eq!(store.raise(name("k"), holder, larger).await, Raised::Raised);
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(larger));
}

pub async fn the_same_number_again_is_accepted_from_the_token_that_wrote_it(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let holder = token();
    let Some(first) = taken(&store, holder).await else { return };
    // The grant itself wrote the first one.
    assert_eq!(store.raise(name("k"), holder, first).await, Raised::Raised);
    let larger = above(first, 10);
    for _ in 0..2 {
        assert_eq!(store.raise(name("k"), holder, larger).await, Raised::Raised);
    }
}

pub async fn the_same_number_is_refused_to_a_token_that_did_not_write_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    let first = token();
    let Some(written) = taken(&store, first).await else { return };
    let _ = store.give_back(name("k"), first).await;
    let mut asked =
        fencelock_core::AcquireRequest::new(name("k"), token(), super::support::ttl(MINUTE));
    asked.proposed = Some(written);
    let _ = store.take_as(&asked).await;
    let answer = store.raise(name("k"), asked.token, written).await;
    assert_eq!(answer, Raised::Behind(written));
    let answer = store.raise(name("k"), asked.token, above(written, 1)).await;
    assert_eq!(answer, Raised::Raised);
}

pub async fn a_smaller_number_is_refused_and_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let Some(first) = taken(&store, holder).await else { return };
    let larger = above(first, 10);
    let _ = store.raise(name("k"), holder, larger).await;
    let answer = store.raise(name("k"), holder, above(first, 9)).await;
    assert_eq!(answer, Raised::Behind(larger));
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(larger));
}

pub async fn a_raise_by_another_token_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let Some(first) = taken(&store, holder).await else { return };
    let answer = store.raise(name("k"), token(), above(first, 10)).await;
    assert_eq!(answer, Raised::NotHeld(NotHeld::Taken));
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(first));
}

pub async fn a_raise_of_an_ended_lease_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let Some(first) = taken(&store, holder).await else { return };
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let why =
        if store.capabilities().remembers_tokens { NotHeld::Expired } else { NotHeld::Absent };
    let answer = store.raise(name("k"), holder, above(first, 10)).await;
    assert_eq!(answer, Raised::NotHeld(why));
}

pub async fn a_raise_too_far_ahead_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let Some(first) = taken(&store, holder).await else { return };
    let answer = store.raise(name("k"), holder, FencingToken::MAX).await;
    assert_eq!(answer, Raised::Refused(Refusal::FenceAhead));
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(first));
}

pub async fn the_next_grant_is_above_a_raised_fencing_token(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let Some(first) = taken(&store, holder).await else { return };
    let slack = u64::try_from(harness.timing().slack.as_micros()).expect("a slack of seconds");
    let larger = above(first, 1_000_000 + slack);
    assert_eq!(store.raise(name("k"), holder, larger).await, Raised::Raised);
    let _ = store.give_back(name("k"), holder).await;
    assert!(store.take_fenced(name("k"), token()).await > larger);
}
