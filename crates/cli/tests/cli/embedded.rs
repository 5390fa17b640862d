//! The main job on the embedded store.

use std::time::{Duration, Instant};

use fencelock_testkit::{Process, eventually};

use crate::support::{Bench, LIMIT, finish, wait_for_stderr};

#[test]
fn two_at_once_never_interleave_and_the_second_says_who_it_waits_for() {
    let bench = Bench::new();
    let script = "echo start >> log; [ -e second ] || while [ ! -e go ]; do sleep 0.01; done; echo end >> log";
    let mut first = bench.start(["run", "job", "--", "sh", "-c", script]);
    eventually(LIMIT, "the first is inside", || bench.read("log") == "start\n");
    let mut second =
        bench.start(["run", "job", "--", "sh", "-c", "echo start >> log; echo end >> log"]);
    wait_for_stderr(&mut second, "waiting for lock `job`, place 1 of 1: held by process");
    let line = second.stderr();
    assert!(line.contains(&format!("process {} on ", first.pid())), "{line}");
    assert!(line.contains(" since 20") && line.contains("sqlite:"), "{line}");
    bench.let_go();
    assert_eq!(finish(&mut first).code, 0);
    let ended = finish(&mut second);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.assert_one_line(&["waiting for lock `job`"]);
    assert_eq!(bench.read("log"), "start\nend\nstart\nend\n");
}

#[test]
fn no_wait_exits_75_at_once_and_a_wait_exits_75_after_it() {
    let bench = Bench::new();
    let _holder = bench.hold(&["job"]);
    for never in [&["-n"][..], &["--no-wait"], &["--wait", "0s"]] {
        let words = [&["run", "job"], never, &["--", "touch", "ran"]].concat();
        let ended = bench.run(words);
        ended.assert_refused(
            75,
            &["`job`", "busy", "held by process", "sqlite:", "fencelock show job"],
        );
    }
    let start = Instant::now();
    let ended = bench.run(["run", "job", "--wait", "500ms", "--", "touch", "ran"]);
    let took = start.elapsed();
    assert_eq!(ended.code, 75, "{ended:?}");
    assert!(ended.stderr.contains("after waiting 500ms"), "{ended:?}");
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(3), "{took:?}");
    assert_eq!(bench.run(["run", "job", "-n", "-E", "0", "--", "touch", "ran"]).code, 0);
    assert_eq!(bench.run(["acquire", "job", "-n", "-E", "9"]).code, 9);
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_counter_under_one_lock_is_exact() {
    let bench = Bench::new();
    bench.write("count", "0");
    let script = "n=$(cat count); echo $((n + 1)) > count.new; mv count.new count";
    let worker = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do {} run counter -- sh -c '{script}' || exit 1; done",
        env!("CARGO_BIN_EXE_fencelock")
    );
    let mut workers: Vec<Process> = (0..8)
        .map(|_| {
            let mut command = std::process::Command::new("sh");
            bench.prepare(&mut command);
            command.args(["-c", &worker]);
            Process::spawn(command)
        })
        .collect();
    for worker in &mut workers {
        let finished = worker.wait_within(Duration::from_secs(120));
        assert!(finished.status.success(), "{finished:?}");
    }
    assert_eq!(bench.read("count").trim(), "80");
}

#[test]
fn standard_input_and_output_are_the_commands() {
    let bench = Bench::new();
    let mut command = std::process::Command::new("sh");
    bench.prepare(&mut command);
    let program = env!("CARGO_BIN_EXE_fencelock");
    command.args(["-c", &format!("printf 'a\\0b' | {program} run x -v -- cat")]);
    let ended = finish(&mut Process::spawn(command));
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "a\0b"), "{ended:?}");
}

#[test]
fn several_names_are_taken_together_or_not_at_all() {
    let bench = Bench::new();
    let _holder = bench.hold(&["b"]);
    assert_eq!(bench.run(["run", "a", "b", "-n", "--", "true"]).code, 75);
    assert_eq!(bench.run(["run", "a", "c", "a", "-n", "--", "true"]).code, 0);
    let script = "printf '%s' \"$FENCELOCK_NAME\"";
    let ended = bench.run(["run", "d", "c", "--", "sh", "-c", script]);
    assert_eq!(ended.stdout, "c\nd", "{ended:?}");
}

#[test]
fn a_lock_is_free_within_its_ttl_when_everything_that_held_it_is_killed() {
    let bench = Bench::new();
    let holder = bench.hold(&["job", "--ttl", "1s"]);
    let start = Instant::now();
    drop(holder); // SIGKILL.
    let ended = bench.run(["run", "job", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn names_of_any_bytes_go_through_digits() {
    let bench = Bench::new();
    let _token = bench.acquire(&["ff000a", "--name-hex"]);
    assert_eq!(bench.run(["run", "ff000a", "--name-hex", "-n", "--", "true"]).code, 75);
    let shown = bench.run(["show", "ff000a", "--name-hex", "--json"]);
    assert_eq!(shown.objects()[0]["name_hex"], "ff000a", "{shown:?}");
    assert!(shown.objects()[0].get("name").is_none());
    let shown = bench.run(["show", "ff000a", "--name-hex"]);
    assert!(shown.stdout.is_ascii() && !shown.stdout.contains('\0'), "{shown:?}");
    let listed = bench.run(["ls", "ff", "--name-hex", "--json"]);
    assert_eq!(listed.objects().len(), 1, "{listed:?}");
    let script = "printf '%s' \"$FENCELOCK_NAME\"";
    let ended = bench.run(["run", "00", "--name-hex", "--", "sh", "-c", script]);
    assert_eq!(ended.stdout, "00", "{ended:?}");
}

#[test]
fn another_file_is_another_store() {
    let bench = Bench::new();
    let _token = bench.acquire(&["job", "--store", "sqlite:a b.db"]);
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 0);
    let there = bench.run(["run", "job", "-n", "--store", "sqlite:a b.db", "--", "true"]);
    assert_eq!(there.code, 75, "{there:?}");
    let program = env!("CARGO_BIN_EXE_fencelock");
    let nested = format!("mkdir sub && cd sub && {program} run job -n -- true");
    let ended = bench.run(["run", "other", "--store", "sqlite:a b.db", "--", "sh", "-c", &nested]);
    assert_eq!(ended.code, 75, "a nested call has the same store: {ended:?}");
}

#[test]
fn verbose_tells_the_grant_and_the_release_and_quiet_nothing() {
    let bench = Bench::new();
    let loud = bench.run(["run", "job", "-v", "--", "true"]);
    assert!(loud.stderr.contains("took lock `job` with fencing token"), "{loud:?}");
    assert!(loud.stderr.contains("gave lock `job` back ["), "{loud:?}");
    for word in ["Held", "Some(", "Ok("] {
        assert!(!loud.stderr.contains(word), "no words of a program: {loud:?}");
    }
    let holder = bench.hold(&["job"]);
    let mut quiet = bench.start(["run", "job", "-q", "--", "true"]);
    bench.let_go();
    let ended = finish(&mut quiet);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    drop(holder);
}

#[test]
fn renewals_keep_the_lock_beyond_its_ttl() {
    let bench = Bench::new();
    let mut holder = bench.start([
        "run",
        "job",
        "-v",
        "--ttl",
        "1s",
        "--",
        "sh",
        "-c",
        "echo inside; while [ ! -e go ]; do sleep 0.01; done",
    ]);
    holder.wait_for_stdout(LIMIT, "inside");
    eventually(LIMIT, "four renewals", || {
        holder.stderr().matches("renewed lock `job`").count() >= 4
    });
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
    bench.let_go();
    let ended = finish(&mut holder);
    assert_eq!(ended.code, 0, "{ended:?}");
}
