//! Fail-overs that a Sentinel makes, under holders and contenders.
//!
//! A lease that was granted and not replicated is forgotten by a fail-over, so exclusion is asserted
//! where grants are acknowledged by the replica that is promoted; fencing tokens are asserted
//! always.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fencelock_testkit::{Process, Replicated, Witness, eventually};

use crate::support::{LIMIT, Place, alone, check_tokens, finish, group, is_soak, wait_for_stderr};

const CONTENDERS: usize = 8;

/// Tells its token, and is inside for a moment.
const VISIT: &str = "echo $FENCELOCK_FENCING_TOKEN >>tokens; sleep 0.02";

#[test]
fn a_holder_and_its_waiters_get_through_a_fail_over() {
    let service = Replicated::start(1);
    let place = Place::at(&service.url());
    let witness = place.witness("job");
    let flags = ["job", "--ttl", "20s", "-v"];
    let hold = "echo $FENCELOCK_FENCING_TOKEN >>tokens; echo inside $PPID; \
                while [ ! -e go ]; do sleep 0.01; done";
    let mut holder = place.run_inside(&witness, &flags, hold);
    holder.wait_for_stdout(LIMIT, "inside ");
    let mut waiters: Vec<Process> =
        (0..3).map(|_| place.run_inside(&witness, &flags, VISIT)).collect();
    for waiter in &mut waiters {
        wait_for_stderr(waiter, "waiting for lock `job`");
    }
    let old = service.primary();
    old.cli(&["WAIT", "1", "10000"]);
    old.kill();
    service.await_failover_from(old.port());
    let renewals = holder.stderr().matches("renewed").count();
    eventually(LIMIT, "a renewal at the new primary", || {
        assert_eq!(holder.exited(), None, "{}", holder.stderr());
        holder.stderr().matches("renewed").count() > renewals
    });
    assert!(waiters.iter().all(|waiter| group(waiter).is_none()));
    std::fs::write(place.path("go"), "").unwrap();
    for process in std::iter::once(&mut holder).chain(&mut waiters) {
        let ended = finish(process);
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!(verdict.entries, 4);
    assert_eq!(check_tokens(&place.read("tokens")), Ok(4));
}

/// Goal: with grants that the replica has acknowledged no fail-over lets two in, and each lets
/// somebody in again. Method: eight contenders that come again and again, a primary that is killed or
/// frozen in turn and comes back each time, and a witness outside of every store.
#[test]
fn acknowledged_grants_never_overlap_however_often_the_primary_changes() {
    let _alone = alone();
    let failovers = if is_soak() { 20 } else { 2 };
    let service = Replicated::start(1);
    let place = Place::at(&format!("{}?replicas=1&acknowledge_within=300ms", service.url()));
    let witness = place.witness("job");
    let is_over = AtomicBool::new(false);
    let codes = thread::scope(|scope| {
        let contend = || contend_until(&is_over, &place, &witness);
        let contenders: Vec<_> = (0..CONTENDERS).map(|_| scope.spawn(contend)).collect();
        // Also when an assertion fails: the scope waits for them.
        let stop = Stop(&is_over);
        for number in 0..failovers {
            await_entry(&witness);
            change_primary(&service, number);
        }
        await_entry(&witness);
        drop(stop);
        let codes = contenders.into_iter().map(|contender| contender.join().unwrap());
        codes.flatten().collect::<Vec<i32>>()
    });
    let verdict = witness.check();
    let count = |code| codes.iter().filter(|ended| **ended == code).count();
    println!(
        "{failovers} fail-overs, {} entries; ended with 0: {}, 69: {}, 79: {}",
        verdict.entries,
        count(0),
        count(69),
        count(79)
    );
    verdict.assert_exclusive();
    // Through, or stopped for a loss, or never let in: nothing else.
    assert_eq!(count(0) + count(69) + count(79), codes.len(), "{codes:?}");
    let tokens = check_tokens(&place.read("tokens"));
    assert!(tokens.as_ref().is_ok_and(|count| *count >= failovers), "{tokens:?}");
    // Nothing is left behind.
    let mut last = place.run_inside(&witness, &["job", "--wait", "20s"], "true");
    assert_eq!(finish(&mut last).code, 0, "{}", last.stderr());
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn contend_until(is_over: &AtomicBool, place: &Place, witness: &Witness) -> Vec<i32> {
    let mut codes = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let flags = ["job", "-q", "--ttl", "2s", "--wait", "30s"];
        let mut run = place.run_inside(witness, &flags, VISIT);
        let ended = finish(&mut run);
        codes.push(ended.code);
    }
    codes
}

/// Somebody gets in from now on.
fn await_entry(witness: &Witness) {
    let before = witness.check().entries;
    eventually(LIMIT, "somebody is let in", || witness.check().entries > before);
}

/// The primary goes, by a kill or by standing still, is replaced, and comes back.
fn change_primary(service: &Replicated, number: usize) {
    let old = service.primary();
    match number.is_multiple_of(2) {
        true => old.kill(),
        false => old.stop_signal(),
    }
    service.await_failover_from(old.port());
    match number.is_multiple_of(2) {
        true => old.restart(),
        false => old.cont(),
    }
    service.settle();
}
