//! Breaking mutual exclusion on purpose.

use fencelock_core::{Acquired, Forced, NotHeld, Proof, Refusal, Released, Renewed};

use super::{
    Harness,
    support::{Ask as _, MINUTE, name, request, token},
};
use crate::Store;

pub async fn a_held_name_is_freed_and_the_answer_says_from_whom(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let grant = store.take(name("k"), holder).await;
    let Forced::Removed(removed) = store.force(&name("k")).await else {
        panic!("it was held");
    };
    assert_eq!(removed.proof, Some(Proof::from(holder)));
    assert_eq!(removed.fencing_token, grant.fence.token());
    store.assert_free(&name("k")).await;
    let next = store.take(name("k"), token()).await;
    assert!(!store.capabilities().fencing || next.fence.token() > grant.fence.token());
}

pub async fn a_free_name_stays_free(harness: &impl Harness) {
    let store = harness.fresh().await;
    assert_eq!(store.force(&name("k")).await, Forced::WasFree);
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let _ = store.give_back(name("k"), holder).await;
    assert_eq!(store.force(&name("k")).await, Forced::WasFree);
    let _ = store.take(name("k"), token()).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    assert_eq!(store.force(&name("k")).await, Forced::WasFree);
}

pub async fn the_old_holder_learns_that_it_lost_the_lock(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let _ = store.take(name("k"), holder).await;
    let _ = store.force(&name("k")).await;
    let why =
        if store.capabilities().remembers_tokens { NotHeld::Expired } else { NotHeld::Absent };
    let answer = store.renew_for(name("k"), holder, MINUTE).await;
    assert_eq!(answer, Renewed::NotHeld(why));
    assert_eq!(store.give_back(name("k"), holder).await, Released::Expired);
    store.assert_free(&name("k")).await;
}

pub async fn a_late_copy_of_the_acquire_does_not_take_it_back(harness: &impl Harness) {
    let store = harness.fresh().await;
    let asked = request(name("k"), token());
    let _ = store.take_as(&asked).await;
    let _ = store.force(&name("k")).await;
    let answer = store.ask_acquire(&asked).await;
    if store.capabilities().remembers_tokens {
        assert_eq!(answer, Acquired::Refused(Refusal::TokenRetired));
        store.assert_free(&name("k")).await;
    } else {
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    }
}
