//! Prolonging leases.

use fencelock_core::{NotHeld, RenewRequest, Renewed};

use super::{
    Harness,
    support::{Ask as _, MINUTE, answered, name, secs, token, ttl},
};
use crate::Store;

fn remaining(answer: &Renewed) -> std::time::Duration {
    match answer {
        Renewed::Extended { remaining, .. } => *remaining,
        other => panic!("expected a renewal, not {other:?}"),
    }
}

pub async fn a_renewal_prolongs_the_lease_from_now(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let grant = store.take(name("k"), holder).await;
    harness.advance(&store, secs(40)).await;
    let left = remaining(&store.renew_for(name("k"), holder, MINUTE).await);
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
    harness.advance(&store, secs(40)).await;
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, secs(20)), "{left:?}");
    assert_eq!(store.holder(&name("k")).await.fencing_token, grant.fence.token());
}

pub async fn a_renewal_never_moves_the_end_back(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let left = remaining(&store.renew_for(name("k"), holder, secs(1)).await);
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn a_renewal_in_the_instant_before_the_end_succeeds(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, MINUTE - harness.timing().before_end()).await;
    let left = remaining(&store.renew_for(name("k"), holder, MINUTE).await);
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn a_renewal_at_the_end_is_refused_and_brings_nothing_back(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let why =
        if store.capabilities().remembers_tokens { NotHeld::Expired } else { NotHeld::Absent };
    for _ in 0..2 {
        let answer = store.renew_for(name("k"), holder, MINUTE).await;
        assert_eq!(answer, Renewed::NotHeld(why.clone()));
        store.assert_free(&name("k")).await;
    }
    let _ = store.take(name("k"), token()).await;
}

pub async fn a_renewal_by_another_token_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    harness.advance(&store, secs(30)).await;
    let answer = store.renew_for(name("k"), token(), MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Taken));
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, secs(30)), "{left:?}");
}

pub async fn a_renewal_of_a_released_lease_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let _ = store.give_back(name("k"), holder).await;
    let remembers = store.capabilities().remembers_tokens;
    let why = if remembers { NotHeld::Released } else { NotHeld::Absent };
    let answer = store.renew_for(name("k"), holder, MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(why));
    store.assert_free(&name("k")).await;
}

pub async fn a_renewal_of_a_name_nobody_ever_took_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let answer = store.renew_for(name("k"), token(), MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Absent));
    store.assert_free(&name("k")).await;
}

pub async fn a_renewal_after_somebody_else_took_it_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (first, second) = (token(), token());
    let _ = store.take(name("k"), first).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let _ = store.take(name("k"), second).await;
    let answer = store.renew_for(name("k"), first, MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Taken));
    store.assert_held_by(&name("k"), second).await;
}

pub async fn a_batch_is_answered_in_order_and_a_lost_lease_harms_no_other(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (first, second, stranger) = (token(), token(), token());
    let _ = store.take(name("a"), first).await;
    let _ = store.take(name("c"), second).await;
    let lease = |at: &str, token, span| RenewRequest::new(name(at), token, ttl(span));
    let batch = [
        lease("c", second, secs(120)),
        lease("b", stranger, MINUTE),
        lease("a", first, secs(180)),
        lease("a", stranger, MINUTE),
    ];
    let answers = store.ask_renew(&batch).await;
    assert_eq!(answers.len(), batch.len());
    assert!(harness.timing().agrees(remaining(&answers[0]), secs(120)), "{answers:?}");
    assert_eq!(answers[1], Renewed::NotHeld(NotHeld::Absent));
    assert!(harness.timing().agrees(remaining(&answers[2]), secs(180)), "{answers:?}");
    assert_eq!(answers[3], Renewed::NotHeld(NotHeld::Taken));
}

pub async fn an_empty_batch_has_no_answers(harness: &impl Harness) {
    let store = harness.fresh().await;
    assert_eq!(answered(store.renew(&[], store.by()).await), []);
}

pub async fn the_largest_batch_is_renewed_whole(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut batch = Vec::new();
    for index in 0..RenewRequest::MAX_BATCH {
        let request = RenewRequest::new(name(format!("k{index}")), token(), ttl(secs(120)));
        let _ = store.take(request.names.clone(), request.token).await;
        batch.push(request);
    }
    let answers = store.ask_renew(&batch).await;
    assert_eq!(answers.len(), batch.len());
    for answer in &answers {
        assert!(harness.timing().agrees(remaining(answer), secs(120)), "{answer:?}");
    }
}
