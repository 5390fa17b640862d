//! Fencing tokens grow for each grant of a name, whatever happens to the store: told by a witness
//! that knows nothing of the library.
//!
//! ```text
//!   crew (two processes, several tasks each)  --- ask, got --->  ledger (one file)  ---> verdict
//!      ^ locks on                                                      | how many grants
//!   world (a store by its url) <---------------- faults, in between ---+
//! ```
//! 5,000 grants on one server or file, here, and 5,000 where several servers are involved
//! (`sentinel.rs`, `cluster.rs`, `quorum.rs`): 100,000 each with `FENCELOCK_SOAK=1`
//! (`testing/nightly`). Each test says which assumption of SAFETY.md its faults break, and what the
//! order then leans on.
//!
//! **To add a store**: a [`World`](world::World) with its url and what can be done to it.
#![cfg(all(target_os = "linux", feature = "redis", feature = "sqlite", feature = "quorum"))]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

mod clock;
mod cluster;
mod crew;
mod lag;
mod ledger;
mod quorum;
mod sentinel;
mod world;

use std::time::Duration;

use fencelock_testkit::{Persistence, RedisServer};

use crate::{
    crew::Work,
    ledger::Order,
    world::{Fault, World, run},
};

fn is_soak() -> bool {
    std::env::var_os("FENCELOCK_SOAK").is_some_and(|it| it == "1")
}

/// How many grants a test makes, of the 5,000 or 100,000 of all.
fn grants(hundredths: u64) -> u64 {
    (if is_soak() { 1_000 } else { 50 }) * hundredths
}

/// How many of them lie between two faults that take seconds each: three faults, or twenty.
fn between(hundredths: u64) -> u64 {
    grants(hundredths) / if is_soak() { 20 } else { 4 }
}

/// How far apart the clocks of servers are, where tokens must not lean on them. A lease that is judged
/// by the clock that is behind is over so much later, which the crew has to wait for.
const APART: Duration = Duration::from_secs(5);

/// Leases that end while one waits for them.
const SHORT: Duration = Duration::from_millis(500);

/// Leans on A1 to A5: exclusion holds, so the ledger is in the order of the grants, and each is
/// compared with the one before it.
#[test]
fn on_a_store_that_keeps_its_records_each_token_is_above_the_one_before() {
    let server = RedisServer::start();
    let world = World::new(server.url(), Order::Strict).fault(Fault::new("SCRIPT FLUSH", || {
        server.cli(&["SCRIPT", "FLUSH"]);
    }));
    run(&world, &Work::new(grants(25)).ttl(Duration::from_secs(30)));
}

/// What makes a server forget its locks, all of them or some.
fn forgetful<'a>(server: &'a RedisServer, order: Order) -> World<'a> {
    World::new(server.url(), order)
        .fault(Fault::new("FLUSHALL", || {
            server.cli(&["FLUSHALL"]);
        }))
        .fault(Fault::new("kill -9 and restart without persistence", || {
            server.kill();
            server.restart();
        }))
        .fault(Fault::new("DEL of the keys", || {
            for name in crew::NAMES {
                server.cli(&["DEL", &format!("fencelock:{name}")]);
            }
        }))
        .fault(Fault::new("SCRIPT FLUSH", || {
            server.cli(&["SCRIPT", "FLUSH"]);
        }))
}

/// A3 is broken: two may believe to hold the lock, and what was remembered of the name is gone. Leans
/// on the clock of the server, which goes on, and on that each grant is asked of the store.
#[test]
fn tokens_grow_over_flushes_deletions_and_restarts_that_forget_all() {
    let server = RedisServer::builder().persistence(Persistence::None).start();
    let work = Work::new(grants(30)).ttl(SHORT).strict_fifo();
    run(&forgetful(&server, Order::RealTime), &work);
}

/// The same for leases that are passed on inside a process: a process that does not know yet that the
/// store forgot its lease goes on in the tokens of that lease, below those of the next holder.
#[test]
fn a_forgotten_lease_that_is_passed_on_stays_below_the_next_holder() {
    let server = RedisServer::builder().persistence(Persistence::None).start();
    let work = Work::new(grants(20)).ttl(SHORT);
    run(&forgetful(&server, Order::Leases), &work);
}

/// Records go with the release, leases end by themselves, and nothing is remembered in between.
/// Leans on the clock of the server, too.
#[test]
fn tokens_grow_where_nothing_is_retained_and_leases_expire() {
    let server = RedisServer::start();
    let world = World::new(server.url(), Order::RealTime);
    run(&world, &Work::new(grants(15)).ttl(SHORT).retain(Duration::ZERO).abandoning());
}

/// Leans on A1 to A5, which hold by construction on one machine that runs.
#[test]
fn in_the_embedded_file_each_token_is_above_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let work = Work::new(grants(10)).ttl(Duration::from_secs(30));
    run(&World::new(url, Order::Strict), &work);
}
