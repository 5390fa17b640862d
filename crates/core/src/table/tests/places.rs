//! Places in a line at their boundary instants, and at their limits.

use std::vec::Vec;

use super::*;
use crate::{
    Fence, ForceReleaseRequest, Forced, HandOff, HealRequest, Healed, InspectRequest, Inspection,
    ListenerId, NotHeld, Novelty, PlaceRequest, Queued, Refusal, ReleaseRequest, Released,
    RenewRequest, Renewed, Retain, RevokeRequest, Revoked, ShortenRequest, Wakeup,
};

/// A request that waits for `k` with a claim of a second and a place of 20 seconds.
fn waiter(number: u8) -> AcquireRequest {
    let mut asked = request(&["k"], number);
    asked.ttl = ttl(60_000);
    asked.place = Some(PlaceRequest::new(ttl(1_000), millis(20_000)));
    asked
}

fn heard_at(number: u8, listener: u64) -> AcquireRequest {
    let mut asked = waiter(number);
    asked.listener = Some(ListenerId::from_u64(listener));
    asked
}

fn queued(answer: Acquired) -> Queued {
    match answer {
        Acquired::Queued(queued) => queued,
        other => panic!("there was no place: {other:?}"),
    }
}

/// A table in which token 1 holds `k` for an hour.
fn held() -> LockTable {
    let mut table = table();
    let mut asked = request(&["k"], 1);
    asked.ttl = ttl(3_600_000);
    let _ = granted(&table.acquire(&asked, ms(0)));
    table
}

fn release(table: &mut LockTable, number: u8, now: StoreNow) -> Released {
    table.release(&ReleaseRequest::new(name("k"), token(number)), now)
}

fn owner(table: &LockTable, now: StoreNow) -> Option<Token> {
    table.record(&name("k")).filter(|record| record.is_live(now))?.token
}

fn line(table: &LockTable) -> Vec<Token> {
    table.line(&name("k")).map(|place| place.token).collect()
}

#[test]
fn a_place_is_served_in_the_last_microsecond_of_its_life_and_not_after_it() {
    let end = ms(100).lease.as_micros() + 20_000_000;
    for (micros, served) in [(end, true), (end + 1, false)] {
        let mut table = held();
        let _ = queued(table.acquire(&waiter(2), ms(100)));
        assert_eq!(release(&mut table, 1, at(micros)), Released::Held);
        assert_eq!(owner(&table, at(micros)), served.then_some(token(2)));
        assert_eq!(line(&table), []);
    }
}

#[test]
fn each_question_begins_the_life_of_a_place_anew() {
    let mut table = held();
    let _ = queued(table.acquire(&waiter(2), ms(0)));
    let _ = queued(table.acquire(&waiter(3), ms(0)));
    assert_eq!(queued(table.acquire(&waiter(2), ms(20_000))).position, 1);
    // Two lapsed, and asks: it has its old place still, since nobody took it away.
    assert_eq!(queued(table.acquire(&waiter(3), ms(30_000))).position, 2);
    assert_eq!(release(&mut table, 1, ms(40_000)), Released::Held);
    assert_eq!(owner(&table, ms(40_000)), Some(token(2)));
}

#[test]
fn a_claim_ends_at_its_instant_and_the_next_has_the_lease_at_it() {
    let mut table = held();
    let _ = queued(table.acquire(&waiter(2), ms(0)));
    let _ = queued(table.acquire(&waiter(3), ms(0)));
    assert_eq!(release(&mut table, 1, ms(10)), Released::Held);
    let end = ms(1_010).lease.as_micros();
    let again = table.clone().acquire(&waiter(2), at(end - 1));
    assert_eq!(granted(&again).remaining, Duration::from_micros(1));
    assert_eq!(queued(table.clone().acquire(&waiter(3), at(end - 1))).position, 1);
    let late = table.clone().acquire(&waiter(2), at(end));
    assert_eq!(late, Acquired::Refused(Refusal::TokenRetired));
    assert_eq!(granted(&table.acquire(&waiter(3), at(end))).novelty, Novelty::Fresh);
    let batch = [RenewRequest::new(name("k"), token(2), ttl(1_000))];
    assert_eq!(table.renew(&batch, at(end)), [Renewed::NotHeld(NotHeld::Taken)]);
}

#[test]
fn a_full_line_refuses_and_changes_nothing_but_keeps_who_is_in_it() {
    let mut table = LockTable::new(Rules { max_waiting: 2, ..Rules::default() });
    let _ = take(&mut table, &["k"], 1, ms(0));
    let _ = queued(table.acquire(&waiter(2), ms(0)));
    let _ = queued(table.acquire(&waiter(3), ms(0)));
    let full = table.acquire(&waiter(4), ms(0));
    assert_eq!(full, Acquired::Refused(Refusal::QueueFull));
    assert_eq!(line(&table), [token(2), token(3)]);
    assert!(matches!(table.acquire(&request(&["k"], 5), ms(0)), Acquired::Busy(_)));
    assert_eq!(queued(table.acquire(&waiter(3), ms(1))).position, 2);
    assert_eq!(release(&mut table, 2, ms(1)), Released::Withdrawn);
    assert_eq!(queued(table.acquire(&waiter(4), ms(1))).position, 2);
}

#[test]
fn a_place_that_nobody_hears_is_passed_over_in_the_same_step() {
    let mut table = held();
    let gone = ListenerId::from_u64(7);
    let _ = queued(table.acquire(&heard_at(2, 7), ms(0)));
    let _ = queued(table.acquire(&heard_at(3, 7), ms(0)));
    let _ = queued(table.acquire(&heard_at(4, 8), ms(0)));
    let _ = queued(table.acquire(&heard_at(5, 7), ms(0)));
    let _ = queued(table.acquire(&heard_at(6, 9), ms(0)));
    table.set_gone(gone);
    let _ = table.take_mail();
    assert_eq!(release(&mut table, 1, ms(10)), Released::Held);
    assert_eq!(owner(&table, ms(10)), Some(token(4)));
    assert_eq!(line(&table), [token(5), token(6)]);
    let mut hand_off = HandOff::new(token(4), ms(0).lease, ms(10).lease, millis(1_000));
    hand_off.fencing_token = table.record(&name("k")).and_then(|record| record.fencing_token);
    hand_off.waiting = 2;
    let mail = table.take_mail();
    assert_eq!(mail[0], (ListenerId::from_u64(8), Wakeup::Granted(hand_off)));
    // The next is told when to look, though nobody hears it.
    assert_eq!(mail[1..], [(gone, Wakeup::Next(token(5), millis(1_000)))]);
}

#[test]
fn one_step_passes_over_a_thousand_and_the_next_step_goes_on() {
    let mut table = held();
    let number = |index: u32| {
        let mut bytes = [9; Token::BYTES];
        bytes[..4].copy_from_slice(&index.to_le_bytes());
        Token::from_bytes(bytes)
    };
    for index in 0..1_500 {
        let mut asked = heard_at(0, 7);
        asked.token = number(index);
        let _ = queued(table.acquire(&asked, ms(0)));
    }
    let _ = queued(table.acquire(&waiter(2), ms(0)));
    table.set_gone(ListenerId::from_u64(7));
    assert_eq!(release(&mut table, 1, ms(1)), Released::Held);
    assert_eq!(owner(&table, ms(1)), None);
    assert_eq!(table.waiting(&name("k")), 501);
    // Whoever asks goes on, and is not before those who wait.
    let busy = table.acquire(&request(&["k"], 3), ms(2));
    assert!(matches!(busy, Acquired::Busy(_)), "{busy:?}");
    assert_eq!(owner(&table, ms(2)), Some(token(2)));
}

#[test]
fn a_line_of_lapsed_places_is_swept_and_a_line_with_one_that_is_not_stays() {
    let mut table = held();
    let _ = queued(table.acquire(&waiter(2), ms(0)));
    let _ = queued(table.acquire(&waiter(3), ms(10_000)));
    table.sweep(ms(30_000));
    assert_eq!(line(&table), [token(2), token(3)]);
    table.sweep(at(ms(30_000).lease.as_micros() + 1));
    assert_eq!(line(&table), []);
}

#[test]
fn a_shortened_lease_tells_the_first_in_line_its_end_and_goes_to_it_then() {
    let mut table = held();
    let _ = queued(table.acquire(&heard_at(2, 7), ms(0)));
    let _ = table.take_mail();
    let _ = table.shorten(&ShortenRequest::new(name("k"), token(1), ttl(50)), ms(10));
    let told = (ListenerId::from_u64(7), Wakeup::Next(token(2), millis(50)));
    assert_eq!(table.take_mail(), [told]);
    let end = ms(60).lease.as_micros();
    assert_eq!(queued(table.clone().acquire(&waiter(2), at(end - 1))).position, 1);
    assert_eq!(granted(&table.acquire(&waiter(2), at(end))).novelty, Novelty::Fresh);
}

#[test]
fn the_holder_is_told_of_the_first_in_an_empty_line_and_of_no_other() {
    let mut table = table();
    let mut asked = request(&["k"], 1);
    asked.listener = Some(ListenerId::from_u64(5));
    let _ = table.acquire(&asked, ms(0));
    let waiting = [(ListenerId::from_u64(5), Wakeup::Waiting(token(1)))];
    let _ = queued(table.acquire(&waiter(2), ms(1)));
    assert_eq!(table.take_mail(), waiting);
    let _ = queued(table.acquire(&waiter(2), ms(2)));
    let _ = queued(table.acquire(&waiter(3), ms(3)));
    assert_eq!(table.take_mail(), []);
    // An empty line that fills again is news.
    for number in [2, 3] {
        assert_eq!(release(&mut table, number, ms(4)), Released::Withdrawn);
    }
    let _ = queued(table.acquire(&waiter(4), ms(5)));
    assert_eq!(table.take_mail(), waiting);
}

#[test]
fn a_range_grows_up_to_the_limit_of_the_clock_and_not_beyond() {
    let mut table = table();
    let grant = take(&mut table, &["k"], 1, ms(0));
    let Fence::Token(first) = grant.fence else { panic!("it is fenced: {grant:?}") };
    let mut asked = RenewRequest::new(name("k"), token(1), ttl(1_000));
    asked.reserve = AcquireRequest::MAX_RESERVE;
    let limit = ms(0).wall.as_micros() + 10_000_000;
    let steps = (limit - first.as_u64()) / u64::from(AcquireRequest::MAX_RESERVE);
    let mut last = first;
    for _ in 0..steps + 3 {
        match table.renew(&[asked.clone()], ms(0)).remove(0) {
            Renewed::Extended { last_fence, .. } => last = last_fence.unwrap_or(first),
            other => panic!("it is held: {other:?}"),
        }
        assert!(last.as_u64() <= limit, "{last} is more than ten seconds ahead");
    }
    assert_eq!(last.as_u64(), first.as_u64() + steps * u64::from(AcquireRequest::MAX_RESERVE));
    asked.reserve = u32::try_from(limit - last.as_u64()).expect("less than one range");
    let _ = table.renew(&[asked], ms(0));
    let written = table.record(&name("k")).and_then(|record| record.fencing_token);
    assert_eq!(written.map(FencingToken::as_u64), Some(limit));
}

#[test]
fn a_name_that_is_kept_for_a_set_is_taken_back_by_force_and_goes_to_the_next() {
    let mut table = held();
    let mut set = waiter(2);
    set.names = names(&["k", "l"]);
    let _ = queued(table.acquire(&set, ms(0)));
    let _ = queued(table.acquire(&waiter(3), ms(0)));
    assert_eq!(release(&mut table, 1, ms(1)), Released::Held);
    assert_eq!(table.revoke(&RevokeRequest::new(name("k")), ms(1)), Revoked::WasFree);
    let forced = table.force_release(&ForceReleaseRequest::new(name("k")), ms(1));
    assert!(matches!(forced, Forced::Removed(_)), "{forced:?}");
    assert_eq!(owner(&table, ms(1)), Some(token(3)));
}

#[test]
fn a_line_waits_for_a_lease_that_was_healed() {
    let mut table = held();
    let _ = queued(table.acquire(&waiter(2), ms(0)));
    table.delete(&name("k"));
    // The line was lost with the record.
    let heal = HealRequest::new(name("k"), token(1), ttl(1_000));
    assert_eq!(table.heal(&heal, ms(1)), Healed::Healed);
    assert_eq!(queued(table.acquire(&waiter(2), ms(1))).position, 1);
    assert_eq!(release(&mut table, 1, ms(2)), Released::Held);
    assert_eq!(owner(&table, ms(2)), Some(token(2)));
}

#[test]
fn the_record_of_an_ended_lease_may_be_forgotten_before_its_line() {
    let mut table = table();
    let mut asked = request(&["k"], 1);
    asked.retain = Retain::NOTHING;
    let before = granted(&table.acquire(&asked, ms(0))).fence.token();
    let _ = queued(table.acquire(&waiter(2), ms(0)));
    let gone = Inspection::Free { fencing_token: None };
    assert_eq!(table.inspect(&InspectRequest::new(name("k")), ms(5_000)), gone);
    let _ = table.acquire(&request(&["k"], 3), ms(5_000));
    assert_eq!(owner(&table, ms(5_000)), Some(token(2)));
    let written = table.record(&name("k")).and_then(|record| record.fencing_token);
    assert!(written > before, "{written:?} after {before:?}");
}
