//! A quorum of five real servers of which some are killed with SIGKILL at random moments, while
//! four processes contend for one lock. A witness that knows of no server stands by.
//!
//! ```text
//!   worker:  lock (bounded wait) -> [ witness: note the fencing token, work a while ] -> release
//!   killer:  kill one or two, start them again; now and then three, one after the other
//! ```
//! With a log of all writes a restarted server has its keys, and counts at once. Without, it has
//! forgotten every lease, and what carries exclusion is that no client counts it before the longest
//! lease is over; that is why workers are killed there, too, and started anew. The last tests take just
//! that away, and must see two inside at once.
//!
//! The workers are this very binary, see `worker`. `FENCELOCK_SOAK=1` asks for 1,000 rounds instead
//! of 60; a round is one acquire that was granted.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

mod cluster;
mod record;
mod worker;

use std::time::{Duration, Instant};

use fencelock_chaos::{Random, is_soak};
use fencelock_testkit::{Persistence, eventually};

use crate::{
    cluster::{Cluster, NODES},
    record::Record,
    worker::{Orders, TTL, WAIT},
};

/// How long a node without its keys is not counted: the longest ttl and a second.
const QUARANTINE: Duration = Duration::from_secs(TTL.as_secs() + 1);

const MOSTLY_SHORT: Orders =
    Orders { quarantine: QUARANTINE, guarded: true, long: (300, 1_200), long_in: 8 };

/// So that hardly a kill finds nobody inside.
const ALWAYS_LONG: Orders = Orders { long: (1_000, 1_500), long_in: 1, ..MOSTLY_SHORT };

/// What an acquire may take beyond its wait: the request that is under way when it ends, on a
/// machine that has better things to do.
const SLACK: Duration = Duration::from_secs(5);

/// Longer than any number of rounds takes.
const LIMIT: Duration = Duration::from_secs(1_800);

fn rounds() -> usize {
    if is_soak() { 1_000 } else { 60 }
}

#[test]
fn with_a_log_no_kill_of_a_minority_lets_two_in_or_an_acquire_hang() {
    let mut random = Random::of_this_run();
    let mut cluster = Cluster::start(Persistence::Aof, MOSTLY_SHORT.forgetting_nothing());
    while cluster.rounds() < rounds() || cluster.killed < 6 {
        let victims = cluster.draw(&mut random, NODES);
        cluster.bounce(&victims, Duration::from_millis(random.below(600)));
        cluster.pass(Duration::from_millis(random.below(300)));
    }
    let record = cluster.finish(WAIT + SLACK);
    record.report("with a log", cluster.killed);
    assert_safe(&record);
    // The majority never failed anybody, so no lease may have gone but by a starved machine.
    assert_eq!(record.lost("Disappeared") + record.lost("Taken"), 0, "{record:#?}");
}

#[test]
fn without_a_log_a_restarted_node_is_not_counted_and_nobody_is_let_in_beside_a_holder() {
    let mut random = Random::of_this_run();
    let mut cluster = Cluster::start(Persistence::None, MOSTLY_SHORT);
    // The first of them at once: also the short form has one.
    let mut majority_next = true;
    while cluster.rounds() < rounds() || cluster.killed < 6 {
        if majority_next {
            // Not at the same time: at each moment only one is down. But a majority has forgotten.
            cluster.until_counted(QUARANTINE, NODES);
            cluster.until_somebody_is_inside();
            cluster.bounce_majority(&mut random);
            // One that starts now has not seen what the nodes were before.
            cluster.replace_worker(&mut random);
        } else {
            // As many as may be away without keeping a majority from being counted.
            let able = cluster.until_counted(QUARANTINE, NODES - 1);
            let victims = cluster.draw(&mut random, able);
            cluster.bounce(&victims, Duration::from_millis(random.below(600)));
        }
        majority_next = random.below(4) == 0;
        cluster.pass(Duration::from_millis(random.below(300)));
    }
    let record = cluster.finish(WAIT + SLACK);
    record.report("without a log", cluster.killed);
    assert_safe(&record);
}

/// Planted faults. In the short form the first: a node counts as soon as it is back. In the long form
/// also the other: nodes are not asked how long they have been up, so a client that starts after the
/// restart does not know of it; that takes several tries, for the holder must not hear of it before.
#[test]
fn the_witness_notices_when_nodes_that_forgot_are_counted() {
    until_two_are_inside(ALWAYS_LONG.forgetting_nothing());
    if is_soak() {
        until_two_are_inside(Orders { guarded: false, ..ALWAYS_LONG });
    }
}

#[track_caller]
fn until_two_are_inside(orders: Orders) {
    let mut random = Random::of_this_run();
    let mut cluster = Cluster::start(Persistence::None, orders);
    let (start, bound) = (Instant::now(), Duration::from_secs(240));
    while cluster.overlaps() == 0 {
        assert!(start.elapsed() < bound, "nobody objected: witness or kills are worth nothing");
        cluster.until_somebody_is_inside();
        cluster.bounce_majority(&mut random);
        cluster.replace_worker(&mut random);
        // The holder has not heard of it, or is about to; another one may be in already.
        cluster.pass(Duration::from_millis(200 + random.below(300)));
    }
    println!("two were inside after {} kills and {} rounds", cluster.killed, cluster.rounds());
}

#[track_caller]
fn assert_safe(record: &Record) {
    assert!(record.verdict.entries >= rounds(), "hardly anybody was ever inside: {record:#?}");
    assert!(
        record.verdict.overlaps.len() <= record.late,
        "two were inside at once: {:#?}",
        record.verdict.overlaps
    );
    assert!(
        record.steps_back() <= record.late,
        "a fencing token was not larger than the one before: {:?}",
        record.fencing_tokens
    );
    let longest = record.waits.iter().max().copied().unwrap_or_default();
    assert!(longest <= WAIT + SLACK, "an acquire took {longest:?}");
    assert!(record.strange().is_empty(), "failed in a way that nothing explains: {record:#?}");
}

/// Waits for something that the workers bring about.
#[track_caller]
fn until(what: &str, happened: impl FnMut() -> bool) {
    eventually(LIMIT, what, happened);
}
