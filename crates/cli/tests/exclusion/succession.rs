//! Who comes after a holder that was killed or frozen, and when; and that the witness would see a
//! lock that does not exclude.

use std::time::{Duration, Instant};

use fencelock_testkit::process::{Signal, cont, group_members};
use fencelock_testkit::{Process, RedisServer, Witness, eventually, witness};

use crate::support::{LIMIT, Place, check_tokens, finish, group, wait_for_stderr};

/// What a busy machine may need to let a waiter wake, ask and start its command.
const SLACK: Duration = Duration::from_secs(3);

const HOLD: &str = "trap '' TERM; echo $FENCELOCK_FENCING_TOKEN >>tokens; echo inside $PPID; \
                    (while :; do sleep 0.5; done) & while :; do sleep 0.5; done";
const PASS: &str = "echo $FENCELOCK_FENCING_TOKEN >>tokens; echo inside $PPID";

/// A holder that goes on until it is killed, and one who waits for it.
fn holder_and_waiter(place: &Place, witness: &Witness, ttl: &str) -> (Process, u32, Process) {
    let mut holder = place.run_inside(witness, &["job", "--ttl", ttl], HOLD);
    holder.wait_for_stdout(LIMIT, "inside ");
    let group = group(&holder).unwrap();
    let mut waiter = place.run_inside(witness, &["job"], PASS);
    wait_for_stderr(&mut waiter, "waiting for lock `job`");
    (holder, group, waiter)
}

/// Waits until the waiter was inside, and returns how long that took.
fn time_to_enter(waiter: &mut Process, since: Instant) -> Duration {
    let ended = finish(waiter);
    let took = since.elapsed();
    assert_eq!(ended.code, 0, "{ended:?}");
    took
}

fn assert_in_order(place: &Place, witness: &Witness, entries: usize) {
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!(verdict.entries, entries);
    assert_eq!(check_tokens(&place.read("tokens")), Ok(entries));
}

#[test]
fn a_killed_holders_lock_is_free_at_once_on_the_embedded_store() {
    let place = Place::embedded();
    let witness = place.witness("job");
    for _ in 0..3 {
        let (mut holder, group, mut waiter) = holder_and_waiter(&place, &witness, "10m");
        let killed = Instant::now();
        holder.signal(Signal::KILL);
        // Nothing of the ten minutes is waited for, nor the heart-beat of ten seconds.
        let took = time_to_enter(&mut waiter, killed);
        println!("free after {took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(group_members(group), Vec::<u32>::new());
        assert_eq!(finish(&mut holder).code, 137);
    }
    assert_in_order(&place, &witness, 6);
}

#[test]
fn a_killed_holders_lock_is_free_within_its_ttl_on_redis() {
    let server = RedisServer::start();
    let place = Place::on(&server);
    let witness = place.witness("job");
    let ttl = Duration::from_secs(2);
    for _ in 0..3 {
        let (mut holder, group, mut waiter) = holder_and_waiter(&place, &witness, "2s");
        let killed = Instant::now();
        holder.signal(Signal::KILL);
        let took = time_to_enter(&mut waiter, killed);
        println!("free after {took:?} of {ttl:?}");
        assert!(took < ttl + SLACK, "{took:?}");
        assert_eq!(group_members(group), Vec::<u32>::new());
        assert_eq!(finish(&mut holder).code, 137);
    }
    assert_in_order(&place, &witness, 6);
}

fn a_frozen_holder_is_followed(place: &Place) {
    let witness = place.witness("job");
    let ttl = Duration::from_secs(3);
    let (mut holder, group, mut waiter) = holder_and_waiter(place, &witness, "3s");
    holder.stop();
    let frozen = Instant::now();
    let took = time_to_enter(&mut waiter, frozen);
    println!("free after {took:?} of {ttl:?}");
    assert!(took < ttl + SLACK, "{took:?}");
    assert_eq!(group_members(group), Vec::<u32>::new());
    cont(holder.pid());
    let ended = finish(&mut holder);
    assert_eq!(ended.code, 79, "{ended:?}");
    assert_in_order(place, &witness, 2);
}

#[test]
fn a_frozen_holders_command_is_dead_before_the_next_one_enters_on_the_embedded_store() {
    a_frozen_holder_is_followed(&Place::embedded());
}

#[test]
fn a_frozen_holders_command_is_dead_before_the_next_one_enters_on_redis() {
    let server = RedisServer::start();
    a_frozen_holder_is_followed(&Place::on(&server));
}

#[test]
fn the_witness_objects_when_two_hold_one_name_in_two_stores() {
    let place = Place::embedded();
    let witness = place.witness("job");
    let mut holder = place.run_inside(&witness, &["job"], HOLD);
    holder.wait_for_stdout(LIMIT, "inside ");
    let elsewhere = place.other_store("elsewhere");
    let mut other = place.run_inside(&witness, &["job", "--store", &elsewhere], PASS);
    let ended = finish(&mut other);
    assert_eq!(ended.code, witness::OVERLAP_EXIT, "{ended:?}");
    assert_eq!(witness.check().overlaps.len(), 1);
    let group = group(&holder).unwrap();
    holder.signal(Signal::KILL);
    eventually(LIMIT, "the holder's command is gone", || group_members(group).is_empty());
}

#[test]
fn tokens_that_do_not_grow_are_noticed() {
    assert_eq!(check_tokens("1\n2\n10\n"), Ok(3));
    for wrong in ["1\n1\n", "2\n1\n", "1\n\n2\n"] {
        assert!(check_tokens(wrong).is_err(), "{wrong:?}");
    }
}
