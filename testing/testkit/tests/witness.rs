//! The witness, proved with threads and with processes that die.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencelock_testkit::process::{Process, Signal};
use fencelock_testkit::witness::{OVERLAP_EXIT, check};
use fencelock_testkit::{Witness, eventually};

const SOON: Duration = Duration::from_secs(20);

fn witness() -> (tempfile::TempDir, Witness) {
    let directory = tempfile::tempdir().expect("a directory");
    let witness = Witness::in_directory(directory.path());
    (directory, witness)
}

fn inside(witness: &Witness, id: &str, body: &str) -> Process {
    let argv = witness.argv(id);
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).args(["sh", "-c", body]);
    Process::spawn(command)
}

#[test]
fn one_after_the_other_is_fine() {
    let (_directory, witness) = witness();
    for _ in 0..3 {
        assert!(!witness.is_occupied());
        let entered = witness.enter("a").expect("alone");
        assert!(witness.is_occupied());
        drop(entered);
    }
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!((verdict.entries, verdict.unfinished.len()), (3, 0));
}

#[test]
fn a_second_one_inside_is_refused_and_reported() {
    let (directory, witness) = witness();
    let first = witness.enter("a").expect("alone");
    let overlap = witness.enter("b").expect_err("a is inside");
    assert!(overlap.id.starts_with("b."));
    drop(first);
    let verdict = check(directory.path());
    assert_eq!(verdict.overlaps.len(), 1);
    assert!(verdict.overlaps[0].contains(&overlap.id), "{verdict:?}");
    assert!(std::panic::catch_unwind(|| verdict.assert_exclusive()).is_err());
}

#[test]
fn a_run_in_which_nobody_got_inside_proves_nothing() {
    let (_directory, witness) = witness();
    assert!(std::panic::catch_unwind(|| witness.check().assert_exclusive()).is_err());
}

#[test]
fn every_overlap_of_a_crowd_is_counted() {
    let (_directory, witness) = witness();
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (witness, refused) = (&witness, &refused);
            scope.spawn(move || {
                for _ in 0..50 {
                    if witness.enter(&n.to_string()).is_err() {
                        refused.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let (verdict, refused) = (witness.check(), refused.into_inner());
    assert_eq!((verdict.overlaps.len(), verdict.entries), (refused, 400 - refused));
    assert_eq!(verdict.unfinished, Vec::<String>::new());
}

#[test]
fn a_command_inside_passes_its_output_and_exit_status_on() {
    let (_directory, witness) = witness();
    let finished = inside(&witness, "a", "echo out; exit 7").wait_within(SOON);
    assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(7), "out\n"));
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!((verdict.entries, verdict.unfinished.len()), (1, 0));
}

#[test]
fn a_command_is_not_run_while_another_one_is_inside() {
    let (_directory, witness) = witness();
    let entered = witness.enter("a").expect("alone");
    let finished = inside(&witness, "b", "echo out").wait_within(SOON);
    assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(OVERLAP_EXIT), ""));
    drop(entered);
    assert_eq!(witness.check().overlaps.len(), 1);
    assert_eq!(inside(&witness, "b", "true").wait_within(SOON).status.code(), Some(0));
}

#[test]
fn a_killed_command_is_unfinished_but_no_overlap() {
    let (_directory, witness) = witness();
    let mut killed = inside(&witness, "a", "echo ready; exec sleep 1000");
    killed.wait_for_stdout(SOON, "ready");
    // The wrapper and its body are two processes.
    let body = child_of(killed.pid());
    killed.signal(Signal::KILL);
    killed.wait_within(SOON);
    fencelock_testkit::process::kill(body);
    eventually(SOON, "the flock is free", || !witness.is_occupied());
    drop(witness.enter("b").expect("alone"));
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!((verdict.entries, verdict.unfinished.len()), (2, 1));
}

#[test]
fn a_body_that_outlives_its_killed_parent_is_still_inside() {
    let (_directory, witness) = witness();
    let mut killed = inside(&witness, "a", "echo ready; exec sleep 1000");
    killed.wait_for_stdout(SOON, "ready");
    let body = child_of(killed.pid());
    killed.signal(Signal::KILL);
    killed.wait_within(SOON);
    assert!(witness.is_occupied());
    assert!(witness.enter("b").is_err());
    fencelock_testkit::process::kill(body);
    assert_eq!(witness.check().overlaps.len(), 1);
}

#[test]
fn a_log_that_shows_an_overlap_the_flock_missed_is_believed() {
    let (directory, witness) = witness();
    let log = "begin a 1\nbegin b 2\nend a 3\nend b 4\nbegin c 5\nbegin d 6\nend d 7\n";
    std::fs::write(directory.path().join("log"), log).expect("written");
    let verdict = witness.check();
    assert_eq!(verdict.overlaps, ["b began while a was inside"]);
    assert_eq!((verdict.entries, verdict.unfinished), (4, vec!["c".to_owned()]));
}

fn child_of(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).expect("the kernel lists children");
    text.split_whitespace().next().expect("a child").parse().expect("a pid")
}
