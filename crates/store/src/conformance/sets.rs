//! Several names at once, all or nothing.

use fencelock_core::{Acquired, Names, NotHeld, Released, Renewed, Shortened};

use super::{
    Harness,
    support::{
        Ask as _, MINUTE, above, assert_unsupported, fenced, name, names, request, secs, token,
    },
};
use crate::Store;

const THREE: [&str; 3] = ["a", "b", "c"];

/// Whether the store takes sets of three; where it does not, checks that it says so.
async fn has_sets(store: &impl Store) -> bool {
    if store.capabilities().max_names >= THREE.len() {
        return true;
    }
    let asked = request(names(&THREE), token());
    assert_unsupported(store.acquire(&asked, store.by()).await);
    for at in THREE {
        store.assert_free(&name(at)).await;
    }
    false
}

pub async fn a_set_is_granted_whole_with_one_fencing_token(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_sets(&store).await {
        return;
    }
    // One of the names has a history, and the fencing token must be above it.
    let before = token();
    let older = store.take(name("b"), before).await;
    let _ = store.give_back(name("b"), before).await;
    let holder = token();
    let grant = store.take(names(&THREE), holder).await;
    assert!(!store.capabilities().fencing || fenced(&grant) > fenced(&older));
    for at in THREE {
        let left = store.assert_held_by(&name(at), holder).await;
        assert!(harness.timing().agrees(left, MINUTE), "{at}: {left:?}");
        assert_eq!(store.holder(&name(at)).await.fencing_token, grant.fence.token());
    }
}

pub async fn one_busy_name_keeps_the_whole_set_free(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_sets(&store).await {
        return;
    }
    for busy_name in THREE {
        let holder = token();
        let _ = store.take(name(busy_name), holder).await;
        let answer = store.try_take(names(&THREE), token()).await;
        let Acquired::Busy(busy) = answer else { panic!("expected busy, not {answer:?}") };
        assert_eq!(busy.name, name(busy_name));
        for at in THREE.into_iter().filter(|at| *at != busy_name) {
            store.assert_free(&name(at)).await;
        }
        store.assert_held_by(&name(busy_name), holder).await;
        assert_eq!(store.give_back(name(busy_name), holder).await, Released::Held);
    }
}

pub async fn a_release_frees_the_whole_set(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_sets(&store).await {
        return;
    }
    let holder = token();
    let _ = store.take(names(&THREE), holder).await;
    assert_eq!(store.give_back(names(&THREE), holder).await, Released::Held);
    for at in THREE {
        store.assert_free(&name(at)).await;
    }
    let _ = store.take(names(&THREE), token()).await;
}

pub async fn a_set_with_a_lost_member_is_lost_and_nothing_of_it_is_prolonged(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !has_sets(&store).await {
        return;
    }
    let (holder, thief) = (token(), token());
    let _ = store.take(names(&THREE), holder).await;
    let _ = store.force(&name("b")).await;
    let _ = store.take(name("b"), thief).await;
    let answer = store.renew_for(names(&THREE), holder, secs(600)).await;
    assert_eq!(answer, Renewed::NotHeld(NotHeld::Taken));
    let answer = store.shorten_to(names(&THREE), holder, secs(1)).await;
    assert_eq!(answer, Shortened::NotHeld(NotHeld::Taken));
    for at in ["a", "c"] {
        let left = store.assert_held_by(&name(at), holder).await;
        assert!(harness.timing().agrees(left, MINUTE), "{at}: {left:?}");
    }
}

pub async fn a_release_of_a_set_with_a_lost_member_frees_the_rest(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_sets(&store).await {
        return;
    }
    let (holder, thief) = (token(), token());
    let _ = store.take(names(&THREE), holder).await;
    let _ = store.force(&name("b")).await;
    let _ = store.take(name("b"), thief).await;
    assert_eq!(store.give_back(names(&THREE), holder).await, Released::Taken);
    store.assert_free(&name("a")).await;
    store.assert_free(&name("c")).await;
    store.assert_held_by(&name("b"), thief).await;
}

pub async fn a_set_is_renewed_shortened_and_exchanged_whole(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_sets(&store).await {
        return;
    }
    let (old, new) = (token(), token());
    let _ = store.take(names(&THREE), old).await;
    let answer = store.renew_for(names(&THREE), old, secs(100)).await;
    assert!(matches!(answer, Renewed::Extended { .. }), "{answer:?}");
    let answer = store.shorten_to(names(&THREE), old, secs(80)).await;
    assert!(matches!(answer, Shortened::Shortened { .. }), "{answer:?}");
    let answer = store.exchange(names(&THREE), old, new).await;
    let fencelock_core::Exchanged::Granted(grant) = answer else {
        panic!("expected a grant, not {answer:?}")
    };
    for at in THREE {
        let left = store.assert_held_by(&name(at), new).await;
        assert!(harness.timing().agrees(left, secs(80)), "{at}: {left:?}");
        assert_eq!(store.holder(&name(at)).await.fencing_token, grant.fence.token());
    }
    assert_eq!(store.give_back(names(&THREE), old).await, Released::Taken);
    assert_eq!(store.give_back(names(&THREE), new).await, Released::Held);
}

pub async fn a_raise_writes_to_all_members_or_to_none(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !store.capabilities().writes_fences || !has_sets(&store).await {
        // What such a store says to a raise is in `fence`, what to a set in `has_sets`.
        return;
    }
    let holder = token();
    let first = fenced(&store.take(names(&THREE), holder).await);
    // One member is ahead of the others.
    let ahead = above(first, 20);
    let _ = store.raise(name("c"), holder, ahead).await;
    let answer = store.raise(names(&THREE), holder, above(first, 10)).await;
    assert_eq!(answer, fencelock_core::Raised::Behind(ahead));
    assert_eq!(store.holder(&name("a")).await.fencing_token, Some(first));
    let answer = store.raise(names(&THREE), holder, above(first, 30)).await;
    assert_eq!(answer, fencelock_core::Raised::Raised);
    for at in THREE {
        assert_eq!(store.holder(&name(at)).await.fencing_token, Some(above(first, 30)));
    }
}

pub async fn the_largest_set_is_taken_and_a_larger_one_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let most = store.capabilities().max_names;
    assert!((1..=Names::MAX).contains(&most), "a store promises {most} names");
    let set = |count: usize| {
        Names::new((0..count).map(|index| name(format!("k{index}")))).expect("a set")
    };
    let holder = token();
    let _ = store.take(set(most), holder).await;
    assert_eq!(store.give_back(set(most), holder).await, Released::Held);
    if most < Names::MAX {
        let asked = request(set(most + 1), token());
        assert_unsupported(store.acquire(&asked, store.by()).await);
        store.assert_free(&name("k0")).await;
    }
}

pub async fn overlapping_sets_exclude_each_other(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !has_sets(&store).await {
        return;
    }
    let holder = token();
    let _ = store.take(names(&["b", "a"]), holder).await;
    let answer = store.try_take(names(&["c", "b"]), token()).await;
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    store.assert_free(&name("c")).await;
    assert_eq!(store.give_back(names(&["a", "b"]), holder).await, Released::Held);
    let _ = store.take(names(&["c", "b"]), token()).await;
}
