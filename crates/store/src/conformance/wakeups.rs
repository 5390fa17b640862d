//! Hints that a name was released.

use super::{
    Harness,
    support::{Ask as _, assert_unsupported, name, names, secs, token},
};
use crate::{Store, Wakeups, rt};

/// A subscription; nothing where the store has none, and says so.
async fn subscribed(store: &impl Store, list: &[&str]) -> Option<Wakeups> {
    let names = names(list);
    let result = store.wakeups(&names, store.by()).await;
    if store.capabilities().wakeups {
        return Some(result.expect("the store subscribes"));
    }
    assert_unsupported(result.map(|_| "a subscription"));
    None
}

/// The bound of what is due at once; a store that never wakes anybody fails by it.
const WAKES_WITHIN: std::time::Duration = secs(20);

pub async fn a_release_after_the_subscription_wakes(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let Some(mut wakeups) = subscribed(&other, &["k", "other"]).await else { return };
    let _ = store.give_back(name("k"), holder).await;
    let woken = rt::timeout(WAKES_WITHIN, wakeups.next()).await.expect("a wakeup in time");
    assert_eq!(woken.expect("the subscription lives"), name("k"));
    let _ = other.take(name("k"), token()).await;
}

pub async fn a_dropped_wait_loses_no_wakeup(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let Some(mut wakeups) = subscribed(&store, &["k"]).await else { return };
    let none = super::support::poll_once(wakeups.next()).await;
    assert!(none.is_none(), "nobody released it");
    let _ = store.give_back(name("k"), holder).await;
    let woken = rt::timeout(WAKES_WITHIN, wakeups.next()).await.expect("a wakeup in time");
    assert_eq!(woken.expect("the subscription lives"), name("k"));
}
