//! Runs the model of readers and writers to its end, and finds what is planted in it.

use std::time::Instant;

use fencelock_models::crowd::{Crowd, Fault, Wish};
use stateright::{Checker as _, HasDiscoveries, Model as _};

/// All states, with no limit: a checker that stops at one has proved nothing.
fn explore(crowd: &Crowd) -> usize {
    let started = Instant::now();
    let checker = crowd.clone().checker().threads(2).spawn_bfs().join();
    let count = checker.unique_state_count();
    println!("{count} states in {:?}: {crowd:?}", started.elapsed());
    assert!(checker.is_done(), "it stopped before the end");
    checker.assert_properties();
    count
}

const THREE: Crowd =
    Crowd { wishes: Vec::new(), losses: 1, crashes: 0, give_up: false, fault: None };

#[test]
fn a_reader_and_a_writer_that_lose_requests_die_or_give_up() {
    explore(&Crowd {
        wishes: vec![Wish::Read, Wish::WriteThenRead],
        losses: 1,
        crashes: 1,
        give_up: true,
        fault: None,
    });
}

#[test]
fn two_readers_and_a_writer_of_which_one_request_is_late_or_copied() {
    let wishes = vec![Wish::Read, Wish::Write, Wish::Read];
    let count = explore(&Crowd { wishes, ..THREE });
    assert!(count >= 100_000, "the model has become small: {count} states");
}

#[test]
fn two_writers_of_which_one_becomes_a_reader_beside_another_one() {
    let wishes = vec![Wish::WriteThenRead, Wish::Read, Wish::Write];
    explore(&Crowd { wishes, losses: 0, ..THREE });
}

/// Depth first: what is planted is near.
fn assert_found(fault: Fault, wishes: &[Wish], property: &'static str) {
    let fault = Some(fault);
    let crowd = Crowd { wishes: wishes.to_vec(), losses: 1, crashes: 1, fault, ..THREE };
    let started = Instant::now();
    let checker =
        crowd.checker().finish_when(HasDiscoveries::AnyOf([property].into())).spawn_dfs().join();
    let count = checker.unique_state_count();
    let found: Vec<_> = checker.discoveries().into_keys().collect();
    println!("{fault:?}: {found:?} after {count} states in {:?}", started.elapsed());
    assert!(found.contains(&property), "{fault:?} was not found: {found:?}");
}

const EXCLUSION: &str = "no writer is beside anybody";

#[test]
fn a_release_of_one_that_frees_the_name_of_all_is_found() {
    assert_found(Fault::ReleaseOfAll, &[Wish::Read, Wish::Read, Wish::Write], EXCLUSION);
}

#[test]
fn a_writer_that_goes_on_while_it_becomes_a_reader_is_found() {
    assert_found(Fault::WritesOn, &[Wish::WriteThenRead, Wish::Read], EXCLUSION);
}

#[test]
fn a_late_copy_that_is_not_known_again_is_found() {
    let property = "a late copy brings no share back";
    assert_found(Fault::CopiesAreNew, &[Wish::Read, Wish::Read], property);
}

#[test]
fn a_waiter_that_relies_on_messages_is_found() {
    let property = "nobody waits long for what fits";
    assert_found(Fault::NoTimer, &[Wish::Write, Wish::Read], property);
}
