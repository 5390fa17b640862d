//! Locks of all kinds, in the hands of four processes that are killed and frozen at random. What
//! they note is held against what must be true of each name.
//!
//! ```text
//!   task:     read, write, downgrade, permits, holds of an owner, several as one, latches, barriers;
//!             give up while waiting; release, drop, forget, leave, or let the lease end
//!   parent:   kill -9 and start another one, SIGSTOP for longer than a lease; of a server: cut
//!             connections and subscriptions, make it forget its scripts
//!   checker:  from the notes alone, after the end; see `holds` and `meetings`
//! ```
//! A frozen holder does nothing and its validity ends by the clock that all have in common, so nobody
//! is excused. The workers are this very binary, see `worker`. `FENCELOCK_SOAK=1` asks for ten
//! minutes for each store instead of half a minute.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

mod crew;
mod deeds;
mod hold;
mod holds;
mod leftovers;
mod meetings;
mod notes;
mod record;
mod violation;
mod worker;

use std::time::{Duration, Instant};

use fencelock_chaos::{Random, is_soak};
use fencelock_testkit::RedisServer;

use crate::{crew::Crew, record::Record, violation::Rule, worker::Conduct};

/// What a task takes at most: the longest wait, for two holds one after the other, and the rest on a
/// machine that has better things to do.
const LONGEST_DEED: Duration = Duration::from_secs(2 * deeds::WAIT.as_secs() + 60);

/// Longer than it takes until each thing has happened.
const LIMIT: Duration = Duration::from_secs(400);

fn span() -> Duration {
    Duration::from_secs(if is_soak() { 600 } else { 30 })
}

#[test]
fn in_the_embedded_file_no_rule_is_broken_whoever_is_killed_or_frozen() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    soak("embedded file", &url, |_| {});
}

#[test]
fn on_redis_no_rule_is_broken_whoever_is_killed_or_frozen_and_whatever_it_forgets() {
    let server = RedisServer::start();
    soak("redis", &server.url(), |random| {
        let annoyances: [&[&str]; 3] = [
            &["CLIENT", "KILL", "TYPE", "pubsub"],
            &["CLIENT", "KILL", "TYPE", "normal"],
            &["SCRIPT", "FLUSH"],
        ];
        let which = usize::try_from(random.below(3)).expect("a few");
        server.cli(annoyances[which]);
    });
}

/// Planted: with a worker that frees names by force, those who still count on theirs are not alone.
#[test]
fn names_that_are_freed_by_force_are_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let mut random = Random::of_this_run();
    let crew = Crew::start(&url, &mut random, Conduct::Forcing);
    let expected = [Rule::Alone, Rule::Owners, Rule::Permits, Rule::Validity];
    let start = Instant::now();
    loop {
        crew.pass(Duration::from_millis(500));
        let record = Record::of(&crew.notes());
        let missing: Vec<_> = expected.into_iter().filter(|rule| !record.broke(*rule)).collect();
        if missing.is_empty() {
            return;
        }
        assert!(start.elapsed() < LIMIT, "nobody noticed {missing:?}");
    }
}

/// Lets the workers work for a while, does to them and to the store what may be done, and checks.
fn soak(store: &str, url: &str, mut annoy: impl FnMut(&mut Random)) {
    let mut random = Random::of_this_run();
    let mut crew = Crew::start(url, &mut random, Conduct::Good);
    let start = Instant::now();
    while start.elapsed() < span() || crew.killed < 5 || crew.frozen < 5 {
        crew.pass(Duration::from_millis(random.below(500)));
        match random.below(10) {
            0..4 => crew.replace_one(&mut random),
            4..8 => {
                // Also for longer than most leases, though not each time.
                let longest = if random.below(3) == 0 { 1_500 } else { 300 };
                let span = Duration::from_millis(20 + random.below(longest));
                crew.freeze_one(&mut random, span);
            }
            _ => annoy(&mut random),
        }
    }
    while !Record::of(&crew.notes()).is_worth_it() {
        assert!(start.elapsed() < span() + LIMIT, "some things never happened");
        crew.pass(Duration::from_millis(500));
    }
    let record = Record::of(&crew.finish(LONGEST_DEED));
    record.report(store, crew.killed, crew.frozen);
    assert!(record.violations.is_empty(), "{:#?}", record.first_violations());
    leftovers::assert_none(url);
}
