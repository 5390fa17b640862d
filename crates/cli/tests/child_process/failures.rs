//! Wrapper or minder killed or frozen: the group dies in time.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Driver, is_alive, is_stopped, members_of, until};

/// A command with a grandchild; neither heeds TERM.
const STUBBORN: &str = r#"
    trap '' TERM HUP INT
    (while :; do sleep 0.05; done) & echo $! > "$DIR/grandchild"
    echo $$ > "$DIR/pid"; while :; do sleep 0.05; done"#;

fn stubborn(options: &[&str]) -> (Driver, Pid, Pid) {
    let driver = Driver::shell(options, STUBBORN);
    let (grandchild, command) = (driver.pid_from("grandchild"), driver.pid_from("pid"));
    assert!(is_alive(grandchild) && is_alive(command));
    (driver, command, grandchild)
}

#[test]
fn a_killed_wrapper_takes_the_whole_group_with_it_at_once() {
    let (mut driver, command, grandchild) = stubborn(&["--kill-at", "3600000"]);
    let minder = driver.minder();
    let start = Instant::now();
    driver.signal(Signal::KILL);
    until("the group is empty", || members_of(command).is_empty());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(!is_alive(command) && !is_alive(grandchild));
    until("the minder has ended", || !is_alive(minder));
    driver.process.wait().unwrap();
}

#[test]
fn a_frozen_wrapper_can_not_keep_the_group_alive_beyond_the_deadline() {
    let lease = Duration::from_millis(800);
    let (driver, command, _) = stubborn(&["--kill-at", "800", "--renew-every", "100"]);
    let minder = driver.minder();
    let start = Instant::now();
    // Renewals carry it beyond its first deadline.
    until("renewed", || start.elapsed() > 2 * lease);
    assert!(is_alive(command));
    let frozen = Instant::now();
    driver.signal(Signal::STOP);
    until("the group is empty", || members_of(command).is_empty());
    let died_after = frozen.elapsed();
    assert!(is_stopped(driver.pid()));
    assert!(died_after > lease / 2, "not before its time: {died_after:?}");
    assert!(died_after < lease + Duration::from_millis(500), "too late: {died_after:?}");
    until("the minder has ended", || !is_alive(minder));
    driver.signal(Signal::CONT);
    let ended = driver.ended();
    assert_eq!(ended.code, Some(79));
    ended.assert_outcome("stopped_by_us: Some(Deadline)");
}

#[test]
fn a_wrapper_that_wakes_up_with_a_lost_lease_kills_instead_of_continuing() {
    // The minder's deadline is far away: this is the wrapper's own check.
    let (driver, command, _) = stubborn(&["--invalid-at", "300"]);
    let start = Instant::now();
    driver.signal(Signal::STOP);
    until("the lease has ended", || start.elapsed() > Duration::from_millis(350));
    assert!(is_alive(command));
    driver.signal(Signal::CONT);
    let ended = driver.ended();
    assert_eq!(ended.code, Some(79));
    ended.assert_outcome("stopped_by_us: Some(ResumedTooLate)");
    assert!(members_of(command).is_empty());
}

#[test]
fn a_wrapper_that_wakes_up_with_a_valid_lease_goes_on() {
    let (driver, command, _) = stubborn(&["--kill-at", "3600000"]);
    driver.signal(Signal::STOP);
    until("frozen", || is_stopped(driver.pid()));
    driver.signal(Signal::CONT);
    until("running", || !is_stopped(driver.pid()));
    kill_process(command, Signal::KILL).unwrap();
    driver.ended().assert_outcome("Signal(9), stopped_by_us: None");
}

#[test]
fn a_killed_minder_is_noticed_and_the_group_killed_at_once() {
    let (driver, command, _) = stubborn(&["--kill-at", "3600000"]);
    let start = Instant::now();
    kill_process(driver.minder(), Signal::KILL).unwrap();
    let ended = driver.ended();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(ended.code, Some(79));
    ended.assert_outcome("Signal(9), stopped_by_us: Some(MinderDied)");
    assert!(members_of(command).is_empty());
}

#[test]
fn a_minder_that_died_before_the_start_means_that_nothing_starts() {
    // The command line waits for a lock here; the driver waits for this signal instead.
    let driver = Driver::shell(&["--hold-before-start", "1"], r#"echo ran > "$DIR/ran""#);
    until("it waits", || driver.stderr().contains("holding"));
    kill_process(driver.minder(), Signal::KILL).unwrap();
    driver.signal(Signal::USR1);
    let ended = driver.ended();
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    assert_eq!(ended.text("ran"), "");
}

#[test]
fn the_minder_shrugs_off_every_signal_that_it_can() {
    let (driver, command, _) = stubborn(&[]);
    let minder = driver.minder();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::PIPE, Signal::USR1]
    {
        kill_process(minder, signal).unwrap();
    }
    driver.signal(Signal::KILL);
    until("the group is empty", || members_of(command).is_empty());
    until("the minder has ended", || !is_alive(minder));
}

#[test]
fn a_wrapper_that_dies_while_it_waits_leaves_no_minder() {
    let driver = Driver::shell(&["--wait-first", "1"], "true");
    until("it waits", || driver.stderr().contains("waiting"));
    let minder = driver.minder();
    driver.signal(Signal::KILL);
    until("the minder has ended", || !is_alive(minder));
}
