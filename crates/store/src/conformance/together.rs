//! Several who hold one name together: readers, permits, holds of one owner, latches, barriers.
//!
//! A store without the capability refuses each of these requests, and nothing happens.

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, Exchanged, Forced, ForeignKind, Grant,
    Inspection, Kind, LimitSet, LockName, Metadata, Mode, NotHeld, Novelty, Owner, PlaceRequest,
    Proof, Queued, Refusal, Released, Renewed, Revoked, SetLimitRequest, Shortened, Token, Wakeup,
};

use super::{
    Harness,
    line::{CLAIM, busy},
    support::{
        Ask as _, MINUTE, answered, assert_unsupported, fenced, metadata, name, request, secs,
        token, ttl,
    },
    wakeups::listening,
};
use crate::{Modes, Store};

const READ: Mode = Mode::Shared;
const WRITE: Mode = Mode::Exclusive;

fn permits(permits: u32, limit: u32) -> Mode {
    Mode::Permits { permits, limit }
}

fn owned(by: &str) -> Mode {
    Mode::Owned(Owner::new(by).expect("a short owner"))
}

fn k() -> LockName {
    name("k")
}

/// One try.
fn tries(mode: &Mode, token: Token) -> AcquireRequest {
    let mut tries = request(k(), token);
    tries.mode = mode.clone();
    tries
}

/// A question of somebody who waits.
fn waits(mode: &Mode, token: Token) -> AcquireRequest {
    let mut waits = tries(mode, token);
    waits.place = Some(PlaceRequest::new(ttl(CLAIM), MINUTE));
    waits
}

/// Whether names can be held together in all ways; where not, checks that the store says which it lacks.
/// A store that has some has tests of its own for them.
async fn can_share(store: &impl Store) -> bool {
    if store.capabilities().modes == Modes::ALL {
        return true;
    }
    let by = store.by();
    let can = store.capabilities().modes;
    let modes = [READ, permits(1, 2), owned("me"), Mode::Meeting { parties: 2 }];
    for mode in modes.iter().filter(|mode| !can.has(mode)) {
        assert_unsupported(store.acquire(&tries(mode, token()), by).await);
    }
    if !can.downgrade {
        assert_unsupported(store.downgrade(&DowngradeRequest::new(k(), token()), by).await);
    }
    if !can.set_limit {
        assert_unsupported(store.set_limit(&SetLimitRequest::new(k(), 2), by).await);
    }
    store.assert_free(&k()).await;
    false
}

async fn share(store: &impl Store, mode: &Mode, token: Token) -> Grant {
    store.take_as(&tries(mode, token)).await
}

/// A new holder.
async fn enter(store: &impl Store, mode: &Mode) -> Token {
    let token = token();
    let _ = share(store, mode, token).await;
    token
}

async fn is_busy(store: &impl Store, mode: &Mode) -> bool {
    matches!(store.ask_acquire(&tries(mode, token())).await, Acquired::Busy(_))
}

async fn queue(store: &impl Store, mode: &Mode, position: u32) -> AcquireRequest {
    let waiter = waits(mode, token());
    store.queue(&waiter, position).await;
    waiter
}

async fn still_waits(store: &impl Store, waiter: &AcquireRequest) -> Queued {
    match store.ask_acquire(waiter).await {
        Acquired::Queued(queued) => queued,
        other => panic!("expected a place, not {other:?}"),
    }
}

async fn leave(store: &impl Store, token: Token) {
    assert_eq!(store.give_back(k(), token).await, Released::Held);
}

async fn limit(store: &impl Store, limit: u32) -> LimitSet {
    answered(store.set_limit(&SetLimitRequest::new(k(), limit), store.by()).await)
}

pub async fn readers_share_a_name_and_a_writer_is_alone(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let other = harness.another(&store).await;
    let (first, second) = (token(), token());
    let one = fenced(&share(&store, &READ, first).await);
    let two = fenced(&share(&other, &READ, second).await);
    assert!(two > one, "each reader has a number of its own");
    assert!(is_busy(&store, &WRITE).await);
    leave(&other, first).await;
    assert!(is_busy(&store, &WRITE).await);
    leave(&store, second).await;
    let writer = token();
    assert!(fenced(&share(&other, &WRITE, writer).await) > two);
    assert!(is_busy(&store, &READ).await);
    assert!(is_busy(&store, &WRITE).await);
    leave(&store, writer).await;
    enter(&store, &READ).await;
}

pub async fn a_share_that_ends_unrenewed_keeps_nobody_out(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let mut short = tries(&READ, token());
    short.ttl = ttl(secs(1));
    let _ = store.take_as(&short).await;
    let _ = enter(&store, &READ).await;
    let mut writer = tries(&WRITE, token());
    writer.ttl = ttl(secs(3_600));
    assert!(matches!(store.ask_acquire(&writer).await, Acquired::Busy(_)));
    harness.advance(&store, secs(2)).await;
    assert!(matches!(store.ask_acquire(&writer).await, Acquired::Busy(_)));
    assert_eq!(store.holder(&k()).await.sharing.expect("it is shared").holders, 1);
    harness.advance(&store, MINUTE).await;
    let _ = store.take_as(&writer).await;
}

pub async fn a_writer_is_before_readers_that_came_later_and_they_come_in_one_batch(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let reader = enter(&store, &READ).await;
    let writer = queue(&store, &WRITE, 1).await;
    assert!(is_busy(&store, &READ).await, "a reader does not pass a writer that waits");
    let mut behind = Vec::new();
    for position in 2..5 {
        behind.push(queue(&store, &READ, position).await);
    }
    let last = queue(&store, &WRITE, 5).await;
    leave(&store, reader).await;
    let _ = store.fetch(&writer).await;
    leave(&store, writer.token).await;
    for waiter in &behind {
        let _ = store.fetch(waiter).await;
    }
    for waiter in &behind {
        still_waits(&store, &last).await;
        leave(&store, waiter.token).await;
    }
    let _ = store.fetch(&last).await;
}

pub async fn a_share_is_renewed_shortened_and_released_by_itself(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let (first, second) = (enter(&store, &READ).await, enter(&store, &READ).await);
    let hour = secs(3_600);
    let renewed = store.renew_for(k(), first, hour).await;
    assert!(renewed.remaining().is_some_and(|left| left <= hour && left > MINUTE), "{renewed:?}");
    match store.shorten_to(k(), second, secs(5)).await {
        Shortened::Shortened { remaining } => assert!(remaining <= secs(5)),
        other => panic!("it is held: {other:?}"),
    }
    harness.advance(&store, secs(6)).await;
    let gone = Renewed::NotHeld(NotHeld::Expired);
    assert_eq!(store.renew_for(k(), second, hour).await, gone);
    assert_eq!(store.renew_for(k(), token(), hour).await, gone);
    assert_eq!(store.give_back(k(), second).await, Released::Expired);
    assert!(store.renew_for(k(), first, hour).await.remaining().is_some());
    leave(&store, first).await;
    store.assert_free(&k()).await;
}

pub async fn a_copy_of_a_share_is_repeated_and_a_late_one_is_refused(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let asked = tries(&permits(2, 5), token());
    let first = store.take_as(&asked).await;
    let other = enter(&store, &permits(1, 5)).await;
    let again = store.fetch(&asked).await;
    assert_eq!((again.fence, again.novelty), (first.fence, Novelty::Repeated));
    assert_eq!(store.holder(&k()).await.sharing.expect("it is shared").used, 3);
    leave(&store, asked.token).await;
    let late = store.ask_acquire(&asked).await;
    assert_eq!(late, Acquired::Refused(Refusal::TokenRetired));
    leave(&store, other).await;
    let late = store.ask_acquire(&asked).await;
    assert_eq!(late, Acquired::Refused(Refusal::TokenRetired));
    store.assert_free(&k()).await;
}

pub async fn the_release_of_a_share_says_the_same_again(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let (first, second) = (enter(&store, &READ).await, enter(&store, &READ).await);
    leave(&store, first).await;
    leave(&store, first).await;
    leave(&store, second).await;
    leave(&store, first).await;
    leave(&store, second).await;
    assert_eq!(store.give_back(k(), token()).await, Released::Expired);
    let writer = enter(&store, &WRITE).await;
    assert_eq!(store.give_back(k(), first).await, Released::Taken);
    leave(&store, writer).await;
}

pub async fn a_writer_becomes_a_reader_under_the_same_number(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let writer = token();
    let number = fenced(&share(&store, &WRITE, writer).await);
    let reader = queue(&store, &READ, 1).await;
    let next = queue(&store, &WRITE, 2).await;
    let ask = DowngradeRequest::new(k(), writer);
    for _ in 0..2 {
        match answered(store.downgrade(&ask, store.by()).await) {
            Downgraded::Shared { remaining } => assert!(remaining <= MINUTE),
            other @ Downgraded::NotHeld(_) => panic!("it is held: {other:?}"),
            other => panic!("{other:?}"),
        }
    }
    let _ = store.fetch(&reader).await;
    let again = store.fetch(&tries(&READ, writer)).await;
    assert_eq!(fenced(&again), number);
    still_waits(&store, &next).await;
    let stranger = DowngradeRequest::new(k(), token());
    let answer = answered(store.downgrade(&stranger, store.by()).await);
    assert_eq!(answer, Downgraded::NotHeld(NotHeld::Expired));
    leave(&store, writer).await;
    leave(&store, reader.token).await;
    assert!(fenced(&store.fetch(&next).await) > number);
    let late = answered(store.downgrade(&ask, store.by()).await);
    assert_eq!(late, Downgraded::NotHeld(NotHeld::Taken));
}

pub async fn permits_are_as_many_as_the_limit_and_large_requests_keep_their_place(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let two = enter(&store, &permits(2, 4)).await;
    let one = enter(&store, &permits(1, 4)).await;
    assert!(is_busy(&store, &permits(2, 4)).await);
    let all = queue(&store, &permits(4, 4), 1).await;
    assert!(is_busy(&store, &permits(1, 4)).await, "one is left, and somebody waits for four");
    let small = queue(&store, &permits(1, 4), 2).await;
    leave(&store, two).await;
    still_waits(&store, &all).await;
    leave(&store, one).await;
    let _ = store.fetch(&all).await;
    still_waits(&store, &small).await;
    leave(&store, all.token).await;
    let _ = store.fetch(&small).await;
}

pub async fn another_limit_is_answered_with_the_one_that_is_kept(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let holder = enter(&store, &permits(1, 4)).await;
    let kept = Acquired::Refused(Refusal::LimitDiffers { limit: 4 });
    assert_eq!(store.ask_acquire(&tries(&permits(1, 5), token())).await, kept);
    assert_eq!(store.ask_acquire(&waits(&permits(1, 3), token())).await, kept);
    leave(&store, holder).await;
    assert_eq!(store.ask_acquire(&tries(&permits(1, 5), token())).await, kept);
    enter(&store, &permits(4, 4)).await;
}

pub async fn the_limit_is_changed_for_those_who_come_and_those_who_hold(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    assert_eq!(limit(&store, 2).await, LimitSet::Set { before: None, used: 0 });
    let both = enter(&store, &permits(2, 2)).await;
    assert_eq!(limit(&store, 3).await, LimitSet::Set { before: Some(2), used: 2 });
    let third = enter(&store, &permits(1, 3)).await;
    assert_eq!(limit(&store, 1).await, LimitSet::Set { before: Some(3), used: 3 });
    assert!(is_busy(&store, &permits(1, 1)).await);
    assert!(store.renew_for(k(), both, MINUTE).await.remaining().is_some());
    leave(&store, both).await;
    assert!(is_busy(&store, &permits(1, 1)).await);
    let waiter = queue(&store, &permits(1, 1), 1).await;
    assert_eq!(limit(&store, 2).await, LimitSet::Set { before: Some(1), used: 1 });
    // It asked for one of one: now it has to say what it wants of two.
    let told = Acquired::Refused(Refusal::LimitDiffers { limit: 2 });
    assert_eq!(store.ask_acquire(&waiter).await, told);
    leave(&store, third).await;
    let writer = {
        enter(&store, &permits(2, 2)).await;
        limit(&harness.another(&store).await, 9).await
    };
    assert_eq!(writer, LimitSet::Set { before: Some(2), used: 2 });
}

pub async fn holds_of_one_owner_have_one_number_and_mind_no_line(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let (first, again) = (token(), token());
    let number = fenced(&share(&store, &owned("job 7"), first).await);
    let waiter = queue(&store, &owned("job 8"), 1).await;
    assert_eq!(fenced(&share(&store, &owned("job 7"), again).await), number);
    for mode in [READ, WRITE, owned("job 9")] {
        assert!(is_busy(&store, &mode).await);
    }
    leave(&store, first).await;
    still_waits(&store, &waiter).await;
    leave(&store, again).await;
    assert!(fenced(&store.fetch(&waiter).await) > number);
    let owner = store.holder(&k()).await.sharing.and_then(|sharing| sharing.owner);
    assert_eq!(owner, Owner::new("job 8").ok());
}

pub async fn a_latch_opens_with_its_last_step(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let (step, open) = (Mode::CountDown { count: 2 }, Mode::Opening { count: 2 });
    let waiter = waits(&open, token());
    let queued = store.queue(&waiter, 1).await;
    assert_eq!(queued.busy.holder.remaining, None, "nothing ends by itself here");
    let one = enter(&store, &step).await;
    still_waits(&store, &waiter).await;
    let _ = store.fetch(&tries(&step, one)).await;
    still_waits(&store, &waiter).await;
    enter(&store, &step).await;
    assert!(matches!(store.ask_acquire(&waiter).await, Acquired::Granted(_)));
    assert!(matches!(store.ask_acquire(&tries(&open, token())).await, Acquired::Granted(_)));
    let sharing = store.holder(&k()).await.sharing.expect("two steps");
    assert_eq!((sharing.used, sharing.limit, sharing.holders), (2, Some(2), 2));
    // A step that comes later changes nothing.
    enter(&store, &step).await;
    assert_eq!(store.holder(&k()).await.sharing.expect("two steps").used, 2);
    harness.advance(&store, secs(61)).await;
    assert!(is_busy(&store, &open).await, "the steps are forgotten with their ttl");
}

pub async fn a_barrier_lets_all_parties_go_at_once(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let meet = Mode::Meeting { parties: 3 };
    let first = queue(&store, &meet, 1).await;
    let second = queue(&store, &meet, 2).await;
    still_waits(&store, &first).await;
    let last = waits(&meet, token());
    let number = store.take_as(&last).await.fence;
    for waiter in [&first, &second] {
        assert_eq!(store.fetch(waiter).await.fence, number);
    }
    let next = queue(&store, &meet, 1).await;
    for waiter in [&last, &second, &first] {
        leave(&store, waiter.token).await;
    }
    still_waits(&store, &next).await;
    let _ = queue(&store, &meet, 2).await;
    assert!(store.take_as(&waits(&meet, token())).await.fence.token() > number.token());
}

pub async fn a_party_that_gave_up_is_not_counted(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let meet = Mode::Meeting { parties: 2 };
    let first = queue(&store, &meet, 1).await;
    assert_eq!(store.give_back(k(), first.token).await, Released::Withdrawn);
    let mut silent = waits(&meet, token());
    silent.place = Some(PlaceRequest::new(ttl(CLAIM), secs(1)));
    store.queue(&silent, 1).await;
    harness.advance(&store, secs(2)).await;
    let third = waits(&meet, token());
    still_waits(&store, &third).await;
    let _ = store.take_as(&waits(&meet, token())).await;
    let _ = store.fetch(&third).await;
}

pub async fn another_kind_of_lock_is_foreign_until_the_name_is_free(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let is_foreign = |answer: Acquired, kind: Kind| match answer {
        Acquired::Foreign(foreign) => {
            foreign.name == k() && foreign.kind == ForeignKind::Kind(kind.as_str().into())
        }
        _ => false,
    };
    let holder = token();
    let number = fenced(&share(&store, &permits(1, 2), holder).await);
    assert!(is_foreign(store.try_take(k(), token()).await, Kind::Semaphore));
    assert!(is_foreign(store.ask_acquire(&waits(&READ, token())).await, Kind::Semaphore));
    leave(&store, holder).await;
    let writer = token();
    assert!(fenced(&store.take(k(), writer).await) > number);
    assert!(is_foreign(store.ask_acquire(&tries(&permits(1, 2), token())).await, Kind::Lock));
    let lock = ForeignKind::Kind(Kind::Lock.as_str().into());
    assert_eq!(limit(&store, 3).await, LimitSet::Foreign(lock));
    leave(&store, writer).await;
    let waiter = queue(&store, &Mode::Opening { count: 1 }, 1).await;
    assert!(is_foreign(store.try_take(k(), token()).await, Kind::Latch));
    assert_eq!(store.give_back(k(), waiter.token).await, Released::Withdrawn);
    let _ = store.take(k(), token()).await;
}

pub async fn an_inspection_shows_the_holders_and_a_contender_hears_how_many(
    harness: &impl Harness,
) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let mut holders = Vec::new();
    for _ in 0..3 {
        holders.push(enter(&store, &permits(2, 7)).await);
    }
    let holder = store.holder(&k()).await;
    assert_eq!((holder.kind, holder.proof), (Kind::Semaphore, Some(Proof::from(holders[2]))));
    let sharing = holder.sharing.expect("it is shared");
    assert_eq!((sharing.holders, sharing.used, sharing.limit), (3, 6, Some(7)));
    let others: Vec<_> = sharing.others.iter().map(|other| other.proof.clone()).collect();
    assert_eq!(others, [Some(Proof::from(holders[1])), Some(Proof::from(holders[0]))]);
    let seen = busy(store.ask_acquire(&tries(&permits(2, 7), token())).await).holder;
    assert_eq!((seen.proof, seen.kind), (None, Kind::Semaphore));
    let sharing = seen.sharing.expect("it is shared");
    assert_eq!((sharing.holders, sharing.used, sharing.others.len()), (3, 6, 0));
}

pub async fn everybody_is_asked_back_and_forced_out(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let (first, second) = (enter(&store, &READ).await, enter(&store, &READ).await);
    let waiter = queue(&store, &WRITE, 1).await;
    match store.ask_revoke(&k()).await {
        Revoked::Requested(holder) => assert!(holder.revoked),
        other => panic!("they were not asked: {other:?}"),
    }
    for token in [first, second] {
        match store.renew_for(k(), token, MINUTE).await {
            Renewed::Extended { revoked, waiting, .. } => assert_eq!((revoked, waiting), (true, 1)),
            other => panic!("it is held: {other:?}"),
        }
    }
    assert!(matches!(store.force(&k()).await, Forced::Removed(_)));
    let _ = store.fetch(&waiter).await;
    assert_eq!(store.give_back(k(), first).await, Released::Taken);
    leave(&store, waiter.token).await;
}

pub async fn a_share_is_adopted_with_a_larger_number(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let (first, heir) = (token(), token());
    let number = fenced(&share(&store, &READ, first).await);
    let beside = enter(&store, &READ).await;
    match store.exchange(k(), first, heir).await {
        Exchanged::Granted(grant) => assert!(fenced(&grant) > number),
        other => panic!("it was held: {other:?}"),
    }
    assert_eq!(store.exchange(k(), first, token()).await, Exchanged::NotHeld(NotHeld::Expired));
    assert_eq!(store.give_back(k(), first).await, Released::Expired);
    leave(&store, heir).await;
    leave(&store, beside).await;
    store.assert_free(&k()).await;
}

pub async fn metadata_and_listeners_belong_to_each_share(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let every_byte: Vec<u8> = (0..=255).chain(0..=255).chain([b'\r', b'\n']).collect();
    let said = [metadata("first"), metadata(every_byte), Metadata::default()];
    let ears = [listening(&store).await, listening(&store).await, None];
    let mut tokens = Vec::new();
    for (metadata, ear) in said.iter().zip(&ears) {
        let mut asked = tries(&READ, token());
        asked.metadata = metadata.clone();
        asked.listener = ear.as_ref().map(|(_, subscription)| subscription.listener);
        let _ = store.take_as(&asked).await;
        tokens.push(asked.token);
    }
    let holder = store.holder(&k()).await;
    let sharing = holder.sharing.expect("it is shared");
    let shown: Vec<_> = sharing.others.iter().rev().map(|other| other.metadata.clone()).collect();
    assert_eq!((shown, holder.metadata), (said[..2].to_vec(), said[2].clone()));
    let _ = store.ask_revoke(&k()).await;
    for (ear, token) in ears.iter().zip(&tokens) {
        if let Some((ear, _)) = ear {
            ear.hears(|wakeup| (*wakeup == Wakeup::Revoked(*token)).then_some(())).await;
        }
    }
}

pub async fn many_shares_come_and_go(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let mut tokens = Vec::new();
    for _ in 0..100 {
        tokens.push(enter(&store, &READ).await);
    }
    let writer = queue(&store, &WRITE, 1).await;
    let sharing = store.holder(&k()).await.sharing.expect("it is shared");
    assert_eq!((sharing.holders, sharing.others.len()), (100, 15));
    for (index, token) in tokens.into_iter().enumerate() {
        if index % 7 == 0 {
            assert!(store.renew_for(k(), token, MINUTE).await.remaining().is_some());
        }
        leave(&store, token).await;
    }
    let _ = store.fetch(&writer).await;
}

pub async fn a_handed_share_runs_for_its_claim(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let writer = enter(&store, &WRITE).await;
    let (lazy, quick) = (queue(&store, &READ, 1).await, queue(&store, &READ, 2).await);
    leave(&store, writer).await;
    assert!(store.fetch(&lazy).await.remaining <= CLAIM);
    assert!(store.renew_for(k(), quick.token, MINUTE).await.remaining() > Some(CLAIM));
    harness.advance(&store, CLAIM + Duration::from_secs(1)).await;
    let late = store.ask_acquire(&lazy).await;
    assert!(!matches!(&late, Acquired::Granted(grant) if grant.novelty == Novelty::Repeated));
    let _ = store.fetch(&quick).await;
}

pub async fn what_is_left_of_a_crowd_is_a_free_name_with_its_number(harness: &impl Harness) {
    let store = harness.fresh().await;
    if !can_share(&store).await {
        return;
    }
    let (first, second) = (token(), token());
    let _ = share(&store, &READ, first).await;
    let number = fenced(&share(&store, &READ, second).await);
    leave(&store, second).await;
    leave(&store, first).await;
    assert_eq!(store.look(&k()).await, Inspection::Free { fencing_token: Some(number) });
    let page =
        answered(store.list(&fencelock_core::ListRequest::new(k().as_bytes()), store.by()).await);
    assert!(page.locks.is_empty(), "{page:?}");
    let writer = enter(&store, &WRITE).await;
    assert!(is_busy(&store, &READ).await);
    leave(&store, writer).await;
}
