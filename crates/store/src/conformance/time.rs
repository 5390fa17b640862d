//! The store's own time, and its life, as replies tell them.

use fencelock_core::{InspectRequest, Retain};

use super::{
    Harness,
    support::{Ask as _, MINUTE, name, request, secs, token},
};
use crate::Store;

pub async fn replies_carry_a_time_that_moves_with_the_store(harness: &impl Harness) {
    let store = harness.fresh().await;
    let asked = request(name("k"), token());
    let first = store.acquire(&asked, store.by()).await.expect("the store answers");
    harness.advance(&store, secs(7)).await;
    let look = InspectRequest::new(name("k"));
    let second = store.inspect(&look, store.by()).await.expect("the store answers");
    assert_eq!(first.at.is_some(), store.capabilities().store_time);
    assert_eq!(second.at.is_some(), store.capabilities().store_time);
    let (Some(first), Some(second)) = (first.at, second.at) else { return };
    let passed = second.saturating_since(first);
    let slack = harness.timing().slack;
    assert!(passed >= secs(7) && passed <= secs(7) + slack, "{passed:?} passed");
}

pub async fn the_time_of_a_reply_explains_its_answer(harness: &impl Harness) {
    let store = harness.fresh().await;
    let asked = request(name("k"), token());
    let grant = store.acquire(&asked, store.by()).await.expect("the store answers");
    harness.advance(&store, secs(13)).await;
    let again = store.acquire(&asked, store.by()).await.expect("the store answers");
    assert_eq!(grant.at.is_some(), store.capabilities().store_time);
    let (Some(granted_at), Some(again_at)) = (grant.at, again.at) else { return };
    let fencelock_core::Acquired::Granted(again) = again.answer else { panic!("it is ours") };
    let end = granted_at.saturating_add(MINUTE);
    assert_eq!(again_at.saturating_add(again.remaining), end, "to the microsecond");
}

pub async fn one_life_of_a_store_has_one_name(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let first = store.connect(store.by()).await.expect("the store answers").incarnation;
    let asked = request(name("k"), token());
    let second = store.acquire(&asked, store.by()).await.expect("the store answers").incarnation;
    let third = other.acquire(&asked, other.by()).await.expect("the store answers").incarnation;
    // A store may not say it in each reply, but where it does it says the same.
    let said: Vec<_> = [first, second, third].into_iter().flatten().collect();
    assert!(said.windows(2).all(|pair| pair[0] == pair[1]), "{said:?}");
}

pub async fn a_lease_of_which_nothing_is_retained_still_lasts(harness: &impl Harness) {
    let store = harness.fresh().await;
    let timing = harness.timing();
    let mut asked = request(name("k"), token());
    asked.retain = Retain::NOTHING;
    let _ = store.take_as(&asked).await;
    harness.advance(&store, MINUTE - timing.before_end()).await;
    store.assert_held_by(&name("k"), asked.token).await;
    harness.advance(&store, timing.before_end() + timing.grain).await;
    let _ = store.take(name("k"), token()).await;
}
