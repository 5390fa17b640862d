//! Listing what is held.

use std::collections::BTreeMap;

use fencelock_core::{Inspection, ListRequest, LockName, Proof};

use super::{
    Harness,
    support::{Ask as _, MINUTE, answered, name, secs, token},
};
use crate::Store;

/// A listing ends: this many pages of a few names are too many.
const PAGES_MAX: usize = 10_000;

async fn list(store: &impl Store, prefix: &[u8], limit: usize) -> BTreeMap<LockName, Inspection> {
    let mut request = ListRequest::new(prefix);
    request.limit = limit;
    let mut seen = BTreeMap::new();
    for _ in 0..PAGES_MAX {
        let page = answered(store.list(&request, store.by()).await);
        seen.extend(page.locks);
        match page.next {
            Some(next) => request.cursor = Some(next),
            None => return seen,
        }
    }
    panic!("the listing does not end");
}

pub async fn an_empty_store_lists_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    assert!(list(&store, b"", 100).await.is_empty());
}

pub async fn held_names_are_listed_with_their_holders_and_free_ones_are_not(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let (held, released) = (token(), token());
    let grant = store.take(name("held"), held).await;
    let _ = store.take(name("released"), released).await;
    let _ = store.give_back(name("released"), released).await;
    let _ = store.shorten_to(name("held"), held, secs(50)).await;
    let seen = list(&store, b"", 100).await;
    assert_eq!(seen.keys().collect::<Vec<_>>(), [&name("held")]);
    let Inspection::Held(holder) = &seen[&name("held")] else { panic!("it is held") };
    assert_eq!(holder.proof, Some(Proof::from(held)));
    assert_eq!(holder.fencing_token, grant.fence.token());
    let left = holder.remaining.expect("a lease ends");
    assert!(harness.timing().agrees(left, secs(50)), "{left:?}");
}

pub async fn an_ended_lease_is_not_listed(harness: &impl Harness) {
    let store = harness.fresh().await;
    let _ = store.take(name("k"), token()).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    assert!(list(&store, b"", 100).await.is_empty());
}

pub async fn pages_together_are_complete(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut expected = Vec::new();
    for index in 0..25 {
        let at = name(format!("job:{index:02}"));
        let _ = store.take(at.clone(), token()).await;
        expected.push(at);
    }
    for limit in [1, 7, 25, ListRequest::MAX_LIMIT, usize::MAX, 0] {
        let seen = list(&store, b"job:", limit).await;
        assert_eq!(seen.into_keys().collect::<Vec<_>>(), expected, "{limit} on a page");
    }
}

pub async fn a_prefix_is_bytes_and_no_pattern(harness: &impl Harness) {
    let store = harness.fresh().await;
    let all: [&[u8]; 9] =
        [b"a*1", b"ab1", b"a?", b"a[b]", b"a\\*", b"a%", b"A*", b"\xffx", b"\xff\xffy"];
    for at in all {
        let _ = store.take(name(at), token()).await;
    }
    for prefix in [&b"a*"[..], b"a?", b"a[b", b"a\\", b"a%", b"A", b"\xff", b"\xff\xff", b"a", b""]
    {
        let mut expected: Vec<_> =
            all.iter().filter(|at| at.starts_with(prefix)).map(name).collect();
        expected.sort();
        let seen: Vec<_> = list(&store, prefix, 100).await.into_keys().collect();
        assert_eq!(seen, expected, "the prefix is {}", prefix.escape_ascii());
    }
}

pub async fn foreign_values_are_listed_as_what_they_are(harness: &impl Harness) {
    let store = harness.fresh().await;
    let _ = store.take(name("held"), token()).await;
    let planted = harness.plant_foreign(&store, &name("foreign")).await;
    let seen = list(&store, b"", 100).await;
    assert!(matches!(seen.get(&name("held")), Some(Inspection::Held(_))), "{seen:?}");
    let foreign = seen.get(&name("foreign"));
    assert_eq!(matches!(foreign, Some(Inspection::Foreign(_))), planted, "{seen:?}");
    assert_eq!(seen.len(), 1 + usize::from(planted));
}
