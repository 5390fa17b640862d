//! Runs the model of the line to its end, and finds what is planted in it.

use std::time::Instant;

use fencelock_models::queue::{Fault, Queue};
use stateright::{Checker as _, HasDiscoveries, Model as _};

/// All states, with no limit: a checker that stops at one has proved nothing.
fn explore(queue: &Queue) -> usize {
    let started = Instant::now();
    let checker = queue.clone().checker().threads(2).spawn_bfs().join();
    let count = checker.unique_state_count();
    println!("{count} states in {:?}: {queue:?}", started.elapsed());
    assert!(checker.is_done(), "it stopped before the end");
    checker.assert_properties();
    count
}

#[test]
fn two_clients_that_lose_a_message_die_or_give_up() {
    explore(&Queue {
        rates: vec![4, 3],
        attempts: 1,
        losses: 1,
        crashes: 1,
        give_up: true,
        fault: None,
    });
}

#[test]
fn three_clients_of_which_one_may_die() {
    let count = explore(&Queue {
        rates: vec![4, 3, 3],
        attempts: 1,
        losses: 0,
        crashes: 1,
        give_up: false,
        fault: None,
    });
    assert!(count >= 1_000_000, "the model has become small: {count} states");
}

/// Depth first: what is planted is near.
fn assert_found(fault: Fault, property: &'static str) {
    let queue = Queue {
        rates: vec![4, 3],
        attempts: 2,
        losses: 1,
        crashes: 0,
        give_up: false,
        fault: Some(fault),
    };
    let started = Instant::now();
    let checker = queue.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let count = checker.unique_state_count();
    let found: Vec<_> = checker.discoveries().into_keys().collect();
    println!("{fault:?}: {found:?} after {count} states in {:?}", started.elapsed());
    assert!(found.contains(&property), "{fault:?} was not found: {found:?}");
}

const EXCLUSION: &str = "at most one client thinks that it holds the lock";
const IDLENESS: &str = "nobody waits long for a free name";

#[test]
fn validity_from_the_arrival_of_a_message_is_found() {
    assert_found(Fault::ValidityFromMessage, EXCLUSION);
}

#[test]
fn a_start_without_the_matching_question_is_found() {
    assert_found(Fault::AnyQuestion, EXCLUSION);
}

#[test]
fn validity_from_the_arrival_of_an_answer_is_found() {
    assert_found(Fault::ValidityFromReply, EXCLUSION);
}

#[test]
fn a_release_that_does_not_look_at_the_token_is_found() {
    assert_found(Fault::ReleaseOfAnything, EXCLUSION);
}

#[test]
fn a_waiter_that_relies_on_messages_is_found() {
    assert_found(Fault::NoTimer, IDLENESS);
}
