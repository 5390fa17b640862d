//! The matrix of peers and checks: the small one, or with `FENCELOCK_SOAK=1` the whole.

use std::fs;

use fencelock_interop::{
    checks::{Check, Extent, Outcome},
    peers::{Built, PEERS, Peer},
    report,
    stage::Stage,
};

fn whole() -> bool {
    std::env::var_os("FENCELOCK_SOAK").is_some_and(|value| value == "1")
}

/// One check with all peers of this run at once: they wait nearly all the time, and each has a
/// server of its own. Who was skipped is printed.
fn with_peers(check: Check) {
    let extent = if whole() { Extent::WHOLE } else { Extent::SMALL };
    let peers = PEERS.iter().filter(|peer| whole() || peer.in_small);
    std::thread::scope(|scope| {
        for peer in peers {
            scope.spawn(move || match check_with(peer, check, extent) {
                Ok(outcome) => eprintln!("{}: {}: {outcome:?}", check.title(), peer.name),
                Err(why) => eprintln!("{}: {}: SKIPPED: {why}", check.title(), peer.name),
            });
        }
    });
}

fn check_with(peer: &'static Peer, check: Check, extent: Extent) -> Result<Outcome, String> {
    if let Built::Skipped(why) = peer.build() {
        return Err(why);
    }
    Ok(check.make(&Stage::set(peer), extent))
}

#[test]
fn while_they_hold_we_are_refused_and_see_the_right_ttl() {
    with_peers(Check::TheyHold);
}

#[test]
fn while_we_hold_they_are_refused() {
    with_peers(Check::WeHold);
}

#[test]
fn their_release_wakes_our_waiter() {
    with_peers(Check::WokenByThem);
}

#[test]
fn our_release_wakes_their_waiter() {
    with_peers(Check::WokenByUs);
}

#[test]
fn a_late_release_of_either_leaves_the_lock_of_the_other_alone() {
    with_peers(Check::LateRelease);
}

#[test]
fn in_contention_never_both_are_inside() {
    with_peers(Check::Rounds);
}

#[test]
fn a_lock_of_a_dead_holder_is_the_others_when_its_lease_is_over() {
    with_peers(Check::Death);
}

#[test]
fn the_readme_has_a_row_for_each_peer() {
    let readme = fs::read_to_string(report::path()).expect("the README");
    let stale = report::stale(&readme);
    assert!(stale.is_empty(), "run testing/interop/run --write: {stale:#?}");
}
