//! The bounds of a call: its last moment, the size of a batch, and the end of the client.

use fencelock_core::{
    ExchangeRequest, ForceReleaseRequest, HealRequest, InspectRequest, ListRequest, Moment,
    RaiseFenceRequest, ReleaseRequest, RenewRequest, RevokeRequest, ShortenRequest, Token,
};

use super::{
    Harness,
    support::{
        Ask as _, MINUTE, assert_error, assert_unsupported, name, request, secs, token, ttl,
    },
};
use crate::{Store, StoreErrorKind};

/// Calls every verb that a store may have, on a lease of `holder` at `k`, and checks the failure.
async fn assert_each_verb_fails(
    store: &impl Store,
    holder: Token,
    by: Moment,
    kind: StoreErrorKind,
) {
    let new = token();
    assert_error(store.connect(by).await, kind);
    assert_error(store.acquire(&request(name("free"), new), by).await, kind);
    let renew = [RenewRequest::new(name("k"), holder, ttl(secs(600)))];
    assert_error(store.renew(&renew, by).await, kind);
    let shorten = ShortenRequest::new(name("k"), holder, ttl(secs(1)));
    assert_error(store.shorten(&shorten, by).await, kind);
    assert_error(store.release(&ReleaseRequest::new(name("k"), holder), by).await, kind);
    let exchange = ExchangeRequest::new(name("k"), holder, new, ttl(MINUTE));
    assert_error(store.exchange_token(&exchange, by).await, kind);
    if store.capabilities().writes_fences {
        let one = fencelock_core::FencingToken::new(1).expect("within the range");
        let raise = RaiseFenceRequest::new(name("k"), holder, one);
        assert_error(store.raise_fence(&raise, by).await, kind);
    }
    assert_error(store.heal(&HealRequest::new(name("free"), new, ttl(MINUTE)), by).await, kind);
    assert_error(store.inspect(&InspectRequest::new(name("k")), by).await, kind);
    assert_error(store.list(&ListRequest::new(""), by).await, kind);
    assert_error(store.force_release(&ForceReleaseRequest::new(name("k")), by).await, kind);
    if store.capabilities().revoke {
        assert_error(store.revoke(&RevokeRequest::new(name("k")), by).await, kind);
    }
    if store.capabilities().wakeups {
        let ear = std::sync::Arc::new(super::wakeups::Ear::default());
        assert_error(store.listen(ear, by).await.map(|_| "a subscription"), kind);
    }
}

pub async fn a_call_whose_last_moment_has_passed_fails_and_is_not_done(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let now = store.clock().now();
    for by in [now, now.saturating_sub(secs(1)), Moment::START] {
        assert_each_verb_fails(&store, holder, by, StoreErrorKind::Unavailable).await;
    }
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
    store.assert_free(&name("free")).await;
}

pub async fn a_call_without_a_last_moment_is_answered(harness: &impl Harness) {
    let store = harness.fresh().await;
    let asked = request(name("k"), token());
    let reply = store.acquire(&asked, Moment::NEVER).await.expect("the store answers");
    assert!(matches!(reply.answer, fencelock_core::Acquired::Granted(_)), "{reply:?}");
    store.assert_held_by(&name("k"), asked.token).await;
}

pub async fn a_batch_of_too_many_is_refused_whole(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let one = RenewRequest::new(name("k"), holder, ttl(secs(600)));
    let batch = vec![one; RenewRequest::MAX_BATCH + 1];
    assert_unsupported(store.renew(&batch, store.by()).await);
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn a_closed_client_says_so_to_each_verb(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let by = other.by();
    other.close().await;
    assert_each_verb_fails(&other, holder, by, StoreErrorKind::Closed).await;
    other.close().await;
    // The lease and the other client go on.
    store.assert_held_by(&name("k"), holder).await;
    store.assert_free(&name("free")).await;
}

pub async fn a_store_says_what_it_is(harness: &impl Harness) {
    let store = harness.fresh().await;
    assert!(!store.to_string().is_empty());
    assert!(!format!("{store:?}").is_empty());
    let can = store.capabilities();
    assert!(!can.dialect.is_empty());
    assert_eq!(can, harness.another(&store).await.capabilities());
}
