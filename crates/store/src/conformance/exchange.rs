//! Exchanging the token of a lease: how a lease changes hands without being free in between.

use fencelock_core::{
    ExchangeRequest, Exchanged, FencingToken, Grant, NotHeld, Novelty, Refusal, Released, Renewed,
    StoreTime,
};

use super::{
    Harness,
    support::{Ask as _, MINUTE, assert_unsupported, metadata, name, request, secs, token, ttl},
};
use crate::Store;

fn granted(answer: Exchanged) -> Grant {
    match answer {
        Exchanged::Granted(grant) => grant,
        other => panic!("expected a grant, not {other:?}"),
    }
}

pub async fn the_lease_belongs_to_the_new_token_with_a_larger_fencing_token(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let before = store.take(name("k"), old).await;
    harness.advance(&store, secs(30)).await;
    let grant = granted(store.exchange(name("k"), old, new).await);
    assert_eq!(grant.novelty, Novelty::Fresh);
    assert!(harness.timing().agrees(grant.remaining, MINUTE), "{grant:?}");
    assert_eq!(grant.fence.token().is_some(), store.capabilities().fencing);
    assert!(!store.capabilities().fencing || grant.fence.token() > before.fence.token());
    store.assert_held_by(&name("k"), new).await;
    assert_eq!(store.holder(&name("k")).await.fencing_token, grant.fence.token());
}

pub async fn the_old_token_can_do_nothing_any_more(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let _ = granted(store.exchange(name("k"), old, new).await);
    let answer = store.renew_for(name("k"), old, secs(600)).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Taken));
    assert_eq!(store.give_back(name("k"), old).await, Released::Taken);
    let left = store.assert_held_by(&name("k"), new).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn a_second_exchange_of_the_same_token_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, first, second) = (token(), token(), token());
    let _ = store.take(name("k"), old).await;
    let _ = granted(store.exchange(name("k"), old, first).await);
    let answer = store.exchange(name("k"), old, second).await;
    assert_eq!(answer, Exchanged::NotHeld(NotHeld::Taken));
    store.assert_held_by(&name("k"), first).await;
}

pub async fn an_exchange_never_moves_the_end_back(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let asked = ExchangeRequest::new(name("k"), old, new, ttl(secs(1)));
    let grant = granted(store.ask_exchange(&asked).await);
    assert!(harness.timing().agrees(grant.remaining, MINUTE), "{grant:?}");
    let left = store.assert_held_by(&name("k"), new).await;
    assert!(harness.timing().agrees(left, MINUTE), "{left:?}");
}

pub async fn an_ended_lease_is_not_exchanged(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let why =
        if store.capabilities().remembers_tokens { NotHeld::Expired } else { NotHeld::Absent };
    assert_eq!(store.exchange(name("k"), old, new).await, Exchanged::NotHeld(why));
    store.assert_free(&name("k")).await;
}

pub async fn a_released_lease_is_not_exchanged(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let _ = store.give_back(name("k"), old).await;
    let remembers = store.capabilities().remembers_tokens;
    let why = if remembers { NotHeld::Released } else { NotHeld::Absent };
    assert_eq!(store.exchange(name("k"), old, new).await, Exchanged::NotHeld(why));
    store.assert_free(&name("k")).await;
}

pub async fn the_new_holder_says_of_itself_what_it_likes(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut first = request(name("k"), token());
    first.metadata = metadata("who=first");
    let _ = store.take_as(&first).await;
    let mut asked = ExchangeRequest::new(name("k"), first.token, token(), ttl(MINUTE));
    asked.metadata = metadata("who=second");
    let _ = granted(store.ask_exchange(&asked).await);
    let kept = if store.capabilities().metadata { &b"who=second"[..] } else { b"" };
    assert_eq!(store.holder(&name("k")).await.metadata.as_bytes(), kept);
}

pub async fn an_exchange_after_its_deadline_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let mut asked = ExchangeRequest::new(name("k"), old, new, ttl(MINUTE));
    asked.deadline = Some(StoreTime::from_micros(1));
    if store.capabilities().store_time {
        let answer = store.ask_exchange(&asked).await;
        assert_eq!(answer, Exchanged::Refused(Refusal::DeadlinePassed));
    } else {
        assert_unsupported(store.exchange_token(&asked, store.by()).await);
    }
    store.assert_held_by(&name("k"), old).await;
}

pub async fn an_exchange_with_a_floor_too_far_ahead_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (old, new) = (token(), token());
    let _ = store.take(name("k"), old).await;
    let mut asked = ExchangeRequest::new(name("k"), old, new, ttl(MINUTE));
    asked.floor = Some(FencingToken::MAX);
    if store.capabilities().fencing {
        let answer = store.ask_exchange(&asked).await;
        assert_eq!(answer, Exchanged::Refused(Refusal::FenceAhead));
    } else {
        assert_unsupported(store.exchange_token(&asked, store.by()).await);
    }
    store.assert_held_by(&name("k"), old).await;
}
