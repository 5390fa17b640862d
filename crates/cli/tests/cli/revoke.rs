//! `revoke`: asking the holder of a lock to give it back.

use std::time::{Duration, Instant};

use fencelock_testkit::{Process, RedisServer};

use crate::support::{Bench, LIMIT, finish, wait_for_stderr};

/// A command that notes each TERM and ends by itself some time after the first.
const POLITE: &str = "trap 'echo term >> log; sleep 0.3; exit 7' TERM; echo inside; \
                      while :; do sleep 0.01; done";
/// A command that notes each TERM and goes on until the file `go` appears.
const STUBBORN: &str = "trap 'echo term >> log' TERM; echo inside; \
                        while [ ! -e go ]; do sleep 0.01; done; exit 5";

/// Homes with each store that can do it and that two processes share.
fn benches() -> (RedisServer, Vec<Bench>) {
    let server = RedisServer::start();
    let benches = vec![Bench::new(), Bench::on(&server)];
    (server, benches)
}

fn start(bench: &Bench, flags: &[&str], script: &str) -> Process {
    let words = [&["run", "job", "--ttl", "2s"], flags, &["--", "sh", "-c", script]].concat();
    let mut run = bench.start(words);
    run.wait_for_stdout(LIMIT, "inside");
    run
}

#[test]
fn a_revoked_command_gets_one_term_and_its_own_code_counts() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut run = start(&bench, &[], POLITE);
        let revoked = bench.run(["revoke", "job"]);
        assert_eq!((revoked.code, revoked.stderr.as_str()), (0, ""), "{revoked:?}");
        assert!(revoked.stdout.starts_with("asked process "), "{revoked:?}");
        let ended = finish(&mut run);
        assert_eq!(ended.code, 7, "{ended:?}");
        ended.assert_one_own_line(&["lock `job`", "asked back", "TERM"]);
        assert_eq!(bench.read("log"), "term\n");
        assert_eq!(bench.run(["show", "job"]).code, 1, "it was given back");
    }
}

#[test]
fn a_command_that_term_ends_gives_143() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut run = start(&bench, &[], "echo inside; exec sleep 60");
        let revoked = bench.run(["revoke", "job", "--wait", "20s"]);
        assert_eq!(revoked.code, 0, "{revoked:?}");
        assert!(revoked.stdout.contains("lock `job` was given back"), "{revoked:?}");
        assert_eq!(finish(&mut run).code, 143);
    }
}

#[test]
fn without_kill_a_command_may_take_its_time_and_is_told_once() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut run = start(&bench, &["--grace", "50ms"], STUBBORN);
        let started = Instant::now();
        let revoked = bench.run(["revoke", "job", "--wait", "3s"]);
        assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
        revoked.assert_refused(75, &["lock `job`", "still held by process", "3s"]);
        // Told by a message and by several renewals, and asked for once more: still one TERM.
        assert_eq!(bench.run(["revoke", "job"]).code, 0);
        let shown = bench.run(["show", "job", "--json"]);
        assert_eq!(shown.objects()[0]["revoked"], true);
        assert!(bench.run(["show", "job"]).stdout.contains("revoked "));
        assert!(bench.run(["ls"]).stdout.contains("[revoked]"));
        assert_eq!(bench.read("log"), "term\n");
        bench.let_go();
        assert_eq!(finish(&mut run).code, 5);
        let mut next = bench.hold(&["job"]);
        let shown = bench.run(["show", "job", "--json"]);
        assert_eq!(shown.objects()[0]["revoked"], false, "the next holder was not asked");
        assert_eq!(finish(&mut next).code, 0);
    }
}

#[test]
fn with_kill_a_command_that_goes_on_is_killed_after_the_grace() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut run = start(&bench, &["--grace", "200ms", "--kill"], STUBBORN);
        let revoked = bench.run(["revoke", "job", "--wait", "20s"]);
        assert_eq!(revoked.code, 0, "{revoked:?}");
        let ended = finish(&mut run);
        assert_eq!(ended.code, 137, "{ended:?}");
        assert_eq!(bench.read("log"), "term\n");
        ended.assert_one_own_line(&["lock `job`", "asked back", "within 200ms"]);
    }
}

#[test]
fn a_loss_after_a_revoke_is_still_a_loss() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut run = start(&bench, &["--grace", "100ms"], STUBBORN);
        assert_eq!(bench.run(["revoke", "job"]).code, 0);
        wait_for_stderr(&mut run, "asked back");
        assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
        let ended = finish(&mut run);
        assert_eq!(ended.code, 79, "{ended:?}");
    }
}

#[test]
fn a_free_lock_needs_no_asking() {
    let (_server, benches) = benches();
    for bench in benches {
        for flags in [&[][..], &["--wait", "10s"]] {
            let ended = bench.run([&["revoke", "job"], flags].concat());
            assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
            assert!(ended.stdout.contains("lock `job` is free"), "{ended:?}");
        }
        let ended = bench.run(["revoke", "job", "--json"]);
        assert_eq!(ended.objects()[0]["holder"], serde_json::Value::Null);
    }
}

#[test]
fn a_lock_that_nobody_renews_can_not_be_asked_back() {
    let (_server, benches) = benches();
    for bench in benches {
        let token = bench.acquire(&["job", "--ttl", "60s"]);
        assert_eq!(bench.run(["show", "job", "--json"]).objects()[0]["unattended"], true);
        let parts = ["lock `job`", "can't be asked back", "nobody renews it", "release"];
        bench.run(["revoke", "job"]).assert_refused(64, &parts);
        bench.run(["revoke", "job", "--wait", "1s"]).assert_refused(64, &parts);
        // A renewal by hand does not make it a lease that hears.
        assert_eq!(bench.run(["renew", "job", "--token", &token]).code, 0);
        bench.run(["revoke", "job"]).assert_refused(64, &parts);
        assert_eq!(bench.run(["run", "left", "--min-hold", "60s", "--", "true"]).code, 0);
        bench.run(["revoke", "left"]).assert_refused(64, &["lock `left`", "nobody renews it"]);
        assert_eq!(bench.run(["show", "left", "--json"]).objects()[0]["revoked"], false);
    }
}

#[test]
fn foreign_values_and_other_dialects_can_not_be_asked() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    server.cli(&["RPUSH", "fencelock:odd", "x"]);
    bench.run(["revoke", "odd"]).assert_refused(75, &["lock `odd`", "list"]);
    server.cli(&["SET", "job", "of another library", "PX", "60000"]);
    bench.run(["revoke", "job"]).assert_refused(64, &["lock `job`", "plain"]);
    bench.run(["revoke", "job", "--dialect", "plain"]).assert_refused(64, &["plain"]);
    bench
        .run(["revoke", "job", "--dialect", "plain", "--wait", "1s"])
        .assert_refused(64, &["plain"]);
    assert_eq!(bench.run(["show", "job", "--dialect", "plain"]).code, 0, "it was left alone");
}

#[test]
fn the_waiting_are_counted() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut run = start(&bench, &[], POLITE);
        assert_eq!(bench.run(["show", "job", "--json"]).objects()[0]["queue"], 0);
        let mut waiter = bench.start(["run", "job", "--", "true"]);
        wait_for_stderr(&mut waiter, "waiting for lock `job`");
        fencelock_testkit::eventually(LIMIT, "one waits", || {
            bench.run(["show", "job", "--json"]).objects()[0]["queue"] == 1
        });
        assert!(bench.run(["show", "job"]).stdout.contains("waiting        1\n"));
        assert!(bench.run(["ls"]).stdout.contains("[1 waiting]"));
        let revoked = bench.run(["revoke", "job", "--json"]);
        let object = &revoked.objects()[0];
        assert_eq!((&object["queue"], &object["revoked"]), (&1.into(), &true.into()), "{object}");
        assert_eq!(finish(&mut run).code, 7);
        assert_eq!(finish(&mut waiter).code, 0);
    }
}

#[test]
fn what_is_asked_is_checked_before_anybody_is() {
    let bench = Bench::new();
    bench.run(["revoke"]).assert_refused(64, &["NAME"]);
    bench.run(["revoke", "a", "b"]).assert_refused(64, &["b"]);
    bench.run(["revoke", "a", "--wait", "5"]).assert_refused(64, &["--wait", "5s"]);
    bench.run(["revoke", "a", "--kil"]).assert_refused(64, &["--kil"]);
    let from = [("FENCELOCK_NO_WAIT", "true")];
    assert_eq!(bench.run_with(&from, &["revoke", "a"]).code, 0);
}
