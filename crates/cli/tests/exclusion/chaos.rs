//! Several locks, several processes for each, and each run may be killed or stopped anywhere: the
//! witness sees no overlap, fencing tokens only grow, every exit code is the right one, no command
//! outlives its run, and every lock is free again in the end.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use fencelock_testkit::process::group_members;
use fencelock_testkit::{RedisServer, Witness, eventually};

use crate::faults::{Fault, Plan, TTL};
use crate::random::Random;
use crate::support::{Ended, LIMIT, Place, alone, check_tokens, finish, group, is_soak};

const LOCKS: u64 = 8;
const WORKERS_A_LOCK: u64 = 3;

/// Everything that happens.
struct Chaos<'a> {
    place: &'a Place,
    locks: Vec<(String, Witness)>,
    /// Whether a process that is stopped in the middle of a transaction stops all others, as the
    /// README of the embedded store says.
    shares_a_file: bool,
    /// The store of each worker, where they differ: that is wrong on purpose.
    own_stores: bool,
    runs: Mutex<Vec<Run>>,
}

/// One run, when it is over.
struct Run {
    plan: Plan,
    from: Instant,
    to: Instant,
    ended: Ended,
}

/// What there is to say about all runs.
struct Findings {
    /// What must not be; empty when all is well.
    wrong: Vec<String>,
    /// How many runs ended in which way.
    table: BTreeMap<(Fault, i32), usize>,
    entries: usize,
}

impl<'a> Chaos<'a> {
    fn new(place: &'a Place, shares_a_file: bool) -> Self {
        let locks = (0..LOCKS).map(|number| {
            let name = format!("lock-{number}");
            let witness = place.witness(&name);
            (name, witness)
        });
        let (locks, runs) = (locks.collect(), Mutex::new(Vec::new()));
        Self { place, locks, shares_a_file, own_stores: false, runs }
    }

    fn go_on_for(&self, duration: Duration, seed: u64) -> Findings {
        let end = Instant::now() + duration;
        thread::scope(|scope| {
            for worker in 0..LOCKS * WORKERS_A_LOCK {
                scope.spawn(move || self.work_until(end, worker, seed));
            }
        });
        self.find()
    }

    fn work_until(&self, end: Instant, worker: u64, seed: u64) {
        let mut random = Random::from_seed(seed ^ worker.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let index = usize::try_from(worker % LOCKS).unwrap();
        let (name, witness) = self.locks.get(index).unwrap();
        let ttl = format!("{}ms", TTL.as_millis());
        let own_store = self.place.other_store(&format!("store-{worker}"));
        while Instant::now() < end {
            let plan = Plan::draw(&mut random);
            let mut words = vec![name.as_str(), "-q", "--ttl", &ttl];
            if self.own_stores {
                words.extend(["--store", own_store.as_str()]);
            }
            let from = Instant::now();
            let mut run = self.place.run_inside(witness, &words, &plan.script());
            plan.strike(&mut run);
            let ended = finish(&mut run);
            if let Some(group) = group(&run) {
                // A killed wrapper leaves the killing to its minder, which may take an instant.
                eventually(LIMIT, &format!("the command of {plan:?} is gone"), || {
                    group_members(group).is_empty()
                });
            }
            let to = Instant::now();
            self.runs.lock().unwrap().push(Run { plan, from, to, ended });
        }
    }

    fn find(&self) -> Findings {
        let runs = self.runs.lock().unwrap();
        let mut findings = Findings { wrong: Vec::new(), table: BTreeMap::new(), entries: 0 };
        for run in runs.iter() {
            *findings.table.entry((run.plan.fault, run.ended.code)).or_default() += 1;
            if !run.plan.allows(run.ended.code) && !self.is_excused(run, &runs) {
                findings.wrong.push(format!("{:?} ended with {:?}", run.plan, run.ended));
            }
        }
        for (name, witness) in &self.locks {
            let verdict = witness.check();
            findings.entries += verdict.entries;
            findings.wrong.extend(verdict.overlaps.iter().map(|what| {
                let who = who_was_inside(witness, what, &runs);
                format!("{name}: {what}, while there was {who}")
            }));
            if let Err(error) = check_tokens(&self.place.read(&format!("tokens.{name}"))) {
                findings.wrong.push(error);
            }
        }
        findings
    }

    /// Whether somebody else, stopped at the time in the middle of a transaction, may have kept
    /// this run from its store.
    fn is_excused(&self, run: &Run, runs: &[Run]) -> bool {
        self.shares_a_file
            && [69, 79].contains(&run.ended.code)
            && runs.iter().any(|other| {
                other.plan.fault.stops_wrapper() && other.from < run.to && other.to > run.from
            })
    }

    /// Every lock can be had again, by somebody who waits for no more than the rest of a lease.
    fn assert_all_free(&self) {
        for (name, witness) in &self.locks {
            let mut run = self.place.run_inside(witness, &[name, "--wait", "10s"], "true");
            let ended = finish(&mut run);
            assert_eq!(ended.code, 0, "{name}: {ended:?}");
        }
    }
}

/// The run that entered last before a refusal; its command's group is in the id of its entry.
fn who_was_inside(witness: &Witness, refusal: &str, runs: &[Run]) -> String {
    let log = fs::read_to_string(witness.directory().join("log")).unwrap();
    let refused_at: u64 =
        refusal.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let entries = log.lines().filter_map(|line| line.strip_prefix("begin run."));
    let before = entries.filter_map(|line| {
        let (id, at) = line.split_once(' ')?;
        Some((id.split('.').next()?, at.parse::<u64>().ok()?))
    });
    let Some((group, at)) = before.take_while(|(_, at)| *at <= refused_at).last() else {
        return "nobody".to_owned();
    };
    let mark = format!("inside {group}\n");
    let run = runs.iter().find(|run| run.ended.stdout.contains(&mark));
    let plan = run.map(|run| (&run.plan, run.ended.code, &run.ended.stderr));
    format!("{group}, since {at} ({plan:?})")
}

fn survive(place: &Place, shares_a_file: bool) {
    let _alone = alone();
    let seed = Random::seed();
    let duration = Duration::from_secs(if is_soak() { 600 } else { 15 });
    let chaos = Chaos::new(place, shares_a_file);
    let findings = chaos.go_on_for(duration, seed);
    for ((fault, code), count) in &findings.table {
        println!("{count:6} runs with {fault:?} ended with {code}");
    }
    println!("{} entries, FENCELOCK_SEED={seed}", findings.entries);
    assert!(findings.wrong.is_empty(), "FENCELOCK_SEED={seed}: {:#?}", findings.wrong);
    assert!(findings.entries > 0, "nobody was ever inside");
    chaos.assert_all_free();
}

#[test]
fn killed_and_frozen_runs_never_overlap_on_the_embedded_store() {
    survive(&Place::embedded(), true);
}

#[test]
fn killed_and_frozen_runs_never_overlap_on_redis() {
    let server = RedisServer::start();
    survive(&Place::on(&server), false);
}

#[test]
fn the_chaos_notices_when_the_lock_is_none() {
    let _alone = alone();
    let place = Place::embedded();
    let mut chaos = Chaos::new(&place, true);
    chaos.own_stores = true;
    let findings = chaos.go_on_for(Duration::from_secs(2), Random::seed());
    assert!(findings.wrong.iter().any(|what| what.contains(": refused: ")), "{:?}", findings.wrong);
}
