//! Several who hold one name together: readers, permits, holds of one owner, latches, barriers.

use std::vec::Vec;

use super::*;
use crate::{
    Crowd, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged, Fence, ForceReleaseRequest,
    Forced, ForeignKind, InspectRequest, Inspection, Kind, LimitSet, ListenerId, Mode, NotHeld,
    Novelty, Owner, PlaceRequest, Queued, Refusal, ReleaseRequest, Released, RenewRequest, Renewed,
    RevokeRequest, Revoked, SetLimitRequest, Wakeup,
};

const READ: Mode = Mode::Shared;
const WRITE: Mode = Mode::Exclusive;

fn permits(permits: u32, limit: u32) -> Mode {
    Mode::Permits { permits, limit }
}

fn owned(by: &str) -> Mode {
    Mode::Owned(Owner::new(by).expect("a short owner"))
}

fn listener(number: u8) -> ListenerId {
    ListenerId::from_u64(number.into())
}

/// A try, or the question of somebody who waits.
fn ask(mode: Mode, number: u8) -> AcquireRequest {
    let mut asked = request(&["k"], number);
    asked.mode = mode;
    asked.listener = Some(listener(number));
    asked
}

fn waits(mode: Mode, number: u8) -> AcquireRequest {
    let mut asked = ask(mode, number);
    asked.place = Some(PlaceRequest::new(ttl(500), millis(60_000)));
    asked
}

fn grant(table: &mut LockTable, mode: Mode, number: u8, now: StoreNow) -> Grant {
    match table.acquire(&ask(mode, number), now) {
        Acquired::Granted(grant) => grant,
        other => panic!("expected a grant, not {other:?}"),
    }
}

fn queue(table: &mut LockTable, mode: Mode, number: u8, now: StoreNow) -> Queued {
    match table.acquire(&waits(mode, number), now) {
        Acquired::Queued(queued) => queued,
        other => panic!("expected a place, not {other:?}"),
    }
}

fn is_busy(table: &mut LockTable, mode: Mode, number: u8, now: StoreNow) -> bool {
    matches!(table.acquire(&ask(mode, number), now), Acquired::Busy(_))
}

fn give(table: &mut LockTable, number: u8, now: StoreNow) -> Released {
    table.release(&ReleaseRequest::new(names(&["k"]), token(number)), now)
}

fn renew(table: &mut LockTable, number: u8, span: u64, now: StoreNow) -> Renewed {
    table.renew(&[RenewRequest::new(names(&["k"]), token(number), ttl(span))], now).remove(0)
}

/// Who holds it, in the order of the grants.
fn holders(table: &LockTable, now: StoreNow) -> Vec<u8> {
    let record = table.record(&name("k"));
    record.iter().flat_map(|r| r.live_shares(now)).map(|s| s.token.as_bytes()[0]).collect()
}

/// To whom the lease was handed, in order, since the last look.
fn handed(table: &mut LockTable) -> Vec<u8> {
    let of = |(_, wakeup): (ListenerId, Wakeup)| match wakeup {
        Wakeup::Granted(hand_off) => Some(hand_off.token.as_bytes()[0]),
        _ => None,
    };
    table.take_mail().into_iter().filter_map(of).collect()
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let mut table = table();
    let first = grant(&mut table, READ, 1, ms(0));
    let second = grant(&mut table, READ, 2, ms(1));
    assert!(second.fence.token() > first.fence.token());
    assert!(is_busy(&mut table, WRITE, 3, ms(2)));
    assert_eq!(give(&mut table, 1, ms(3)), Released::Held);
    assert!(is_busy(&mut table, WRITE, 3, ms(4)));
    assert_eq!(give(&mut table, 2, ms(5)), Released::Held);
    let writer = grant(&mut table, WRITE, 3, ms(6));
    assert!(writer.fence.token() > second.fence.token());
    assert!(is_busy(&mut table, READ, 4, ms(7)));
    assert!(is_busy(&mut table, WRITE, 4, ms(7)));
}

#[test]
fn a_dead_reader_blocks_a_writer_for_no_longer_than_its_ttl() {
    let mut table = table();
    let _ = grant(&mut table, READ, 1, ms(0));
    let _ = grant(&mut table, READ, 2, ms(500));
    assert_eq!(queue(&mut table, WRITE, 3, ms(600)).busy.holder.remaining, Some(millis(900)));
    assert!(matches!(table.acquire(&waits(WRITE, 3), ms(1_499)), Acquired::Queued(_)));
    assert!(matches!(table.acquire(&waits(WRITE, 3), ms(1_500)), Acquired::Granted(_)));
}

#[test]
fn a_waiting_writer_is_before_later_readers_and_readers_come_in_one_batch() {
    let mut table = table();
    let _ = grant(&mut table, READ, 1, ms(0));
    assert_eq!(queue(&mut table, WRITE, 2, ms(1)).position, 1);
    for number in 3..6 {
        let _ = queue(&mut table, READ, number, ms(2));
    }
    let _ = queue(&mut table, WRITE, 6, ms(3));
    let _ = queue(&mut table, READ, 7, ms(4));
    assert_eq!(give(&mut table, 1, ms(5)), Released::Held);
    assert_eq!(handed(&mut table), [2]);
    assert_eq!(give(&mut table, 2, ms(6)), Released::Held);
    assert_eq!(handed(&mut table), [3, 4, 5]);
    assert_eq!(holders(&table, ms(6)), [3, 4, 5]);
    for number in [5, 3, 4] {
        assert_eq!(give(&mut table, number, ms(7)), Released::Held);
    }
    assert_eq!(handed(&mut table), [6]);
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_join() {
    let mut table = table();
    let _ = grant(&mut table, READ, 1, ms(0));
    let _ = queue(&mut table, WRITE, 2, ms(1));
    let _ = queue(&mut table, READ, 3, ms(2));
    assert_eq!(give(&mut table, 2, ms(3)), Released::Withdrawn);
    assert_eq!(handed(&mut table), [3]);
    assert_eq!(holders(&table, ms(3)), [1, 3]);
}

#[test]
fn a_copy_of_a_share_is_repeated_and_a_late_one_is_refused() {
    let mut table = table();
    let first = grant(&mut table, READ, 1, ms(0));
    let _ = grant(&mut table, READ, 2, ms(0));
    let again = grant(&mut table, READ, 1, ms(400));
    assert_eq!((again.novelty, again.fence), (Novelty::Repeated, first.fence));
    assert_eq!(again.remaining, millis(600));
    assert_eq!(give(&mut table, 1, ms(401)), Released::Held);
    assert_eq!(give(&mut table, 1, ms(402)), Released::Held);
    let late = table.acquire(&ask(READ, 1), ms(403));
    assert_eq!(late, Acquired::Refused(Refusal::TokenRetired));
    assert_eq!(give(&mut table, 2, ms(404)), Released::Held);
    assert_eq!(give(&mut table, 1, ms(405)), Released::Held);
    assert_eq!(give(&mut table, 9, ms(405)), Released::Expired);
}

#[test]
fn each_share_has_a_lease_of_its_own() {
    let mut table = table();
    let _ = grant(&mut table, READ, 1, ms(0));
    let _ = grant(&mut table, READ, 2, ms(0));
    assert_eq!(renew(&mut table, 2, 2_000, ms(500)), Renewed::extended(millis(2_000)));
    assert_eq!(renew(&mut table, 1, 2_000, ms(1_000)), Renewed::NotHeld(NotHeld::Expired));
    assert_eq!(give(&mut table, 1, ms(1_000)), Released::Expired);
    assert_eq!(holders(&table, ms(1_000)), [2]);
    assert_eq!(renew(&mut table, 3, 2_000, ms(1_000)), Renewed::NotHeld(NotHeld::Expired));
}

#[test]
fn a_downgrade_keeps_the_number_and_lets_the_readers_in() {
    let mut table = table();
    let writer = grant(&mut table, WRITE, 1, ms(0));
    let _ = queue(&mut table, READ, 2, ms(1));
    let _ = queue(&mut table, WRITE, 3, ms(2));
    let asked = DowngradeRequest::new(name("k"), token(1));
    let left = Downgraded::Shared { remaining: millis(990) };
    assert_eq!(table.downgrade(&asked, ms(10)), left);
    assert_eq!(table.downgrade(&asked, ms(10)), left);
    assert_eq!(handed(&mut table), [2]);
    assert_eq!(holders(&table, ms(10)), [1, 2]);
    let record = table.record(&name("k")).and_then(|record| record.live_share(token(1), ms(10)));
    assert_eq!(record.and_then(|share| share.fencing_token), writer.fence.token());
    assert_eq!(
        table.downgrade(&DowngradeRequest::new(name("k"), token(9)), ms(10)),
        Downgraded::NotHeld(NotHeld::Expired)
    );
    assert_eq!(give(&mut table, 1, ms(11)), Released::Held);
    assert_eq!(give(&mut table, 2, ms(11)), Released::Held);
    assert_eq!(handed(&mut table), [3]);
}

#[test]
fn permits_are_as_many_as_the_limit_and_a_large_request_keeps_its_place() {
    let mut table = table();
    let _ = grant(&mut table, permits(2, 4), 1, ms(0));
    let _ = grant(&mut table, permits(1, 4), 2, ms(0));
    assert!(is_busy(&mut table, permits(2, 4), 3, ms(1)));
    let _ = queue(&mut table, permits(4, 4), 4, ms(2));
    // One is left, but the large request was first.
    assert!(is_busy(&mut table, permits(1, 4), 5, ms(3)));
    let _ = queue(&mut table, permits(1, 4), 5, ms(3));
    assert_eq!(give(&mut table, 1, ms(4)), Released::Held);
    assert!(handed(&mut table).is_empty());
    assert_eq!(give(&mut table, 2, ms(5)), Released::Held);
    assert_eq!(handed(&mut table), [4]);
    assert_eq!(give(&mut table, 4, ms(6)), Released::Held);
    assert_eq!(handed(&mut table), [5]);
}

#[test]
fn who_says_another_limit_is_told_the_one_that_is_kept() {
    let mut table = table();
    let _ = grant(&mut table, permits(1, 4), 1, ms(0));
    let differs = Acquired::Refused(Refusal::LimitDiffers { limit: 4 });
    assert_eq!(table.acquire(&ask(permits(1, 5), 2), ms(1)), differs);
    let _ = give(&mut table, 1, ms(2));
    assert_eq!(table.acquire(&ask(permits(1, 5), 2), ms(3)), differs);
}

#[test]
fn a_larger_limit_lets_waiters_in_and_a_smaller_one_waits_for_permits_to_come_back() {
    let mut table = table();
    let _ = grant(&mut table, permits(2, 2), 1, ms(0));
    let _ = queue(&mut table, permits(1, 2), 2, ms(1));
    let set = |limit| SetLimitRequest::new(name("k"), limit);
    assert_eq!(table.set_limit(&set(3), ms(2)), LimitSet::Set { before: Some(2), used: 2 });
    // It asked for one of two: now it has to say what it wants of three.
    assert_eq!(table.take_mail(), [(listener(2), Wakeup::Turn(token(2)))]);
    let _ = grant(&mut table, permits(1, 3), 3, ms(3));
    assert_eq!(table.set_limit(&set(1), ms(4)), LimitSet::Set { before: Some(3), used: 3 });
    assert!(is_busy(&mut table, permits(1, 1), 4, ms(5)));
    let _ = give(&mut table, 1, ms(6));
    assert!(is_busy(&mut table, permits(1, 1), 4, ms(7)));
    let _ = give(&mut table, 3, ms(8));
    let _ = grant(&mut table, permits(1, 1), 4, ms(9));
}

#[test]
fn holds_of_one_owner_have_one_fencing_token_and_mind_no_line() {
    let mut table = table();
    let first = grant(&mut table, owned("job-7"), 1, ms(0));
    let _ = queue(&mut table, owned("job-8"), 2, ms(1));
    let again = grant(&mut table, owned("job-7"), 3, ms(2));
    assert_eq!((again.novelty, again.fence), (Novelty::Fresh, first.fence));
    assert!(is_busy(&mut table, READ, 4, ms(3)));
    assert_eq!(give(&mut table, 1, ms(4)), Released::Held);
    assert!(handed(&mut table).is_empty());
    assert_eq!(give(&mut table, 3, ms(5)), Released::Held);
    assert_eq!(handed(&mut table), [2]);
    let other = table.record(&name("k")).and_then(|record| record.live_share(token(2), ms(5)));
    assert!(other.and_then(|share| share.fencing_token) > first.fence.token());
}

#[test]
fn a_latch_opens_with_its_last_step_and_stays_open() {
    let mut table = table();
    let (step, open) = (Mode::CountDown { count: 2 }, Mode::Opening { count: 2 });
    assert_eq!(queue(&mut table, open.clone(), 1, ms(0)).busy.holder.remaining, None);
    let _ = grant(&mut table, step.clone(), 2, ms(1));
    let _ = grant(&mut table, step.clone(), 2, ms(1));
    assert!(table.take_mail().is_empty());
    let _ = grant(&mut table, step.clone(), 3, ms(500));
    assert_eq!(table.take_mail(), [(listener(1), Wakeup::Turn(token(1)))]);
    // The last step prolonged the first.
    let _ = grant(&mut table, open.clone(), 1, ms(1_499));
    let _ = grant(&mut table, step, 4, ms(1_499));
    assert_eq!(holders(&table, ms(1_499)), [2, 3]);
    assert!(is_busy(&mut table, open, 1, ms(1_500)));
}

#[test]
fn a_barrier_lets_everybody_go_when_the_last_party_comes() {
    let mut table = table();
    let meet = Mode::Meeting { parties: 3 };
    let _ = queue(&mut table, meet.clone(), 1, ms(0));
    let _ = queue(&mut table, meet.clone(), 2, ms(1));
    assert_eq!(queue(&mut table, meet.clone(), 1, ms(2)).position, 1);
    let last = match table.acquire(&waits(meet.clone(), 3), ms(3)) {
        Acquired::Granted(grant) => grant,
        other => panic!("expected a grant, not {other:?}"),
    };
    assert_eq!(handed(&mut table), [1, 2]);
    assert_eq!(grant(&mut table, meet.clone(), 1, ms(4)).fence, last.fence);
    // The next meeting does not mind who has not left the last one yet.
    let _ = queue(&mut table, meet.clone(), 4, ms(5));
    for number in 1..4 {
        assert_eq!(give(&mut table, number, ms(6)), Released::Held);
    }
    let _ = queue(&mut table, meet, 4, ms(7));
    assert_eq!(table.waiting(&name("k")), 1);
}

#[test]
fn a_party_that_is_gone_is_not_waited_for_and_not_counted() {
    let mut table = table();
    let meet = Mode::Meeting { parties: 2 };
    let mut short = waits(meet.clone(), 1);
    short.place = Some(PlaceRequest::new(ttl(500), millis(100)));
    assert!(matches!(table.acquire(&short, ms(0)), Acquired::Queued(_)));
    let _ = queue(&mut table, meet.clone(), 2, ms(200));
    assert_eq!(table.waiting(&name("k")), 1);
    assert!(matches!(table.acquire(&waits(meet, 3), ms(201)), Acquired::Granted(_)));
    assert_eq!(handed(&mut table), [2]);
}

#[test]
fn a_party_that_is_too_far_ahead_sends_nobody_away() {
    let mut table = table();
    let meet = Mode::Meeting { parties: 2 };
    let _ = queue(&mut table, meet.clone(), 1, ms(0));
    let mut ahead = ask(meet.clone(), 2);
    ahead.floor = FencingToken::new(9_000_000_000_000_000).ok();
    assert!(matches!(table.acquire(&ahead, ms(1)), Acquired::Busy(_)));
    assert_eq!(table.waiting(&name("k")), 1);
    assert!(matches!(table.acquire(&waits(meet, 3), ms(2)), Acquired::Granted(_)));
}

#[test]
fn a_place_of_another_kind_behind_one_that_lapsed_never_joins() {
    let mut table = table();
    let _ = grant(&mut table, WRITE, 1, ms(0));
    let mut short = waits(WRITE, 2);
    short.place = Some(PlaceRequest::new(ttl(500), millis(100)));
    assert!(matches!(table.acquire(&short, ms(0)), Acquired::Queued(_)));
    let _ = queue(&mut table, READ, 3, ms(1));
    // The writer's lease is over, and the first place has lapsed.
    let mut later = ask(permits(1, 2), 4);
    later.barging = true;
    assert!(matches!(table.acquire(&later, ms(1_000)), Acquired::Granted(_)));
    assert_eq!(holders(&table, ms(1_001)), [4]);
}

#[test]
fn whose_share_ended_may_come_again_whoever_looked_meanwhile() {
    for looked in [false, true] {
        let mut table = table();
        let _ = grant(&mut table, READ, 1, ms(0));
        let _ = grant(&mut table, READ, 2, ms(500));
        if looked {
            let _ = renew(&mut table, 2, 2_000, ms(1_000));
        }
        let again = grant(&mut table, READ, 1, ms(1_000));
        assert_eq!(again.novelty, Novelty::Fresh, "{looked}");
    }
}

#[test]
fn another_kind_of_lock_is_foreign_while_it_is_held_or_waited_for_and_free_after() {
    let mut table = table();
    let foreign = |answer: Acquired, kind: Kind| match answer {
        Acquired::Foreign(foreign) => foreign.kind == ForeignKind::Kind(kind.as_str().into()),
        _ => false,
    };
    let first = grant(&mut table, permits(1, 2), 1, ms(0));
    assert!(foreign(table.acquire(&ask(WRITE, 2), ms(1)), Kind::Semaphore));
    let _ = give(&mut table, 1, ms(2));
    let second = grant(&mut table, WRITE, 2, ms(3));
    assert!(second.fence.token() > first.fence.token());
    assert!(foreign(table.acquire(&ask(permits(1, 2), 3), ms(4)), Kind::Lock));
    let _ = give(&mut table, 2, ms(5));
    let _ = queue(&mut table, Mode::Opening { count: 1 }, 4, ms(6));
    assert!(foreign(table.acquire(&ask(WRITE, 5), ms(7)), Kind::Latch));
    assert_eq!(give(&mut table, 4, ms(8)), Released::Withdrawn);
    let _ = grant(&mut table, WRITE, 5, ms(9));
}

#[test]
fn an_inspection_tells_who_they_are_and_a_contender_only_how_many() {
    let mut table = table();
    for number in 1..4 {
        let _ = grant(&mut table, permits(2, 9), number, ms(0));
    }
    let Inspection::Held(holder) = table.inspect(&InspectRequest::new(name("k")), ms(1)) else {
        panic!("it is held");
    };
    let sharing = holder.sharing.expect("it is shared");
    assert_eq!((sharing.holders, sharing.used, sharing.limit), (3, 6, Some(9)));
    assert_eq!((sharing.others.len(), holder.kind), (2, Kind::Semaphore));
    let Acquired::Busy(busy) = table.acquire(&ask(permits(4, 9), 5), ms(1)) else {
        panic!("it is busy");
    };
    let sharing = busy.holder.sharing.expect("it is shared");
    assert!(sharing.others.is_empty() && busy.holder.proof.is_none());
}

#[test]
fn everybody_is_asked_back_and_force_frees_them_all() {
    let mut table = table();
    let _ = grant(&mut table, READ, 1, ms(0));
    let _ = grant(&mut table, READ, 2, ms(0));
    let asked = table.revoke(&RevokeRequest::new(name("k")), ms(1));
    assert!(matches!(asked, Revoked::Requested(_)));
    assert_eq!(table.take_mail().len(), 2);
    let told = |answer| matches!(answer, Renewed::Extended { revoked: true, .. });
    assert!(told(renew(&mut table, 1, 1_000, ms(2))) && told(renew(&mut table, 2, 1_000, ms(2))));
    let forced = table.force_release(&ForceReleaseRequest::new(name("k")), ms(3));
    assert!(matches!(forced, Forced::Removed(_)));
    assert_eq!(give(&mut table, 1, ms(4)), Released::Expired);
    let _ = grant(&mut table, WRITE, 3, ms(4));
    assert_eq!(give(&mut table, 2, ms(4)), Released::Taken);
}

#[test]
fn a_share_can_be_adopted_once() {
    let mut table = table();
    let first = grant(&mut table, READ, 1, ms(0));
    let _ = grant(&mut table, READ, 2, ms(0));
    let adopt = |to| ExchangeRequest::new(names(&["k"]), token(1), token(to), ttl(1_000));
    let Exchanged::Granted(grant) = table.exchange_token(&adopt(5), ms(1)) else {
        panic!("it is held");
    };
    assert!(grant.fence.token() > first.fence.token());
    assert_eq!(table.exchange_token(&adopt(6), ms(2)), Exchanged::NotHeld(NotHeld::Expired));
    assert_eq!(holders(&table, ms(2)), [5, 2]);
}

#[test]
fn a_name_has_no_more_shares_than_a_step_can_look_at() {
    let mut table = table();
    let mut asked = ask(READ, 1);
    for number in 0..Crowd::MAX_SHARES {
        let mut bytes = [0; Token::BYTES];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        asked.token = Token::from_bytes(bytes);
        assert!(matches!(table.acquire(&asked, ms(0)), Acquired::Granted(_)));
    }
    asked.token = token(255);
    assert_eq!(table.acquire(&asked, ms(0)), Acquired::Refused(Refusal::CrowdFull));
    assert!(matches!(table.acquire(&waits(READ, 254), ms(0)), Acquired::Queued(_)));
    let _ = give(&mut table, 0, ms(1));
    assert!(matches!(grant(&mut table, READ, 254, ms(2)).fence, Fence::Token(_)));
}

/// A place that lapses after so many milliseconds.
fn short_lived(mode: Mode, number: u8, live: u64) -> AcquireRequest {
    let mut short = waits(mode, number);
    short.place = Some(PlaceRequest::new(ttl(500), millis(live)));
    short
}

#[test]
fn a_lease_that_is_handed_over_by_a_question_for_another_kind_stays() {
    for mode in [Mode::Meeting { parties: 2 }, Mode::Opening { count: 1 }] {
        let mut table = table();
        let _ = grant(&mut table, WRITE, 1, ms(0));
        assert!(matches!(table.acquire(&short_lived(WRITE, 2, 100), ms(0)), Acquired::Queued(_)));
        let _ = queue(&mut table, WRITE, 3, ms(1));
        let _ = queue(&mut table, WRITE, 4, ms(2));
        let answer = table.acquire(&ask(mode, 5), ms(1_000));
        assert!(matches!(answer, Acquired::Foreign(_)), "{answer:?}");
        assert_eq!(handed(&mut table), [3]);
        assert!(is_busy(&mut table, WRITE, 6, ms(1_001)));
        assert!(matches!(renew(&mut table, 3, 1_000, ms(1_002)), Renewed::Extended { .. }));
    }
    let mut table = table();
    let _ = grant(&mut table, WRITE, 1, ms(0));
    assert!(matches!(table.acquire(&short_lived(WRITE, 2, 100), ms(0)), Acquired::Queued(_)));
    let _ = queue(&mut table, WRITE, 3, ms(1));
    let answer = table.set_limit(&SetLimitRequest::new(name("k"), 3), ms(1_000));
    assert!(matches!(answer, LimitSet::Foreign(_)), "{answer:?}");
    assert!(matches!(renew(&mut table, 3, 1_000, ms(1_002)), Renewed::Extended { .. }));
}

#[test]
fn what_can_not_be_had_is_refused() {
    let too_many = Mode::MAX_PARTIES + 1;
    for mode in [
        permits(5, 4),
        permits(0, 4),
        permits(1, Mode::MAX_LIMIT + 1),
        Mode::CountDown { count: 0 },
        Mode::Opening { count: too_many },
        Mode::Meeting { parties: too_many },
    ] {
        let answer = table().acquire(&ask(mode.clone(), 1), ms(0));
        assert_eq!(answer, Acquired::Refused(Refusal::Impossible), "{mode:?}");
    }
}

#[test]
fn a_party_that_did_not_hear_finds_its_share_when_it_asks_next() {
    let mut table = table();
    let meet = Mode::Meeting { parties: 2 };
    let _ = queue(&mut table, meet.clone(), 1, ms(0));
    assert!(matches!(table.acquire(&waits(meet.clone(), 2), ms(1)), Acquired::Granted(_)));
    assert_eq!(give(&mut table, 2, ms(2)), Released::Held);
    // Its claim of half a second would be over.
    assert!(matches!(table.acquire(&waits(meet, 1), ms(10_000)), Acquired::Granted(_)));
}

#[test]
fn the_steps_of_a_latch_end_together_whichever_was_longest() {
    let (step, open) = (Mode::CountDown { count: 2 }, Mode::Opening { count: 2 });
    let mut table = table();
    let mut long = ask(step.clone(), 1);
    long.ttl = ttl(60_000);
    assert!(matches!(table.acquire(&long, ms(0)), Acquired::Granted(_)));
    let _ = grant(&mut table, step, 2, ms(1));
    let _ = grant(&mut table, open.clone(), 3, ms(59_999));
    let _ = renew(&mut table, 2, 60_000, ms(59_999));
    let _ = grant(&mut table, open.clone(), 3, ms(119_998));
    assert!(is_busy(&mut table, open, 3, ms(119_999)));
}

#[test]
fn a_writer_hears_when_the_readers_will_be_over_sooner() {
    let mut table = table();
    let mut long = ask(READ, 1);
    long.ttl = ttl(60_000);
    assert!(matches!(table.acquire(&long, ms(0)), Acquired::Granted(_)));
    let _ = grant(&mut table, READ, 2, ms(0));
    let _ = queue(&mut table, WRITE, 3, ms(1));
    let _ = table.take_mail();
    assert_eq!(give(&mut table, 1, ms(10)), Released::Held);
    assert_eq!(table.take_mail(), [(listener(3), Wakeup::Next(token(3), millis(990)))]);
}

#[test]
fn only_a_writer_is_downgraded() {
    let mut table = table();
    let _ = grant(&mut table, owned("a"), 1, ms(0));
    let asked = DowngradeRequest::new(name("k"), token(1));
    assert_eq!(table.downgrade(&asked, ms(1)), Downgraded::NotHeld(NotHeld::Expired));
    assert!(matches!(renew(&mut table, 1, 1_000, ms(2)), Renewed::Extended { .. }));
}
