//! The process helpers, proved on real processes.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::Duration;

use fencelock_testkit::eventually;
use fencelock_testkit::process::{
    Process, Signal, cont, group_members, kill, process_exists, send_group, stop,
};

const SOON: Duration = Duration::from_secs(20);

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn output_and_status_are_captured() {
    let finished = Process::spawn(sh("echo out; echo err >&2; exit 3")).wait_within(SOON);
    assert_eq!(finished.status.code(), Some(3));
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn output_larger_than_a_pipe_does_not_hang() {
    let finished = Process::spawn(sh("head -c 1000000 /dev/zero")).wait_within(SOON);
    assert_eq!(finished.stdout.len(), 1_000_000);
}

#[test]
fn a_grandchild_that_keeps_the_output_open_does_not_hold_up_the_wait() {
    let mut process = Process::spawn(sh("sleep 1000 & echo $!"));
    let finished = process.wait_within(SOON);
    let grandchild = finished.stdout.trim().parse().expect("a pid");
    assert!(process_exists(grandchild));
    kill(grandchild);
}

#[test]
fn a_wait_is_bounded_and_shows_the_output() {
    let mut process = Process::spawn(sh("echo before; exec sleep 1000"));
    process.wait_for_stdout(SOON, "before");
    let wait = std::panic::AssertUnwindSafe(|| process.wait_within(Duration::from_millis(20)));
    let message = *std::panic::catch_unwind(wait)
        .expect_err("it still runs")
        .downcast::<String>()
        .expect("a text");
    assert!(message.contains("still runs") && message.contains("before"), "{message}");
}

#[test]
fn a_text_that_cannot_come_any_more_is_not_waited_for() {
    let mut process = Process::spawn(sh("echo something else"));
    let wait = std::panic::AssertUnwindSafe(|| {
        process.wait_for_stdout(Duration::from_secs(1000), "never");
    });
    assert!(std::panic::catch_unwind(wait).is_err());
}

#[test]
fn a_dropped_process_is_gone() {
    let process = Process::spawn(sh("exec sleep 1000"));
    let pid = process.pid();
    assert!(process_exists(pid));
    drop(process);
    assert!(!process_exists(pid));
}

#[test]
fn a_zombie_does_not_count_as_existing() {
    let mut process = Process::spawn(sh("exec sleep 1000"));
    // Killed behind the back of the handle, and not yet reaped.
    kill(process.pid());
    assert!(!process_exists(process.pid()));
    assert_eq!(process.wait_within(SOON).status.signal(), Some(Signal::KILL.as_raw()));
}

#[test]
fn a_stopped_process_goes_on_after_cont() {
    let mut process =
        Process::spawn(sh("trap 'echo usr1; exit 0' USR1; echo up; while :; do sleep 0.01; done"));
    process.wait_for_stdout(SOON, "up");
    stop(process.pid());
    process.signal(Signal::USR1);
    assert_eq!(process.exited(), None);
    assert_eq!(process.stdout(), "up\n");
    cont(process.pid());
    assert_eq!(process.wait_within(SOON).stdout, "up\nusr1\n");
}

#[test]
fn the_members_of_a_group_are_those_that_live() {
    let mut command = sh("sleep 1000 & sleep 1000 & echo up; wait");
    command.process_group(0);
    let mut process = Process::spawn(command);
    process.wait_for_stdout(SOON, "up");
    let group = process.pid();
    assert_eq!(group_members(group).len(), 3);
    assert_eq!(group_members(group)[0], group);
    assert!(send_group(group, Signal::KILL));
    eventually(SOON, "the group is empty", || group_members(group).is_empty());
}

#[test]
fn a_condition_that_does_not_come_is_named() {
    let wait = || eventually(Duration::from_millis(5), "pigs fly", || false);
    let message =
        *std::panic::catch_unwind(wait).expect_err("no").downcast::<String>().expect("a text");
    assert_eq!(message, "did not happen within 5ms: pigs fly");
}
