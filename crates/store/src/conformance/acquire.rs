//! Taking a free name, and being refused a held one.

use fencelock_core::{
    AcquireRequest, Acquired, Busy, Fence, Inspection, Novelty, Refusal, StoreTime,
};

use super::{
    Harness,
    support::{
        Ask as _, MINUTE, above, all_at_once, assert_unsupported, fenced, metadata, name, names,
        request, secs, token,
    },
};
use crate::Store;

fn busy(answer: Acquired) -> Busy {
    match answer {
        Acquired::Busy(busy) => busy,
        other => panic!("expected busy, not {other:?}"),
    }
}

pub async fn a_free_name_is_granted_for_its_whole_ttl(harness: &impl Harness) {
    let store = harness.fresh().await;
    let grant = store.take(name("k"), token()).await;
    assert!(harness.timing().agrees(grant.remaining, MINUTE), "{grant:?}");
    assert_eq!(grant.fence.token().is_some(), store.capabilities().fencing, "{grant:?}");
    assert!(matches!(grant.fence, Fence::Token(_) | Fence::None), "{grant:?}");
}

pub async fn a_held_name_is_busy_and_says_for_how_long_and_by_whom(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut first = request(name("k"), token());
    first.metadata = metadata("who=first");
    let grant = store.take_as(&first).await;
    harness.advance(&store, secs(10)).await;
    let busy = busy(store.try_take(name("k"), token()).await);
    assert_eq!(busy.name, name("k"));
    assert_eq!(busy.holder.proof, None, "a contender must not learn what proves the hold");
    assert_eq!(busy.holder.fencing_token, grant.fence.token());
    let left = busy.holder.remaining.expect("a lease ends");
    assert!(harness.timing().agrees(left, secs(50)), "{left:?}");
    let kept = if store.capabilities().metadata { &b"who=first"[..] } else { b"" };
    assert_eq!(busy.holder.metadata.as_bytes(), kept);
}

pub async fn a_busy_answer_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let holder = token();
    let grant = store.take(name("k"), holder).await;
    harness.advance(&store, secs(20)).await;
    let _ = busy(store.try_take(name("k"), token()).await);
    let left = store.assert_held_by(&name("k"), holder).await;
    assert!(harness.timing().agrees(left, secs(40)), "{left:?}");
    assert_eq!(store.holder(&name("k")).await.fencing_token, grant.fence.token());
}

pub async fn a_lease_runs_until_the_instant_before_its_end_and_not_at_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    let timing = harness.timing();
    let first = token();
    let _ = store.take(name("k"), first).await;
    harness.advance(&store, MINUTE - timing.before_end()).await;
    store.assert_held_by(&name("k"), first).await;
    let _ = busy(store.try_take(name("k"), token()).await);
    harness.advance(&store, timing.before_end() + timing.grain).await;
    store.assert_free(&name("k")).await;
    let second = token();
    let _ = store.take(name("k"), second).await;
    store.assert_held_by(&name("k"), second).await;
}

pub async fn another_client_sees_the_grant_and_its_end(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let first = token();
    let _ = store.take(name("k"), first).await;
    let _ = busy(other.try_take(name("k"), token()).await);
    other.assert_held_by(&name("k"), first).await;
    harness.advance(&store, MINUTE + harness.timing().grain).await;
    let second = token();
    let _ = other.take(name("k"), second).await;
    let _ = busy(store.try_take(name("k"), token()).await);
}

pub async fn of_many_at_once_exactly_one_is_granted(harness: &impl Harness) {
    let store = harness.fresh().await;
    let other = harness.another(&store).await;
    let requests: Vec<AcquireRequest> = (0..32).map(|_| request(name("k"), token())).collect();
    let answers = all_at_once(requests.iter().enumerate().map(|(index, request)| {
        if index % 2 == 0 {
            store.acquire(request, store.by())
        } else {
            other.acquire(request, other.by())
        }
    }))
    .await;
    let mut winner = None;
    for (request, answer) in requests.iter().zip(answers) {
        match answer.expect("the store answers").answer {
            Acquired::Granted(_) => {
                assert_eq!(winner.replace(request.token), None, "two were granted");
            }
            answer => {
                let _ = busy(answer);
            }
        }
    }
    store.assert_held_by(&name("k"), winner.expect("one was granted")).await;
}

pub async fn names_do_not_disturb_each_other(harness: &impl Harness) {
    let store = harness.fresh().await;
    let (a, b) = (token(), token());
    let _ = store.take(name("a"), a).await;
    let _ = store.take(name("b"), b).await;
    let _ = store.give_back(name("a"), a).await;
    store.assert_free(&name("a")).await;
    store.assert_held_by(&name("b"), b).await;
}

pub async fn fencing_tokens_grow_from_grant_to_grant(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut highest = None;
    for round in 0..12 {
        let holder = token();
        let grant = store.take(name("k"), holder).await;
        if store.capabilities().fencing {
            let fencing_token = fenced(&grant);
            assert!(Some(fencing_token) > highest, "{fencing_token} is not above {highest:?}");
            highest = Some(fencing_token);
        } else {
            assert_eq!(grant.fence, Fence::None);
        }
        // Half of the leases are released, the others end.
        if round % 2 == 0 {
            let _ = store.give_back(name("k"), holder).await;
        } else {
            harness.advance(&store, MINUTE + harness.timing().grain).await;
        }
    }
}

pub async fn fencing_tokens_grow_though_the_record_was_forgotten(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut highest = None;
    for _ in 0..4 {
        let mut asked = request(name("k"), token());
        asked.retain = fencelock_core::Retain::NOTHING;
        let grant = store.take_as(&asked).await;
        assert_eq!(grant.fence.token().is_some(), store.capabilities().fencing);
        assert!(!store.capabilities().fencing || grant.fence.token() > highest);
        highest = grant.fence.token();
        harness.advance(&store, secs(30 * 86_400)).await;
    }
}

pub async fn the_fencing_token_is_above_the_callers_floor(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = request(name("k"), token());
    if !store.capabilities().fencing {
        asked.floor = Some(fencelock_core::FencingToken::MAX);
        assert_unsupported(store.acquire(&asked, store.by()).await);
        return store.assert_free(&name("k")).await;
    }
    let first = token();
    let seen = store.take_fenced(name("k"), first).await;
    let _ = store.give_back(name("k"), first).await;
    // A second ahead: further than the case lasts, and less than the store allows.
    asked.floor = Some(above(seen, 1_000_000 + micros(harness)));
    let grant = store.take_as(&asked).await;
    assert!(grant.fence.token() > asked.floor, "{grant:?}");
}

pub async fn a_floor_too_far_ahead_is_refused_and_changes_nothing(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = request(name("k"), token());
    asked.floor = Some(fencelock_core::FencingToken::MAX);
    if !store.capabilities().fencing {
        return assert_unsupported(store.acquire(&asked, store.by()).await);
    }
    assert_eq!(store.ask_acquire(&asked).await, Acquired::Refused(Refusal::FenceAhead));
    assert_eq!(store.look(&name("k")).await, Inspection::Free { fencing_token: None });
}

pub async fn a_proposed_fencing_token_is_taken_where_it_is_above(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = request(name("k"), token());
    if !store.capabilities().writes_fences {
        asked.proposed = Some(fencelock_core::FencingToken::MAX);
        assert_unsupported(store.acquire(&asked, store.by()).await);
        return store.assert_free(&name("k")).await;
    }
    let first = token();
    let seen = store.take_fenced(name("k"), first).await;
    let _ = store.give_back(name("k"), first).await;
    let proposed = above(seen, 7);
    asked.proposed = Some(proposed);
    assert_eq!(store.take_as(&asked).await.fence, Fence::Token(proposed));
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(proposed));
}

pub async fn a_proposed_fencing_token_that_is_not_above_is_answered_with_the_record(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !store.capabilities().writes_fences {
        let mut asked = request(name("k"), token());
        asked.proposed = Some(fencelock_core::FencingToken::MAX);
        return assert_unsupported(store.acquire(&asked, store.by()).await);
    }
    let first = token();
    let seen = store.take_fenced(name("k"), first).await;
    let _ = store.give_back(name("k"), first).await;
    let mut asked = request(name("k"), token());
    asked.proposed = Some(seen);
    assert_eq!(store.take_as(&asked).await.fence, Fence::Behind(seen));
    store.assert_held_by(&name("k"), asked.token).await;
    assert_eq!(store.holder(&name("k")).await.fencing_token, Some(seen));
    // Asked again it says the same, and not that the token was ours.
    let Acquired::Granted(again) = store.ask_acquire(&asked).await else {
        panic!("it is ours");
    };
    assert_eq!((again.fence, again.novelty), (Fence::Behind(seen), Novelty::Repeated));
}

pub async fn a_proposed_fencing_token_below_the_floor_is_answered_with_the_floor(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    let mut asked = request(name("k"), token());
    if !store.capabilities().writes_fences {
        asked.proposed = Some(fencelock_core::FencingToken::MAX);
        return assert_unsupported(store.acquire(&asked, store.by()).await);
    }
    let first = token();
    let seen = store.take_fenced(name("k"), first).await;
    let _ = store.give_back(name("k"), first).await;
    (asked.proposed, asked.floor) = (Some(above(seen, 1)), Some(above(seen, 9)));
    assert_eq!(store.take_as(&asked).await.fence, Fence::Behind(above(seen, 9)));
    // A copy hears the same number, and the next grant is above it.
    let Acquired::Granted(again) = store.ask_acquire(&asked).await else {
        panic!("it is ours");
    };
    assert_eq!((again.fence, again.novelty), (Fence::Behind(above(seen, 9)), Novelty::Repeated));
}

pub async fn a_proposed_fencing_token_too_far_ahead_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = request(name("k"), token());
    asked.proposed = Some(fencelock_core::FencingToken::MAX);
    if !store.capabilities().writes_fences {
        return assert_unsupported(store.acquire(&asked, store.by()).await);
    }
    assert_eq!(store.ask_acquire(&asked).await, Acquired::Refused(Refusal::FenceAhead));
    store.assert_free(&name("k")).await;
}

pub async fn a_request_is_carried_out_at_its_deadline_and_refused_after_it(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut asked = request(name("k"), token());
    if !store.capabilities().store_time {
        asked.deadline = Some(StoreTime::from_micros(u64::MAX));
        assert_unsupported(store.acquire(&asked, store.by()).await);
        return store.assert_free(&name("k")).await;
    }
    let reply = store.connect(store.by()).await.expect("the store answers");
    let at = reply.at.expect("the store says its time");
    asked.deadline = Some(at.saturating_add(harness.timing().slack));
    let _ = store.take_as(&asked).await;
    harness.advance(&store, MINUTE + secs(1)).await;
    asked = request(names(&["k", "other"]), token());
    asked.deadline = Some(at.saturating_add(MINUTE));
    assert_eq!(store.ask_acquire(&asked).await, Acquired::Refused(Refusal::DeadlinePassed));
    store.assert_free(&name("k")).await;
    store.assert_free(&name("other")).await;
}

/// The slack of a harness, in the unit of fencing tokens.
fn micros(harness: &impl Harness) -> u64 {
    u64::try_from(harness.timing().slack.as_micros()).expect("a slack of seconds")
}
