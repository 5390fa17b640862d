//! `run --min-hold` and `--max-hold`: a lock that is held at least, and at most.

use std::time::{Duration, Instant};

use fencelock_testkit::process::group_members;
use fencelock_testkit::{RedisServer, eventually};

use crate::support::{Bench, Ended, LIMIT, finish};

/// Homes with each kind of store that two processes share, and what they need to live.
fn benches() -> (RedisServer, Vec<Bench>) {
    let server = RedisServer::start();
    let plain = Bench::on(&server).set("FENCELOCK_DIALECT", "plain");
    let benches = vec![Bench::new(), Bench::on(&server), plain];
    (server, benches)
}

fn left(shown: &Ended) -> u64 {
    shown.objects()[0]["ttl_ms"].as_u64().unwrap()
}

#[test]
fn a_command_that_ends_early_leaves_its_lock_held_and_nobody_renews_it() {
    let (_server, benches) = benches();
    for bench in benches {
        for ttl in ["500ms", "60s"] {
            let started = Instant::now();
            let words = ["run", "job", "--ttl", ttl, "--min-hold", "20s", "-v", "--", "sh", "-c"];
            let ended = bench.run([&words[..], &["exit 3"]].concat());
            assert_eq!(ended.code, 3, "{ended:?}");
            assert!(started.elapsed() < Duration::from_secs(15), "it does not wait");
            assert!(ended.stderr.contains("held for") && ended.stderr.contains("--min-hold"));
            // As long as on a machine whose clock is behind: the next start finds it busy.
            assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
            let shown = bench.run(["show", "job", "--json"]);
            assert!(left(&shown) <= 20_000 && left(&shown) > 1_000, "{ttl}: {shown:?}");
            assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
        }
    }
}

#[test]
fn show_says_of_a_lock_that_was_left_that_it_is_not_renewed() {
    let server = RedisServer::start();
    for bench in [Bench::new(), Bench::on(&server)] {
        assert_eq!(bench.run(["run", "job", "--min-hold", "20s", "--", "true"]).code, 0);
        assert_eq!(bench.run(["show", "job", "--json"]).objects()[0]["unattended"], true);
        let text = bench.run(["show", "job"]).stdout;
        assert!(text.contains(", not renewed\n"), "{text}");
        let list = bench.run(["ls"]).stdout;
        assert!(list.contains("[not renewed]"), "{list}");
        let mut holder = bench.hold(&["other"]);
        assert_eq!(bench.run(["show", "other", "--json"]).objects()[0]["unattended"], false);
        bench.let_go();
        finish(&mut holder);
    }
}

#[test]
fn a_lock_that_was_left_is_free_when_its_time_is_over() {
    let (_server, benches) = benches();
    for bench in benches {
        let words = ["run", "job", "--ttl", "60s", "--min-hold", "700ms", "--", "true"];
        let started = Instant::now();
        assert_eq!(bench.run(words).code, 0);
        let next = bench.run(["run", "job", "--wait", "20s", "--", "true"]);
        assert_eq!(next.code, 0, "{next:?}");
        assert!(started.elapsed() >= Duration::from_millis(690), "{:?}", started.elapsed());
    }
}

#[test]
fn a_command_that_outlives_the_least_time_gives_its_lock_back_at_once() {
    let bench = Bench::new();
    let words = ["run", "job", "--min-hold", "50ms", "--", "sh", "-c", "sleep 0.2"];
    assert_eq!(bench.run(words).code, 0);
    assert_eq!(bench.run(["show", "job"]).code, 1);
}

#[test]
fn a_command_that_can_not_be_started_keeps_nobody_out() {
    let bench = Bench::new();
    bench.write("broken", "#!/no/such/interpreter\n");
    let path = bench.path("broken");
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    let ended = bench.run(["run", "job", "--min-hold", "60s", "--", "./broken"]);
    assert!(ended.code == 126 || ended.code == 127, "{ended:?}");
    assert_eq!(bench.run(["show", "job"]).code, 1);
}

#[test]
fn a_wrapper_that_is_killed_keeps_others_out_for_its_ttl_only() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut run = bench.hold(&["job", "--ttl", "1s", "--min-hold", "1h"]);
        run.signal(fencelock_testkit::process::Signal::KILL);
        let next = bench.run(["run", "job", "--wait", "20s", "--", "true"]);
        assert_eq!(next.code, 0, "{next:?}");
    }
}

#[test]
fn at_the_hold_limit_the_command_gets_term_and_the_code_is_79_whatever_it_says() {
    let (_server, benches) = benches();
    for bench in benches {
        let script =
            "trap 'echo term >> log; exit 0' TERM; echo inside; while :; do sleep 0.01; done";
        let started = Instant::now();
        let words = ["run", "job", "--ttl", "30s", "--max-hold", "2s", "--", "sh", "-c", script];
        let ended = bench.run(words);
        assert_eq!(ended.code, 79, "{ended:?}");
        assert_eq!(bench.read("log"), "term\n");
        ended.assert_one_own_line(&["lock `job`", "2s", "--max-hold", "stopping the command"]);
        assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
        assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 0, "it was given back");
    }
}

#[test]
fn at_the_hold_limit_what_does_not_listen_is_killed_before_the_end() {
    let bench = Bench::new();
    let script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & \
                  echo $$ > pid; echo inside; while :; do sleep 1; done";
    // A loss could be ignored; a limit is what was asked for.
    for ignore in [&[][..], &["--on-lost", "ignore"]] {
        let words = [
            &["run", "job", "--max-hold", "2s", "--grace", "100ms"],
            ignore,
            &["--", "sh", "-c", script],
        ];
        let started = Instant::now();
        let mut run = bench.start(words.concat());
        run.wait_for_stdout(LIMIT, "inside");
        let group = bench.read("pid").trim().parse().unwrap();
        let mut seen = Duration::ZERO;
        eventually(LIMIT, "the group is dead", || {
            let now = started.elapsed();
            let dead = group_members(group).is_empty();
            if !dead {
                seen = now;
            }
            dead
        });
        // Seen alive only before the limit, which counts from the grant: later than our start.
        assert!(seen < Duration::from_millis(2_000) + started_late(&bench), "{seen:?}");
        let ended = finish(&mut run);
        assert_eq!(ended.code, 79, "{ended:?}");
    }
}

/// How long a start takes here: the grant comes as much after the start of the process.
fn started_late(bench: &Bench) -> Duration {
    let started = Instant::now();
    assert_eq!(bench.run(["run", "other", "--", "true"]).code, 0);
    started.elapsed()
}

#[test]
fn a_command_that_ends_before_the_limit_knows_nothing_of_it() {
    let bench = Bench::new();
    let ended = bench.run(["run", "job", "--max-hold", "1h", "--", "sh", "-c", "exit 4"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (4, ""), "{ended:?}");
}

#[test]
fn a_frozen_wrapper_does_not_stretch_the_hold_limit() {
    let bench = Bench::new();
    let script = "echo $$ > pid; echo inside; while :; do sleep 0.01; done";
    let words = ["run", "job", "--ttl", "60s", "--max-hold", "1s", "--", "sh", "-c", script];
    let mut run = bench.start(words);
    run.wait_for_stdout(LIMIT, "inside");
    let group = bench.read("pid").trim().parse().unwrap();
    run.stop();
    eventually(LIMIT, "the minder has killed the group", || group_members(group).is_empty());
    fencelock_testkit::process::cont(run.pid());
    let ended = finish(&mut run);
    assert_eq!(ended.code, 79, "{ended:?}");
}

#[test]
fn holds_that_can_not_be_kept_are_refused_with_both_settings() {
    let bench = Bench::new();
    for (flags, parts) in [
        (&["--min-hold", "25h"][..], &["--min-hold", "24h"][..]),
        (&["--min-hold", "5"], &["--min-hold", "5s"]),
        (&["--max-hold", "99ms"], &["--max-hold", "100ms"]),
        (&["--max-hold", "1s", "--min-hold", "2s"], &["--max-hold", "1s", "--min-hold", "2s"]),
        (&["--max-hold", "2s", "--grace", "2s"], &["--grace", "--max-hold"]),
    ] {
        let words = [&["run", "job"], flags, &["--", "touch", "ran"]].concat();
        bench.run(words).assert_refused(64, parts);
    }
    let from = [("FENCELOCK_MAX_HOLD", "soon")];
    bench
        .run_with(&from, &["run", "job", "--", "true"])
        .assert_refused(78, &["FENCELOCK_MAX_HOLD"]);
    bench.write("fencelock.toml", "min-hold = \"3d\"\n");
    bench.run(["run", "job", "--", "true"]).assert_refused(78, &["fencelock.toml:1", "min-hold"]);
    assert!(!bench.path("ran").exists());
}

#[test]
fn holds_come_from_the_environment_and_from_files_too() {
    let bench = Bench::new();
    bench.write("fencelock.toml", "min-hold = \"20s\"\nkill = true\n");
    assert_eq!(bench.run(["run", "job", "--", "true"]).code, 0);
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
    let from = [("FENCELOCK_MAX_HOLD", "1s"), ("FENCELOCK_MIN_HOLD", "0s")];
    let words = ["run", "other", "--", "sh", "-c", "while :; do sleep 0.01; done"];
    let ended = bench.run_with(&from, &words);
    assert_eq!(ended.code, 79, "{ended:?}");
}
