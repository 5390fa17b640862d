//! A slot that moves from server to server, and a server that fails, under runs that compete for a
//! name in it: the witness sees no overlap, no addition is lost, fencing tokens only grow, and every
//! run goes well.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fencelock_testkit::{RedisCluster, Witness, eventually};

use crate::support::{Ended, LIMIT, Place, alone, check_tokens, finish, is_soak};

const NAME: &str = "counter";

/// Adds one to a number, and writes its fencing token down.
const ADD: &str = "read n <number; echo $((n+1)) >number; echo $FENCELOCK_FENCING_TOKEN >>tokens";

/// Runs that compete until they are told to stop.
struct Contest<'a> {
    place: &'a Place,
    witness: &'a Witness,
    stop: AtomicBool,
    ended: Mutex<Vec<Ended>>,
}

impl<'a> Contest<'a> {
    fn new(place: &'a Place, witness: &'a Witness) -> Self {
        fs::write(place.path("number"), "0\n").unwrap();
        Self { place, witness, stop: AtomicBool::new(false), ended: Mutex::default() }
    }

    /// Lets so many processes at a time compete while something happens.
    fn during(&self, processes: usize, happens: impl FnOnce() + Send) {
        /// Stops the others also when a step fails.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        thread::scope(|scope| {
            let _stop = Stop(&self.stop);
            for _ in 0..processes {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Acquire) {
                        let words = [NAME, "-q", "--ttl", "10s", "--wait", "60s"];
                        let ended = finish(&mut self.place.run_inside(self.witness, &words, ADD));
                        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
                    }
                });
            }
            happens();
        });
    }

    /// Waits until so many more runs have gone well.
    fn go_on(&self, more: usize) {
        let well = || {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.iter().filter(|ended| ended.code == 0).count()
        };
        let enough = well() + more;
        eventually(LIMIT, &format!("{more} more runs go well"), || well() >= enough);
    }

    /// What every contest ends with. Says how many runs did not go well.
    fn check(&self) -> Vec<Ended> {
        let mut ended = std::mem::take(&mut *self.ended.lock().unwrap());
        let verdict = self.witness.check();
        assert_eq!(verdict.overlaps, Vec::<String>::new());
        let tokens = check_tokens(&self.place.read("tokens")).expect("fencing tokens only grow");
        println!("{} runs, {} entries", ended.len(), verdict.entries);
        assert_eq!(self.place.read("number"), format!("{tokens}\n"), "no addition is lost");
        ended.retain(|ended| ended.code != 0);
        ended
    }
}

/// The short form has three moves, the long one twenty, with eight processes.
#[test]
fn a_slot_that_moves_under_contending_runs_loses_nothing() {
    let _alone = alone();
    let (moves, processes) = if is_soak() { (20, 8) } else { (3, 4) };
    let cluster = RedisCluster::start();
    let place = Place::at(&cluster.url());
    let witness = place.witness("witness");
    let contest = Contest::new(&place, &witness);
    let slot = cluster.slot(format!("fencelock:{NAME}").as_bytes());
    contest.during(processes, || {
        contest.go_on(2);
        for _ in 0..moves {
            let to = (cluster.primary(slot) + 1) % 3;
            cluster.begin_move(slot, to);
            contest.go_on(1);
            cluster.migrate_keys(slot, to);
            contest.go_on(2);
            cluster.end_move(slot, to);
            contest.go_on(2);
        }
    });
    let failed = contest.check();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The long form alone: a primary is killed, and its replica takes over. Who waits rides it out, also
/// who comes to wait meanwhile.
#[test]
fn the_failover_of_a_primary_ends_and_fencing_tokens_still_grow() {
    if !is_soak() {
        return;
    }
    let _alone = alone();
    let cluster = RedisCluster::builder().replicas(1).node_timeout(Duration::from_secs(2)).start();
    let place = Place::at(&cluster.url());
    let witness = place.witness("witness");
    let contest = Contest::new(&place, &witness);
    let slot = cluster.slot(format!("fencelock:{NAME}").as_bytes());
    if cluster.primary(slot) != 0 {
        cluster.move_slot(slot, 0);
    }
    contest.during(4, || {
        contest.go_on(10);
        cluster.servers()[0].kill();
        eventually(LIMIT, "the replica has taken over", || cluster.serves(3, slot));
        contest.go_on(10);
    });
    let failed = contest.check();
    // Whoever held the lock may have lost it; whoever waited goes on waiting.
    for ended in &failed {
        assert_eq!(ended.code, 79, "{ended:?}");
    }
    println!("{} runs did not go well during the failover: {failed:#?}", failed.len());
}
