//! Runs the model of a lease on several nodes to its end, and finds what is planted in it.

use std::time::Instant;

use fencelock_models::quorum::{Fault, Quorum};
use stateright::{Checker as _, HasDiscoveries, Model as _};

const EXCLUSION: &str = "at most one client thinks that it holds the lock";

/// All states, with no limit: a checker that stops at one has proved nothing.
fn explore(quorum: &Quorum) -> usize {
    let started = Instant::now();
    let checker = quorum.clone().checker().threads(2).spawn_bfs().join();
    let count = checker.unique_state_count();
    println!("{count} states in {:?}: {quorum:?}", started.elapsed());
    assert!(checker.is_done(), "it stopped before the end");
    checker.assert_properties();
    count
}

/// The long form has a node that is restarted, and 6,518,011 states: a minute and a half.
#[test]
fn two_clients_never_hold_it_together() {
    let soak = std::env::var_os("FENCELOCK_SOAK").is_some();
    let (restarts, end) = if soak { (1, 4) } else { (0, 3) };
    let count = explore(&Quorum { clients: 2, renewals: 0, restarts, end, fault: None });
    assert!(count >= 400_000, "the model has become small: {count} states");
}

#[test]
fn a_client_that_prolongs_its_lease_and_heals_a_node() {
    explore(&Quorum { clients: 1, renewals: 1, restarts: 1, end: 3, fault: None });
}

fn assert_found(fault: Fault, renewals: u8, restarts: u8) {
    let quorum = Quorum { clients: 2, renewals, restarts, end: 4, fault: Some(fault) };
    let started = Instant::now();
    let checker = quorum.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let count = checker.unique_state_count();
    let found: Vec<_> = checker.discoveries().into_keys().collect();
    println!("{fault:?}: {found:?} after {count} states in {:?}", started.elapsed());
    assert!(found.contains(&EXCLUSION), "{fault:?} was not found: {found:?}");
}

#[test]
fn a_restarted_node_that_counts_at_once_is_found() {
    assert_found(Fault::NoQuarantine, 0, 1);
}

#[test]
fn half_of_the_nodes_is_found() {
    assert_found(Fault::HalfIsEnough, 0, 0);
}

#[test]
fn validity_from_the_answer_is_found() {
    assert_found(Fault::ValidityFromReply, 0, 0);
}
