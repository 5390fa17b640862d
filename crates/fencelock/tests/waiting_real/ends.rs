//! Holders and waiters that are killed or frozen.

use std::time::Duration;

use fencelock_testkit::{RedisServer, eventually};

use crate::{
    child::{Child, LIMIT},
    driver::now,
    place::{Place, subscriptions},
};

const TTL: Duration = Duration::from_secs(2);
/// No heart-beat comes sooner.
const HEART_BEAT: Duration = Duration::from_secs(8);
const CLAIM: Duration = Duration::from_millis(500);
/// What a starved machine may add.
const SLACK: Duration = Duration::from_millis(1_500);

/// A holder, and a waiter that is told.
fn held(url: &str, ttl: Duration) -> (Child, Child) {
    let mut holder = Child::start(url);
    holder.lock("a", "job", "default", ttl);
    holder.granted("a");
    (holder, waiter(url, "b", 1))
}

/// A process that has its place in the line, as that of this number, and can be told.
fn waiter(url: &str, id: &str, place: u64) -> Child {
    let mut child = Child::start(url);
    child.lock(id, "job", "default", TTL);
    child.is_told("job");
    assert_eq!(child.waiting("job"), place);
    assert!(child.seen("granted", id).is_none());
    child
}

/// Waits until a server knows of the end of a process.
fn until_gone(place: &Place, left: usize) {
    if let Place::Redis(server) = place {
        eventually(LIMIT, "the server sees the closed socket", || subscriptions(server) == left);
    }
}

/// Goal: who died is missed when the lease is over, and by nobody before. Method: the holder is
/// frozen first, so that what is left of its lease is known when it is killed.
#[test]
fn a_holder_that_is_killed_is_followed_when_its_lease_ends() {
    for place in Place::both() {
        let (holder, mut waiter) = held(&place.url(), TTL);
        holder.freeze();
        let asked = now();
        let left = remaining(&mut waiter);
        holder.kill();
        let killed = now();
        let granted = waiter.granted("b");
        let since_kill = Duration::from_nanos(granted.at.saturating_sub(killed));
        let late = i128::from(granted.at) - i128::from(asked) - left.as_nanos() as i128;
        println!(
            "{}: killed holder: followed {since_kill:?} after the kill (ttl {TTL:?}), {} us after \
             the end of its lease",
            place.kind(),
            late / 1_000
        );
        assert!(since_kill < TTL + SLACK, "{since_kill:?}");
        // A file knows which process is dead; a server waits for the end of the lease.
        assert!(!place.is_redis() || late > -2_000_000, "{late} ns");
        assert_eq!(waiter.release("b").1.rest, "Held");
    }
}

/// What is left of the lease of `job`.
fn remaining(child: &mut Child) -> Duration {
    let micros = child.ask("remaining", "job").rest;
    Duration::from_micros(micros.parse().expect("a number"))
}

/// Goal: the next is told by the release itself, and neither claim nor heart-beat is waited for.
/// Method: what is granted by a message needs no question, however late a starved machine is; and
/// where there was one, it came before a claim could have ended.
#[test]
fn the_first_in_line_that_is_killed_costs_no_delay() {
    for place in Place::both() {
        let (mut holder, first) = held(&place.url(), LIMIT);
        let mut second = waiter(&place.url(), "c", 2);
        let asked = second.questions();
        first.kill();
        until_gone(&place, 1);
        let (releasing, released) = holder.release("a");
        assert_eq!(released.rest, "Held");
        let granted = second.granted("c");
        let delay = granted.after(&releasing);
        println!("{}: killed head of the line: {delay:?} after the release", place.kind());
        let more = second.questions() - asked;
        assert!(more == 0 || delay < CLAIM, "{more} questions, {delay:?}");
        assert!(delay < HEART_BEAT, "{delay:?}");
        second.release("c");
    }
}

/// Goal: the dead before it in the line do not keep anybody from seeing the end of a lease.
#[test]
fn a_holder_and_the_first_in_line_that_are_killed_are_followed_by_the_second() {
    for place in Place::both() {
        let (holder, first) = held(&place.url(), TTL);
        let mut second = waiter(&place.url(), "c", 2);
        holder.freeze();
        let asked = now();
        let left = remaining(&mut second);
        first.kill();
        holder.kill();
        let granted = second.granted("c");
        let late = i128::from(granted.at) - i128::from(asked) - left.as_nanos() as i128;
        println!("{}: both killed: {} us after the end of the lease", place.kind(), late / 1_000);
        assert!(late < SLACK.as_nanos() as i128, "{late} ns");
        second.release("c");
    }
}

/// Goal: a grant that nobody takes up ends with the claim. Method: the first in line is frozen, so
/// that it is granted the lock and can do nothing, and then killed.
#[test]
fn who_is_killed_when_just_granted_costs_the_claim() {
    for place in Place::both() {
        let (mut holder, first) = held(&place.url(), LIMIT);
        let mut second = waiter(&place.url(), "c", 2);
        first.freeze();
        let (releasing, _) = holder.release("a");
        assert_eq!(second.waiting("job"), 1, "the frozen one was granted the lock");
        first.kill();
        let granted = second.granted("c");
        let delay = granted.after(&releasing);
        println!("{}: killed when granted: {delay:?} after the release", place.kind());
        assert!(delay < CLAIM + SLACK, "{delay:?}");
        assert!(!place.is_redis() || delay > CLAIM - Duration::from_millis(5), "{delay:?}");
        second.release("c");
    }
}

/// Goal: who slept through the end of its lease is told, does nothing, and keeps nobody out.
#[test]
fn a_holder_that_was_frozen_is_told_that_the_lock_is_lost() {
    for place in Place::both() {
        let (mut holder, mut waiter) = held(&place.url(), Duration::from_secs(1));
        let first = holder.granted("a");
        holder.freeze();
        let second = waiter.granted("b");
        assert!(second.token() > first.token());
        holder.thaw();
        assert!(!holder.is_valid("a"));
        let lost = holder.wait("lost", "a");
        println!("{}: thawed holder: lost, {}", place.kind(), lost.rest);
        let (_, released) = holder.release("a");
        assert!(["Taken", "Expired"].contains(&released.rest.as_str()), "{released:?}");
        assert!(waiter.is_valid("b"), "the other's lock is its own");
        assert_eq!(waiter.release("b").1.rest, "Held");
    }
}

/// Goal: who slept through its turn does not believe that it has the lock, and has it later.
#[test]
fn a_waiter_that_was_frozen_in_its_turn_has_another_one() {
    for place in Place::both() {
        let (mut holder, mut first) = held(&place.url(), LIMIT);
        let mut second = waiter(&place.url(), "c", 2);
        first.freeze();
        let asked = {
            let (releasing, _) = holder.release("a");
            let granted = second.granted("c");
            println!(
                "{}: frozen waiter: the next {:?} after",
                place.kind(),
                granted.after(&releasing)
            );
            first.thaw();
            granted
        };
        // It asks, and has a place again.
        eventually(LIMIT, "it waits again", || second.waiting("job") == 1);
        assert!(first.seen("granted", "b").is_none());
        assert!(second.is_valid("c"));
        let (releasing, _) = second.release("c");
        let granted = first.granted("b");
        assert!(granted.at > releasing.at && granted.token() > asked.token());
        assert!(first.is_valid("b"));
        assert_eq!(first.release("b").1.rest, "Held");
    }
}

/// The frozen server: nobody is lost whose lease still stands, and the line goes on.
#[test]
fn a_server_that_was_frozen_goes_on_where_it_was() {
    let server = RedisServer::start();
    let (mut holder, mut first) = held(&server.url(), LIMIT);
    server.stop_signal();
    holder.say(format_args!("release a"));
    holder.wait("releasing", "a");
    server.cont();
    let granted = first.granted("b");
    println!(
        "frozen server: {:?} after the release",
        granted.after(&holder.wait("releasing", "a"))
    );
    assert!(first.is_valid("b"));
    first.release("b");
}
