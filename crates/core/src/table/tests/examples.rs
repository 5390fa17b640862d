//! Each verb at the boundary instant, the instant before, and refused.

use super::*;
use crate::{
    Cursor, ExchangeRequest, Exchanged, Fence, ForceReleaseRequest, Forced, ForeignKind,
    HealRequest, Healed, InspectRequest, Inspection, ListRequest, NotHeld, Novelty,
    RaiseFenceRequest, Raised, Refusal, ReleaseRequest, Released, RenewRequest, Renewed, Retain,
    ShortenRequest, Shortened,
};

fn renew(table: &mut LockTable, list: &[&str], number: u8, span: u64, now: StoreNow) -> Renewed {
    let batch = [RenewRequest::new(names(list), token(number), ttl(span))];
    table.renew(&batch, now).remove(0)
}

fn release(table: &mut LockTable, list: &[&str], number: u8, now: StoreNow) -> Released {
    table.release(&ReleaseRequest::new(names(list), token(number)), now)
}

fn raise(table: &mut LockTable, list: &[&str], number: u8, to: u64, now: StoreNow) -> Raised {
    let request = RaiseFenceRequest::new(names(list), token(number), fencing_token(to));
    table.raise_fence(&request, now)
}

fn look(table: &LockTable, at: &str, now: StoreNow) -> Inspection {
    table.inspect(&InspectRequest::new(name(at)), now)
}

fn is_free(table: &LockTable, at: &str, now: StoreNow) -> bool {
    matches!(look(table, at, now), Inspection::Free { .. })
}

#[test]
fn a_lease_is_live_in_the_microsecond_before_its_end_and_over_at_it() {
    let mut table = table();
    let _ = take(&mut table, &["k"], 1, ms(0));
    let end = 1_000_000_000 + 1_000_000;
    let busy = table.clone().acquire(&request(&["k"], 2), at(end - 1));
    assert!(matches!(busy, Acquired::Busy(_)));
    assert_eq!(
        renew(&mut table.clone(), &["k"], 1, 500, at(end - 1)),
        Renewed::extended(millis(500))
    );
    assert_eq!(
        renew(&mut table.clone(), &["k"], 1, 500, at(end)),
        Renewed::NotHeld(NotHeld::Expired)
    );
    assert_eq!(release(&mut table.clone(), &["k"], 1, at(end - 1)), Released::Held);
    assert_eq!(release(&mut table.clone(), &["k"], 1, at(end)), Released::Expired);
    let next = take(&mut table, &["k"], 2, at(end));
    assert_eq!(next.novelty, Novelty::Fresh);
}

#[test]
fn a_deadline_is_the_last_instant_of_execution() {
    let mut asked = request(&["k"], 1);
    asked.deadline = Some(ms(5).lease);
    assert!(matches!(table().acquire(&asked, ms(5)), Acquired::Granted(_)));
    let late = StoreTime::from_micros(ms(5).lease.as_micros() + 1);
    let late = StoreNow::same(late);
    assert_eq!(table().acquire(&asked, late), Acquired::Refused(Refusal::DeadlinePassed));

    let mut heal = HealRequest::new(name("k"), token(1), ttl(1_000));
    heal.deadline = asked.deadline;
    assert_eq!(table().heal(&heal, ms(5)), Healed::Healed);
    assert_eq!(table().heal(&heal, late), Healed::Refused(Refusal::DeadlinePassed));
}

#[test]
fn a_copy_of_a_request_that_was_granted_is_true_even_after_its_deadline() {
    let mut table = table();
    let mut asked = request(&["k"], 1);
    asked.deadline = Some(ms(5).lease);
    let first = granted(&table.acquire(&asked, ms(5))).clone();
    let answer = table.acquire(&asked, ms(305));
    let again = granted(&answer);
    assert_eq!((again.fence, again.remaining), (first.fence, millis(700)));
}

#[test]
fn a_fencing_token_is_the_clock_or_one_more_than_the_last() {
    let mut table = table();
    let first = take(&mut table, &["k"], 1, ms(0));
    assert_eq!(first.fence, Fence::Token(fencing_token(1_000_000_000)));
    let _ = release(&mut table, &["k"], 1, ms(0));
    let second = take(&mut table, &["k"], 2, ms(0));
    assert_eq!(second.fence, Fence::Token(fencing_token(1_000_000_001)));
    let _ = release(&mut table, &["k"], 2, ms(0));
    // The wall clock steps back by an hour's worth: still one more.
    let earlier = StoreNow { lease: ms(1).lease, wall: StoreTime::from_micros(5) };
    let third = take(&mut table, &["k"], 3, earlier);
    assert_eq!(third.fence, Fence::Token(fencing_token(1_000_000_002)));
}

#[test]
fn a_record_is_remembered_until_the_clock_has_passed_its_fencing_token() {
    let mut table = table();
    let mut asked = request(&["k"], 1);
    asked.retain = Retain::NOTHING;
    asked.floor = Some(fencing_token(1_000_000_000 + 5_000_000));
    let grant = granted(&table.acquire(&asked, ms(0))).clone();
    let mut back = ReleaseRequest::new(name("k"), token(1));
    back.retain = Retain::NOTHING;
    assert_eq!(table.release(&back, ms(1)), Released::Held);
    let highest = grant.fence.token().expect("it is fenced");
    let kept = Inspection::Free { fencing_token: Some(highest) };
    assert_eq!(look(&table, "k", at(highest.as_u64())), kept);
    assert_eq!(table.sweep(at(highest.as_u64())), 1);
    let gone = Inspection::Free { fencing_token: None };
    assert_eq!(look(&table, "k", at(highest.as_u64() + 1)), gone);
    assert_eq!(table.sweep(at(highest.as_u64() + 1)), 0);
    let next = take(&mut table, &["k"], 2, at(highest.as_u64() + 1));
    assert!(next.fence.token() > Some(highest));
}

#[test]
fn a_proposed_fencing_token_may_be_ten_seconds_ahead_and_not_a_microsecond_more() {
    for (ahead, allowed) in [(10_000_000, true), (10_000_001, false)] {
        let mut asked = request(&["k"], 1);
        asked.proposed = Some(fencing_token(1_000_000_000 + ahead));
        let mut table = table();
        let answer = table.acquire(&asked, ms(0));
        assert_eq!(matches!(answer, Acquired::Granted(_)), allowed, "{answer:?}");
        assert_eq!(table.record(&name("k")).is_some(), allowed);
    }
}

#[test]
fn a_proposed_fencing_token_is_taken_only_above_the_record_and_the_floor() {
    let mut table = table();
    let grant = take(&mut table, &["k"], 1, ms(0));
    let last = grant.fence.token().expect("it is fenced").as_u64();
    let _ = release(&mut table, &["k"], 1, ms(0));
    for (proposed, floor, fence) in [
        (last - 1, None, Fence::Behind(fencing_token(last))),
        (last, None, Fence::Behind(fencing_token(last))),
        (last + 1, None, Fence::Token(fencing_token(last + 1))),
        (last + 1, Some(last + 1), Fence::Behind(fencing_token(last + 1))),
        (last + 2, Some(last + 1), Fence::Token(fencing_token(last + 2))),
    ] {
        let mut asked = request(&["k"], 2);
        asked.proposed = Some(fencing_token(proposed));
        asked.floor = floor.map(fencing_token);
        let mut table = table.clone();
        let answer = table.acquire(&asked, ms(0));
        assert_eq!(granted(&answer).fence, fence);
        // And a copy hears the same.
        let answer = table.acquire(&asked, ms(1));
        assert_eq!(granted(&answer).fence, fence);
    }
}

#[test]
fn a_record_is_remembered_until_the_clock_has_passed_a_raised_fencing_token() {
    let mut table = table();
    let mut asked = request(&["k"], 1);
    asked.retain = Retain::NOTHING;
    let _ = table.acquire(&asked, ms(0));
    let raised = 1_000_000_000 + 5_000_000;
    assert_eq!(raise(&mut table, &["k"], 1, raised, ms(1)), Raised::Raised);
    // The lease ended long before; a number is not granted twice for that.
    let next = take(&mut table.clone(), &["k"], 2, at(raised));
    assert_eq!(next.fence, Fence::Token(fencing_token(raised + 1)));
    let next = take(&mut table, &["k"], 2, at(raised + 1));
    assert_eq!(next.fence, Fence::Token(fencing_token(raised + 1)));
}

#[test]
fn a_set_whose_members_were_raised_apart_needs_a_larger_fencing_token() {
    let mut table = table();
    let asked = request(&["a", "b"], 1);
    let first = granted(&table.acquire(&asked, ms(0))).fence.token().expect("it is fenced");
    let ahead = first.as_u64() + 10;
    assert_eq!(raise(&mut table, &["a"], 1, ahead, ms(1)), Raised::Raised);
    let answer = table.acquire(&asked, ms(2));
    assert_eq!(granted(&answer).fence, Fence::Behind(fencing_token(ahead)));
    assert_eq!(raise(&mut table, &["a", "b"], 1, ahead + 1, ms(3)), Raised::Raised);
    let answer = table.acquire(&asked, ms(4));
    assert_eq!(granted(&answer).fence, Fence::Token(fencing_token(ahead + 1)));
}

#[test]
fn a_release_that_comes_twice_hears_the_same_twice() {
    let mut table = table();
    let _ = take(&mut table, &["k"], 1, ms(0));
    let mut ended = table.clone();
    for _ in 0..2 {
        assert_eq!(release(&mut table, &["k"], 1, ms(10)), Released::Held);
        assert_eq!(release(&mut ended, &["k"], 1, ms(1_000)), Released::Expired);
    }
}

#[test]
fn a_forced_release_is_an_end_and_not_a_release() {
    let mut table = table();
    let _ = take(&mut table, &["k"], 1, ms(0));
    let forced = table.force_release(&ForceReleaseRequest::new(name("k")), ms(10));
    assert!(matches!(forced, Forced::Removed(_)));
    assert_eq!(renew(&mut table, &["k"], 1, 500, ms(10)), Renewed::NotHeld(NotHeld::Expired));
    assert_eq!(release(&mut table, &["k"], 1, ms(10)), Released::Expired);
    let late = table.acquire(&request(&["k"], 1), ms(10));
    assert_eq!(late, Acquired::Refused(Refusal::TokenRetired));
    let _ = take(&mut table, &["k"], 2, ms(10));
    let again = table.force_release(&ForceReleaseRequest::new(name("k")), ms(1_010));
    assert_eq!(again, Forced::WasFree);
}

#[test]
fn a_shortened_lease_ends_at_its_new_end_to_the_microsecond() {
    let mut table = table();
    let _ = take(&mut table, &["k"], 1, ms(0));
    let asked = ShortenRequest::new(name("k"), token(1), ttl(100));
    let answer = table.shorten(&asked, ms(50));
    assert_eq!(answer, Shortened::Shortened { remaining: millis(100) });
    assert!(!is_free(&table, "k", at(ms(150).lease.as_micros() - 1)));
    assert!(is_free(&table, "k", ms(150)));
    assert_eq!(table.shorten(&asked, ms(150)), Shortened::NotHeld(NotHeld::Expired));
}

#[test]
fn an_exchange_takes_the_lease_from_the_old_token_at_once() {
    let mut table = table();
    let before = take(&mut table, &["k"], 1, ms(0));
    let asked = ExchangeRequest::new(name("k"), token(1), token(2), ttl(100));
    let Exchanged::Granted(grant) = table.exchange_token(&asked, ms(999)) else {
        panic!("it is live until 1000");
    };
    assert!(grant.fence.token() > before.fence.token());
    assert_eq!(grant.remaining, millis(100));
    assert_eq!(renew(&mut table, &["k"], 1, 500, ms(999)), Renewed::NotHeld(NotHeld::Taken));
    let second = ExchangeRequest::new(name("k"), token(1), token(3), ttl(100));
    assert_eq!(table.exchange_token(&second, ms(999)), Exchanged::NotHeld(NotHeld::Taken));
}

#[test]
fn a_heal_of_an_ended_lease_keeps_the_mark_of_who_wrote_the_fencing_token() {
    let mut table = table();
    let grant = take(&mut table, &["k"], 1, ms(0));
    let written = grant.fence.token().expect("it is fenced");
    let mut asked = HealRequest::new(name("k"), token(1), ttl(1_000));
    asked.fencing_token = Some(written);
    assert_eq!(table.heal(&asked, ms(1_000)), Healed::Healed);
    assert_eq!(raise(&mut table, &["k"], 1, written.as_u64(), ms(1_000)), Raised::Raised);
    // Another token that heals to the same number did not write it.
    let mut other = HealRequest::new(name("k"), token(2), ttl(1_000));
    other.fencing_token = Some(written);
    assert_eq!(table.heal(&other, ms(2_000)), Healed::Healed);
    let answer = raise(&mut table, &["k"], 2, written.as_u64(), ms(2_000));
    assert_eq!(answer, Raised::Behind(written));
}

#[test]
fn a_heal_leaves_what_is_there_and_takes_what_is_missing() {
    let mut table = table();
    let _ = take(&mut table, &["a", "b"], 1, ms(0));
    table.delete(&name("b"));
    let asked = HealRequest::new(names(&["a", "b"]), token(1), ttl(5_000));
    assert_eq!(table.heal(&asked, ms(100)), Healed::Healed);
    assert_eq!(table.record(&name("a")).map(|record| record.end), Some(ms(1_000).lease));
    assert_eq!(table.record(&name("b")).map(|record| record.end), Some(ms(5_100).lease));
}

#[test]
fn the_clock_of_leases_and_the_wall_clock_are_kept_apart() {
    let mut table = table();
    let both = |lease, wall| StoreNow {
        lease: StoreTime::from_micros(lease),
        wall: StoreTime::from_micros(wall),
    };
    let _ = take(&mut table, &["k"], 1, both(5_000_000, 1_000_000_000));
    // A wall clock that jumps by a year neither ends the lease nor forgets it.
    let jumped = both(5_500_000, 31_536_000_000_000);
    assert!(!is_free(&table, "k", jumped));
    assert_eq!(table.sweep(jumped), 1);
    assert_eq!(renew(&mut table, &["k"], 1, 1_000, jumped), Renewed::extended(millis(1_000)));
}

#[test]
fn a_release_of_a_set_frees_what_is_ours_and_says_the_worst() {
    let mut table = table();
    let _ = take(&mut table, &["a", "b", "c"], 1, ms(0));
    table.plant_foreign(name("b"), ForeignKind::String);
    assert_eq!(release(&mut table, &["a", "b", "c"], 1, ms(1)), Released::Taken);
    assert!(is_free(&table, "a", ms(1)) && is_free(&table, "c", ms(1)));
    assert_eq!(look(&table, "b", ms(1)), Inspection::Foreign(ForeignKind::String));

    let mut table = super::table();
    let _ = take(&mut table, &["a", "b"], 1, ms(0));
    table.delete(&name("a"));
    assert_eq!(release(&mut table, &["a", "b"], 1, ms(1)), Released::Expired);
}

#[test]
fn a_listing_in_pages_is_complete_and_ends() {
    let mut table = table();
    for number in 0..10 {
        let _ = take(&mut table, &[&format!("p{number}")], number, ms(0));
    }
    let _ = take(&mut table, &["q"], 11, ms(0));
    let _ = release(&mut table, &["p3"], 3, ms(1));
    let mut asked = ListRequest::new("p");
    asked.limit = 3;
    let mut seen = std::vec::Vec::new();
    for _ in 0..4 {
        let page = table.list(&asked, ms(1));
        seen.extend(page.locks.into_iter().map(|(at, _)| at));
        asked.cursor = page.next;
        if asked.cursor.is_none() {
            break;
        }
    }
    assert_eq!(asked.cursor, None::<Cursor>);
    let expected: std::vec::Vec<_> =
        [0, 1, 2, 4, 5, 6, 7, 8, 9].map(|number| name(&format!("p{number}"))).into();
    assert_eq!(seen, expected);
}
