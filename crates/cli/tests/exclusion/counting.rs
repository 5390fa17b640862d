//! Many processes add one to a number in a file, by reading and writing it: under a lock that
//! works not one addition is lost.

use std::fs;
use std::time::{Duration, Instant};

use fencelock_testkit::{Process, RedisServer};

use crate::support::{Place, alone, finish_within};

/// Two cores that have nothing else to do take 15 s for a thousand runs.
const COUNTED_WITHIN: Duration = Duration::from_secs(300);

/// Runs `processes` shells, each with `runs` runs of `fencelock run` one after the other.
fn count(place: &Place, processes: usize, runs: usize, flags: &str) {
    let _alone = alone();
    fs::write(place.path("number"), "0\n").unwrap();
    let start = Instant::now();
    let script = format!(
        "i=0; while [ $i -lt {runs} ]; do \
         \"$FENCELOCK\" run counter -q {flags} -- sh -c 'read n <number; echo $((n+1)) >number' \
         || exit $?; i=$((i+1)); done"
    );
    let mut shells: Vec<Process> = (0..processes).map(|_| place.shell(&script)).collect();
    for shell in &mut shells {
        let ended = finish_within(COUNTED_WITHIN, shell);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.stderr, "", "{ended:?}");
    }
    println!("{processes} x {runs} runs in {:?}", start.elapsed());
    assert_eq!(place.read("number"), format!("{}\n", processes * runs));
}

#[test]
fn twenty_processes_lose_no_addition_on_the_embedded_store() {
    count(&Place::embedded(), 20, 50, "");
}

#[test]
fn twenty_processes_lose_no_addition_on_redis() {
    let server = RedisServer::start();
    count(&Place::on(&server), 20, 50, "");
}

#[test]
fn ten_processes_lose_no_addition_on_redis_in_the_plain_dialect() {
    let server = RedisServer::start();
    count(&Place::on(&server), 10, 20, "--dialect plain");
}
