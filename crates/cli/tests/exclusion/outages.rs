//! A server that is away, comes back, or comes back empty.

use std::time::{Duration, Instant};

use fencelock_testkit::port::ReservedPort;
use fencelock_testkit::process::group_members;
use fencelock_testkit::{Persistence, Process, RedisServer, eventually};

use crate::support::{Ended, LIMIT, Place, check_tokens, finish, group, wait_for_stderr};

/// What a busy machine may need on top of every bound in time.
const SLACK: Duration = Duration::from_secs(1);

const WAITERS: usize = 4;

/// Tells its token and its group, and ends when the file `go` is there.
const UNTIL_GO: &str = "echo $FENCELOCK_FENCING_TOKEN >>tokens; echo inside $PPID; \
                        while [ ! -e go ]; do sleep 0.01; done";
/// The same, deaf to TERM and without an end.
const STUBBORN: &str = "trap '' TERM; echo $FENCELOCK_FENCING_TOKEN >>tokens; \
                        echo inside $PPID; while :; do sleep 0.05; done";
const PASS: &str = "echo $FENCELOCK_FENCING_TOKEN >>tokens; echo inside $PPID";

fn assert_well(process: &mut Process) -> Ended {
    let ended = finish(process);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}

#[test]
fn with_aof_a_restart_costs_neither_the_holder_nor_the_waiters_anything() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let place = Place::on(&server);
    let witness = place.witness("job");
    let flags = ["job", "--ttl", "15s", "-v"];
    let mut holder = place.run_inside(&witness, &flags, UNTIL_GO);
    holder.wait_for_stdout(LIMIT, "inside ");
    let mut waiters: Vec<Process> =
        (0..WAITERS).map(|_| place.run_inside(&witness, &flags, PASS)).collect();
    for waiter in &mut waiters {
        wait_for_stderr(waiter, "waiting for lock `job`");
    }
    server.kill();
    server.restart();
    // The holder has it still: a renewal that the new process answered says so.
    let renewals = holder.stderr().matches("renewed").count();
    eventually(LIMIT, "a renewal after the restart", || {
        assert_eq!(holder.exited(), None, "{}", holder.stderr());
        holder.stderr().matches("renewed").count() > renewals
    });
    for waiter in &waiters {
        assert_eq!(group(waiter), None);
    }
    std::fs::write(place.path("go"), "").unwrap();
    assert_well(&mut holder);
    for waiter in &mut waiters {
        assert_well(waiter);
    }
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!((verdict.entries, verdict.unfinished), (1 + WAITERS, Vec::new()));
    assert_eq!(check_tokens(&place.read("tokens")), Ok(1 + WAITERS));
}

#[test]
fn without_persistence_the_holder_is_lost_at_its_first_answered_renewal() {
    let server = RedisServer::start();
    let place = Place::on(&server);
    // One for each: they are expected to overlap, and a refused waiter could not be measured.
    let (first, second) = (place.witness("first"), place.witness("second"));
    let (interval, grace) = (Duration::from_secs(1), Duration::from_millis(400));
    let flags = ["job", "--ttl", "3s", "--grace", "400ms"];
    let mut holder = place.run_inside(&first, &flags, STUBBORN);
    holder.wait_for_stdout(LIMIT, "inside ");
    let holders = group(&holder).unwrap();
    let mut waiter = place.run_inside(&second, &flags, PASS);
    wait_for_stderr(&mut waiter, "waiting for lock `job`");
    server.kill();
    server.restart();
    let empty_since = Instant::now();
    let (mut entered, mut died) = (None, None);
    eventually(LIMIT, "the waiter enters and the holder's command dies", || {
        if entered.is_none() && group(&waiter).is_some() {
            entered = Some(Instant::now());
        }
        if died.is_none() && group_members(holders).is_empty() {
            died = Some(Instant::now());
        }
        entered.is_some() && died.is_some()
    });
    let (entered, died) = (entered.unwrap(), died.unwrap());
    let overlap = died.saturating_duration_since(entered);
    println!(
        "empty for {:?} when the holder was dead; overlap {overlap:?}, bound {:?}",
        died - empty_since,
        interval + grace
    );
    assert!(overlap <= interval + grace + SLACK, "{overlap:?}");
    let ended = finish(&mut holder);
    assert_eq!(ended.code, 79, "{ended:?}");
    assert!(
        ended.stderr.contains("was lost in") && ended.stderr.contains(&server.addr()),
        "{ended:?}"
    );
    assert_well(&mut waiter);
    // Whoever checks the token keeps the old holder out, overlap or not.
    assert_eq!(check_tokens(&place.read("tokens")), Ok(2));
}

#[test]
fn a_redis_that_is_not_there_is_named_within_three_seconds() {
    let port = ReservedPort::draw();
    let place = Place::embedded();
    let address = format!("127.0.0.1:{}", port.port());
    let url = format!("redis://{address}");
    assert_unavailable(&place, &url, &address);
}

#[test]
fn a_redis_that_does_not_answer_is_named_within_three_seconds() {
    let server = RedisServer::start();
    server.stop_signal();
    assert_unavailable(&Place::on(&server), &server.url(), &server.addr());
    server.cont();
}

fn assert_unavailable(place: &Place, url: &str, address: &str) {
    let start = Instant::now();
    let mut run = Process::spawn(place.command(&["run", "job", "--store", url, "--", "true"]));
    let ended = finish(&mut run);
    let took = start.elapsed();
    assert_eq!(ended.code, 69, "{ended:?}");
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains(address), "{ended:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}
