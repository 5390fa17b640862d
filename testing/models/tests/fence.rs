//! Runs the model of fencing tokens on several nodes, and finds what is planted in it.

use std::time::Instant;

use fencelock_models::fence::{Fault, Fences};
use stateright::{Checker as _, HasDiscoveries, Model as _};

/// An earlier lease had a majority: so others have to raise their numbers.
const LEFT: [u64; 3] = [1, 1, 0];

/// All states, with no limit: a checker that stops at one has proved nothing.
fn explore(attempts: &[u8]) -> usize {
    let fences = Fences { attempts: attempts.to_vec(), left: LEFT, fault: None };
    let started = Instant::now();
    let checker = fences.checker().threads(2).spawn_bfs().join();
    let count = checker.unique_state_count();
    println!("{count} states in {:?}: {attempts:?}", started.elapsed());
    assert!(checker.is_done(), "it stopped before the end");
    checker.assert_properties();
    count
}

#[test]
fn two_clients_one_attempt_each() {
    let count = explore(&[1, 1]);
    assert!(count >= 1_000_000, "the model has become small: {count} states");
}

fn assert_found(fault: Fault, attempts: &[u8], properties: &[&'static str]) {
    let fences = Fences { attempts: attempts.to_vec(), left: LEFT, fault: Some(fault) };
    let started = Instant::now();
    let checker = fences.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let count = checker.unique_state_count();
    let found: Vec<_> = checker.discoveries().into_keys().collect();
    println!("{fault:?}: {found:?} after {count} states in {:?}", started.elapsed());
    assert!(found.iter().any(|one| properties.contains(one)), "{fault:?} was not found: {found:?}");
}

const UNIQUE: &str = "no two leases have the same number";
const LARGER: &str = "a later lease has a larger number";

#[test]
fn the_highest_of_the_replies_is_found() {
    assert_found(Fault::HighestOfReplies, &[1, 1, 1], &[UNIQUE, LARGER]);
}

#[test]
fn a_plain_write_back_is_found() {
    assert_found(Fault::PlainWriteBack, &[1, 1], &[UNIQUE, LARGER]);
}

#[test]
fn a_node_that_forgets_its_number_is_found() {
    assert_found(Fault::OneForgets, &[1, 1], &[UNIQUE, LARGER]);
}
