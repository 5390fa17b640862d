//! A lock that is lost while its command runs.

use std::time::{Duration, Instant};

use fencelock_testkit::process::{Signal, cont, group_members, send};
use fencelock_testkit::{Persistence, Process, RedisServer, eventually, process_exists};

use crate::support::{Bench, LIMIT, finish, wait_for_stderr};

/// A command that notes TERM and ends by itself.
const POLITE: &str = "trap 'echo term >> log; exit 3' TERM; echo $$ > pid; echo inside; \
                      while :; do sleep 0.01; done";
/// A command that does not listen, with a child that does not either.
const STUBBORN: &str = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & \
                        echo $$ > pid; echo inside; while :; do sleep 1; done";

fn start(bench: &Bench, flags: &[&str], script: &str) -> Process {
    let words = [&["run", "job"], flags, &["--", "sh", "-c", script]].concat();
    let mut run = bench.start(words);
    run.wait_for_stdout(LIMIT, "inside");
    run
}

/// Waits until the group is dead; the answer is how long after `start` it was still seen alive. (When
/// it is found dead says nothing on a busy machine: we may be late to look.)
#[track_caller]
fn lived_on(group: u32, start: Instant) -> Duration {
    let mut seen = Duration::ZERO;
    eventually(LIMIT, "the group is dead", || {
        let now = start.elapsed();
        let dead = group_members(group).is_empty();
        if !dead {
            seen = now;
        }
        dead
    });
    seen
}

fn pid(bench: &Bench) -> u32 {
    bench.read("pid").trim().parse().unwrap()
}

#[test]
fn a_lock_taken_away_stops_the_command_with_79() {
    let bench = Bench::new();
    let mut run = start(&bench, &["--ttl", "1s"], POLITE);
    assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
    let ended = finish(&mut run);
    assert_eq!(ended.code, 79, "{ended:?}");
    assert_eq!(bench.read("log"), "term\n");
    assert!(ended.stderr.contains("lock `job` was lost in sqlite:"), "{ended:?}");
    assert!(ended.stderr.contains("stopping the command"), "{ended:?}");
}

#[test]
fn what_does_not_listen_is_killed_with_everything_in_its_group() {
    let bench = Bench::new();
    let mut run = start(&bench, &["--ttl", "1s", "--grace", "50ms"], STUBBORN);
    let group = pid(&bench);
    eventually(LIMIT, "two in the group", || group_members(group).len() >= 2);
    assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
    let ended = finish(&mut run);
    assert_eq!(ended.code, 79, "{ended:?}");
    assert_eq!(group_members(group), Vec::<u32>::new());
}

#[test]
fn a_key_that_disappears_is_named_as_such() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let mut run = start(&bench, &["--ttl", "1s"], POLITE);
    server.cli(&["DEL", "fencelock:job"]);
    let ended = finish(&mut run);
    assert_eq!(ended.code, 79, "{ended:?}");
    assert!(ended.stderr.contains("lock key disappeared from the store"), "{ended:?}");
    assert!(ended.stderr.contains("`job`") && ended.stderr.contains(&server.addr()), "{ended:?}");
    assert_eq!(bench.read("log"), "term\n");
}

#[test]
fn ignored_a_loss_is_told_and_counts_only_when_the_command_succeeds() {
    for (script, code) in [("exit 0", 79), ("exit 4", 4), ("kill -KILL $$", 137)] {
        let bench = Bench::new();
        let wait = format!("echo inside; while [ ! -e go ]; do sleep 0.01; done; {script}");
        let mut run = start(&bench, &["--ttl", "1s", "--on-lost", "ignore"], &wait);
        assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
        wait_for_stderr(&mut run, "the command runs on without it");
        bench.let_go();
        let ended = finish(&mut run);
        assert_eq!(ended.code, code, "{script}: {ended:?}");
    }
}

#[test]
fn a_command_that_ends_before_the_loss_is_noticed_gives_79_only_for_success() {
    for (script, code) in [("exit 0", 79), ("exit 4", 4)] {
        let bench = Bench::new();
        let wait = format!("echo inside; while [ ! -e go ]; do sleep 0.01; done; {script}");
        // The next renewal is ten seconds away.
        let mut run = start(&bench, &["--ttl", "30s"], &wait);
        assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
        bench.let_go();
        let ended = finish(&mut run);
        assert_eq!(ended.code, code, "{script}: {ended:?}");
        ended.assert_one_line(&["lock `job`", "was lost"]);
    }
}

#[test]
fn a_store_that_falls_silent_costs_the_command_its_life_before_the_lease_ends() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let mut run = start(&bench, &["--ttl", "2s", "--grace", "200ms"], STUBBORN);
    let group = pid(&bench);
    server.stop_signal();
    let frozen = Instant::now();
    wait_for_stderr(&mut run, "can't be kept");
    let took = lived_on(group, frozen);
    // The lease ran for at most 2 s from its last renewal, which was before the server froze.
    assert!(took < Duration::from_secs(2), "{took:?}");
    server.cont();
    let ended = finish(&mut run);
    assert_eq!(ended.code, 79, "{ended:?}");
}

#[test]
fn a_wrapper_that_is_killed_takes_its_command_along() {
    let bench = Bench::new();
    let mut run = start(&bench, &["--ttl", "30s"], STUBBORN);
    let group = pid(&bench);
    let killed = Instant::now();
    run.signal(Signal::KILL);
    let took = lived_on(group, killed);
    assert!(took < Duration::from_secs(5), "{took:?}");
    // Bound to processes that are gone, the lock of the embedded store is free long before its ttl.
    assert_eq!(bench.run(["run", "job", "--wait", "10s", "--", "true"]).code, 0);
}

#[test]
fn a_wrapper_that_is_frozen_does_not_save_its_command() {
    let bench = Bench::new();
    let mut run = start(&bench, &["--ttl", "1s"], STUBBORN);
    let group = pid(&bench);
    run.stop();
    let frozen = Instant::now();
    let took = lived_on(group, frozen);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(bench.run(["run", "job", "--wait", "10s", "--", "true"]).code, 0);
    cont(run.pid());
    let ended = finish(&mut run);
    assert_eq!(ended.code, 79, "{ended:?}");
}

#[test]
fn a_minder_that_is_killed_ends_the_command_with_70() {
    let bench = Bench::new();
    let mut run = start(&bench, &[], STUBBORN);
    let command = pid(&bench);
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.pid())).unwrap();
    for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
        if child != command {
            send(child, Signal::KILL);
        }
    }
    let ended = finish(&mut run);
    assert_eq!(ended.code, 70, "{ended:?}");
    assert!(ended.stderr.contains("minder"), "{ended:?}");
    assert!(!process_exists(command));
}

#[test]
fn a_server_that_comes_back_with_its_records_loses_nothing() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let bench = Bench::on(&server);
    let mut run = bench.hold(&["job", "--ttl", "20s", "-v"]);
    let mut waiter = bench.start(["run", "job", "--", "true"]);
    wait_for_stderr(&mut waiter, "waiting for lock `job`");
    server.kill();
    server.restart();
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
    bench.let_go();
    let ended = finish(&mut run);
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = finish(&mut waiter);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn a_server_that_forgets_costs_the_holder_the_lock_and_the_next_token_is_larger() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let script = format!("echo $FENCELOCK_FENCING_TOKEN > first; {POLITE}");
    let mut run = start(&bench, &["--ttl", "2s"], &script);
    server.kill();
    server.restart();
    let ended = finish(&mut run);
    assert_eq!(ended.code, 79, "{ended:?}");
    let script = "echo $FENCELOCK_FENCING_TOKEN";
    let next = bench.run(["run", "job", "--", "sh", "-c", script]);
    let first: u64 = bench.read("first").trim().parse().unwrap();
    let second: u64 = next.stdout.trim().parse().unwrap();
    assert!(second > first, "{second} {first}");
}

/// Goal: a reader of standard error that has stopped reading costs the command nothing but
/// messages. Method: the command fills the pipe; renewals, which are told with `-v`, go on for
/// several ttls. The thread that would block is the one that moves the minder's deadline on.
#[test]
fn a_standard_error_that_nobody_reads_does_not_stop_the_command() {
    let bench = Bench::new();
    let script = "head -c 1000000 /dev/zero >&2 & sleep 3; kill $!; exit 5";
    let words = ["run", "job", "-v", "--ttl", "1s", "--", "sh", "-c", script];
    let mut command = bench.command(words);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let mut run = command.spawn().unwrap();
    // Not read until it has ended.
    let status = run.wait().unwrap();
    assert_eq!(status.code(), Some(5));
}
