//! On a Redis server: dialects, foreign values, and the counter again.

use std::time::Duration;

use fencelock_testkit::{Process, RedisServer};

use crate::support::{Bench, finish};

#[test]
fn a_name_in_two_dialects_is_two_locks_and_show_lists_both() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let _native = bench.acquire(&["job"]);
    let _plain = bench.acquire(&["job", "--dialect", "plain"]);
    let shown = bench.run(["show", "job", "--json"]).objects();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert_eq!((&shown[0]["dialect"], &shown[1]["dialect"]), (&"native".into(), &"plain".into()));
    assert!(shown[0]["fencing_token"].is_u64() && shown[1]["fencing_token"].is_null());
    assert!(shown[1]["token_hash"].is_string());
    let one = bench.run(["show", "job", "--dialect", "plain", "--json"]).objects();
    assert_eq!((one.len(), &one[0]["dialect"]), (1, &"plain".into()));
    let listed = bench.run(["ls", "--json"]).objects();
    assert_eq!((listed.len(), &listed[0]["dialect"]), (1, &"native".into()));
}

#[test]
fn a_key_prefix_makes_other_locks_in_each_dialect() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    bench.acquire(&["job"]);
    bench.acquire(&["job", "--key-prefix", "app:"]);
    server.cli(&["DEL", "fencelock:job"]);
    let listed = bench.run(["ls", "--key-prefix", "app:", "--json"]).objects();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"job".into()), "{listed:?}");
    let long = "x".repeat(129);
    let refused = bench.run(["acquire", "other", "--key-prefix", &long]);
    refused.assert_refused(64, &["--key-prefix", "128 bytes"]);
    let plain = ["--dialect", "plain", "--key-prefix", "mutex:"];
    server.cli(&["SET", "mutex:job", "theirs", "NX", "PX", "60000"]);
    assert_eq!(
        bench.run(["run", "job", "-n", plain[0], plain[1], plain[2], plain[3], "--", "true"]).code,
        75
    );
    let listed = bench.run(["ls", "--json", plain[0], plain[1], plain[2], plain[3]]).objects();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"job".into()), "{listed:?}");
    server.cli(&["DEL", "mutex:job"]);
    bench.acquire(&["job", plain[0], plain[1], plain[2], plain[3]]);
    assert!(
        bench.run(["release", "mutex:job", "--force", "--yes", "--dialect", "plain"]).code == 0
    );
    let variable = Bench::on(&server).set("FENCELOCK_KEY_PREFIX", "app:");
    assert_eq!(variable.run(["run", "job", "-n", "--", "true"]).code, 75);
}

#[test]
fn the_keys_of_the_native_dialect_are_no_locks_of_the_plain_one() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    assert_eq!(bench.run(["init"]).code, 0);
    bench.acquire(&["native"]);
    bench.acquire(&["plain", "--dialect", "plain"]);
    let listed = bench.run(["ls", "--dialect", "plain", "--json"]).objects();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"plain".into()), "{listed:?}");
    let listed = bench.run(["ls", "fencelock:n", "--dialect", "plain", "--json"]).objects();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"fencelock:native".into()), "{listed:?}");
}

#[test]
fn the_plain_dialect_has_no_fencing_token_and_no_metadata() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let ended = bench.run(["run", "job", "--dialect", "plain", "--", "env"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!ended.stdout.contains("FENCELOCK_FENCING_TOKEN"), "{ended:?}");
    let ended = bench.run(["acquire", "job", "--dialect", "plain", "--meta", "a=b"]);
    ended.assert_refused(64, &["metadata", "plain"]);
}

#[test]
fn a_holder_of_another_library_is_waited_for_and_left_alone() {
    let server = RedisServer::start();
    let bench = Bench::on(&server).set("FENCELOCK_DIALECT", "plain");
    server.cli(&["SET", "job", "theirs", "NX", "PX", "60000"]);
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
    assert_eq!(bench.run(["show", "job"]).code, 0);
    server.cli(&["DEL", "job"]);
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 0);
}

#[test]
fn a_foreign_value_is_reported_and_never_changed() {
    for make in [
        &["HSET", "KEY", "a", "b"][..],
        &["RPUSH", "KEY", "a"],
        &["SADD", "KEY", "a"],
        &["SET", "KEY", "no record of ours"],
    ] {
        let server = RedisServer::start();
        let bench = Bench::on(&server);
        let words: Vec<&str> =
            make.iter().map(|word| if *word == "KEY" { "fencelock:job" } else { word }).collect();
        server.cli(&words);
        let before = format!("{:?}", server.cli(&["DUMP", "fencelock:job"]));
        for arguments in [
            &["run", "job", "--", "true"][..],
            &["acquire", "job"],
            &["release", "job", "--force", "--yes"],
        ] {
            let ended = bench.run(arguments);
            ended.assert_refused(75, &["job", &server.addr()]);
        }
        let shown = bench.run(["show", "job"]);
        assert_eq!((shown.code, shown.stdout.as_str()), (75, ""), "{shown:?}");
        shown.assert_one_line(&["`job`", "left alone"]);
        assert_eq!(bench.run(["run", "job", "-E", "3", "--", "true"]).code, 3);
        assert_eq!(format!("{:?}", server.cli(&["DUMP", "fencelock:job"])), before);
    }
}

/// What other libraries leave at a key of their own, seen from the native dialect and the plain one.
#[test]
fn what_is_said_of_the_locks_of_other_libraries_is_true() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    // A Redisson lock is a hash, one of ShedLock a string.
    server.cli(&["HSET", "reports", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"]);
    server.cli(&["SET", "shed", "ADDED:2026-12-01T00:00:00.000Z@host", "PX", "600000"]);
    let shown = bench.run(["show", "shed"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stdout.contains("unknown holder") && shown.stdout.contains("plain"), "{shown:?}");
    // That it is free in the one dialect must not be taken for free in the other.
    let forced = ["release", "shed", "--force", "--yes"];
    bench.run(forced).assert_refused(64, &["held in the plain dialect", "--dialect plain"]);
    bench.run(["revoke", "shed"]).assert_refused(64, &["plain dialect"]);
    let ended = bench.run([&forced[..], &["--dialect", "plain"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert!(ended.stdout.contains("away from an unknown holder"), "{ended:?}");
    let ended = bench.run(forced);
    assert_eq!(ended.code, 0, "now it is free in both: {ended:?}");
    ended.assert_one_line(&["free already"]);

    let says = "a lock of Redisson, held by 8743c9c0-0795-4907-87fd-6c719a6b4586:1";
    let before = format!("{:?}", server.cli(&["DUMP", "reports"]));
    for words in [&["show", "reports"][..], &["release", "reports", "--force", "--yes"]] {
        let ended = bench.run([words, &["--dialect", "plain"]].concat());
        ended.assert_refused(75, &["`reports`", says]);
    }
    server.cli(&["HSET", "fencelock:taken", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"]);
    bench.run(["revoke", "taken"]).assert_refused(75, &["`taken`", says]);
    assert_eq!(format!("{:?}", server.cli(&["DUMP", "reports"])), before);
}

#[test]
fn a_string_without_an_end_is_a_holder_for_ever_in_the_plain_dialect() {
    let server = RedisServer::start();
    let bench = Bench::on(&server).set("FENCELOCK_DIALECT", "plain");
    server.cli(&["SET", "job", "for ever"]);
    let ended = bench.run(["run", "job", "-n", "--", "true"]);
    assert_eq!(ended.code, 75, "{ended:?}");
    let shown = bench.run(["show", "job"]);
    assert!(shown.stdout.contains("never ends"), "{shown:?}");
    assert_eq!(
        bench.run(["show", "job", "--json"]).objects()[0]["ttl_ms"],
        serde_json::Value::Null
    );
}

#[test]
fn a_counter_under_one_lock_is_exact() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    bench.write("count", "0");
    let script = "n=$(cat count); echo $((n + 1)) > count.new; mv count.new count";
    let worker = format!(
        "for i in 1 2 3 4 5 6 7 8; do {} run counter -- sh -c '{script}' || exit 1; done",
        env!("CARGO_BIN_EXE_fencelock")
    );
    let mut workers: Vec<Process> = (0..6)
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
    assert_eq!(bench.read("count").trim(), "48");
}

#[test]
fn a_socket_and_a_database_of_the_url_are_used() {
    let server = RedisServer::start();
    let bench = Bench::new();
    let _token = bench.acquire(&["job", "--store", &server.unix_url()]);
    assert_eq!(bench.run(["run", "job", "-n", "--store", &server.url(), "--", "true"]).code, 75);
    let other = server.url_with_db(3);
    assert_eq!(bench.run(["run", "job", "-n", "--store", &other, "--", "true"]).code, 0);
}

#[test]
fn distributed_is_content_with_a_server() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    assert_eq!(bench.run(["run", "job", "--distributed", "--", "true"]).code, 0);
}

#[test]
fn the_command_inherits_no_connection() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let ended = bench.run(["run", "job", "--", "sh", "-c", "ls -l /proc/$$/fd"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!ended.stdout.contains("socket:"), "{ended:?}");
}

#[test]
fn a_lock_is_waited_for_across_a_restart_of_the_server() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let _token = bench.acquire(&["job", "--ttl", "1m"]);
    let mut waiter = bench.start(["run", "job", "--", "true"]);
    crate::support::wait_for_stderr(&mut waiter, "waiting for lock");
    server.kill();
    server.restart();
    // Without persistence the lock is forgotten: the waiter gets it.
    assert_eq!(finish(&mut waiter).code, 0);
}

/// Goal: after the command nobody waits longer than a release is tried, two seconds. Method: the
/// server is frozen by the command itself, which writes down when it ended.
#[test]
fn a_server_that_falls_silent_delays_the_end_by_no_more_than_one_release() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let script = format!("kill -STOP {}; date +%s%3N > ended; exit 3", server.pid());
    let ended = bench.run(["run", "job", "--ttl", "1m", "--", "sh", "-c", &script]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    server.cont();
    assert_eq!(ended.code, 3, "{ended:?}");
    ended.assert_one_line(&["`job`", "unknown", &server.addr()]);
    let since: u64 = bench.read("ended").trim().parse().unwrap();
    let took = now.saturating_sub(Duration::from_millis(since));
    // Twice two seconds it was when closing waited for the same server once more.
    assert!(took < Duration::from_millis(3_500), "{took:?}");
}
