//! Wrong input on the command line: a sentence, exit 64, and nothing is sent.

use std::os::unix::ffi::OsStrExt;

use fencelock_testkit::RedisServer;

use crate::support::{Bench, files};

/// Runs a call that must be refused, and looks that the default store was not touched.
#[track_caller]
fn refuse(arguments: &[&str], code: i32, parts: &[&str]) {
    let bench = Bench::new();
    bench.run(arguments).assert_refused(code, parts);
    assert_eq!(files(&bench.state()), Vec::<std::path::PathBuf>::new(), "{arguments:?}");
}

#[test]
fn spans_are_refused_wherever_they_are_read() {
    for span in [
        "0s",
        "0",
        "-1s",
        "-5",
        "1ns",
        "5",
        "1790000000",
        " 5 s ",
        "5S",
        "1.5",
        "1.5s",
        "",
        "٥s",
        "25h",
        "soon",
    ] {
        let ttl = format!("--ttl={span}");
        refuse(&["run", "x", &ttl, "--", "true"], 64, &["--ttl"]);
        refuse(&["acquire", "x", &ttl], 64, &["--ttl"]);
        refuse(&["renew", "x", &ttl, "--token", "0"], 64, &["--ttl"]);
    }
    for span in ["-1s", "1ns", "5", " 5 s ", "5S", "1.5", "", "٥s", "soon"] {
        refuse(&["run", "x", &format!("--wait={span}"), "--", "true"], 64, &["--wait"]);
        refuse(&["acquire", "x", &format!("--wait={span}")], 64, &["--wait"]);
        refuse(&["run", "x", &format!("--grace={span}"), "--", "true"], 64, &["--grace"]);
    }
    refuse(&["run", "x", "--ttl", "5", "--", "true"], 64, &["no unit", "`5s`", "`5ms`"]);
}

#[test]
fn limits_of_the_ttl_are_refused_just_outside() {
    refuse(&["acquire", "x", "--ttl", "9ms"], 64, &["--ttl", "10ms", "24h"]);
    refuse(&["acquire", "x", "--ttl", "24h1ms"], 64, &["--ttl", "24h"]);
    refuse(&["run", "x", "--ttl", "99ms", "--", "true"], 64, &["--ttl", "100ms"]);
}

#[test]
fn a_grace_without_room_is_refused_at_the_start() {
    let parts = ["--grace", "at most 4.8s", "--ttl"];
    refuse(&["run", "x", "--ttl", "10s", "--grace", "4801ms", "--", "true"], 64, &parts);
    refuse(
        &["run", "x", "--ttl", "100ms", "--grace", "31ms", "--", "true"],
        64,
        &["--grace", "30ms"],
    );
}

#[test]
fn names_are_refused_with_the_way_out() {
    refuse(&["run", "", "--", "true"], 64, &["must not be empty"]);
    refuse(&["run", &"x".repeat(513), "--", "true"], 64, &["512", "513"]);
    refuse(&["run", "a\nb", "--", "true"], 64, &["control character", "--name-hex"]);
    refuse(&["acquire", "a\u{9b}b"], 64, &["control character", "--name-hex"]);
    refuse(&["show", "a\tb"], 64, &["control character"]);
    refuse(&["ls", "a\nb"], 64, &["control character"]);
    refuse(&["run", "6", "--name-hex", "--", "true"], 64, &["hexadecimal", "--name-hex"]);
    refuse(&["run", "xy", "--name-hex", "--", "true"], 64, &["hexadecimal"]);
    refuse(&["run", "", "--name-hex", "--", "true"], 64, &["must not be empty"]);
    refuse(&["run", &"61".repeat(513), "--name-hex", "--", "true"], 64, &["512"]);
    let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    let mut words = vec!["acquire"];
    words.extend(many.iter().map(String::as_str));
    refuse(&words, 64, &["64 names"]);
}

#[test]
fn a_name_that_is_not_text_is_refused() {
    let bench = Bench::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff");
    bench.run([std::ffi::OsStr::new("acquire"), name]).assert_refused(64, &["--name-hex"]);
}

#[test]
fn stores_are_refused_with_the_way_out() {
    for (store, part) in [
        ("etcd://h", "etcd"),
        ("localhost", "redis://"),
        ("", "empty"),
        ("/tmp/x.db", "sqlite:"),
        ("redis://a redis://a", "twice"),
        ("redis://h/no-number", "database"),
        ("rediss://h?ca=ca.pem", "absolute path"),
        ("sqlite:", "file"),
    ] {
        refuse(&["acquire", "x", "--store", store], 64, &["--store", part]);
    }
    refuse(&["ls", "--store", "redis://a", "--store", "redis://a"], 64, &["--store", "twice"]);
}

#[test]
fn combinations_that_can_not_work_are_refused() {
    refuse(&["run", "x", "-n", "--wait", "1s", "--", "true"], 64, &["--no-wait", "--wait"]);
    refuse(&["run", "x", "-q", "-v", "--", "true"], 64, &["--quiet", "--verbose"]);
    refuse(&["acquire", "x", "--dialect", "plain"], 64, &["--dialect", "Redis"]);
    refuse(&["acquire", "x", "--distributed"], 64, &["--distributed", "--store"]);
    refuse(&["acquire", "x", "--distributed", "--store", "memory:"], 64, &["--distributed"]);
    refuse(&["acquire", "x", "--distributed", "--store", "sqlite:x.db"], 64, &["--distributed"]);
    refuse(&["acquire", "x", "--dialect", "plane"], 64, &["--dialect", "`plain`"]);
    refuse(&["acquire", "x", "--key-prefix", "app:"], 64, &["--key-prefix", "Redis"]);
    refuse(
        &["run", "x", "--on-lost", "kill", "--", "true"],
        64,
        &["--on-lost", "`term`", "`ignore`"],
    );
    refuse(&["run", "x", "-E", "256", "--", "true"], 64, &["--conflict-exit-code", "255"]);
    refuse(&["run", "x", "-E", "-1", "--", "true"], 64, &["--conflict-exit-code"]);
    refuse(&["release", "x", "--force", "--token", "0"], 64, &["--force", "--token"]);
    refuse(&["release", "x", "--yes"], 64, &["--force"]);
}

#[test]
fn metadata_is_refused_when_it_is_none_or_too_large() {
    refuse(&["acquire", "x", "--meta", "novalue"], 64, &["--meta", "KEY=VALUE"]);
    refuse(&["acquire", "x", "--meta", "=v"], 64, &["--meta"]);
    refuse(&["acquire", "x", "--meta", "!pid=1"], 64, &["--meta", "!"]);
    refuse(&["acquire", "x", "--meta", "a=1", "--meta", "a=2"], 64, &["--meta", "twice"]);
    let large = format!("k={}", "v".repeat(1024));
    Bench::new().run(["acquire", "x", "--meta", &large]).assert_refused(64, &["1024", "metadata"]);
}

#[test]
fn tokens_are_refused_without_being_repeated() {
    for token in ["", "secret", "0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef"] {
        let ended = Bench::new().run(["release", "x", "--token", token]);
        ended.assert_refused(64, &["--token", "32"]);
        assert!(token.is_empty() || !ended.stderr.contains(token), "{ended:?}");
    }
    refuse(&["renew", "x"], 64, &["no token", "FENCELOCK_TOKEN"]);
    let ended = Bench::new().run_with(&[("FENCELOCK_TOKEN", "zzz")], &["release", "x"]);
    ended.assert_refused(78, &["FENCELOCK_TOKEN", "32"]);
}

#[test]
fn options_of_other_commands_are_unknown_and_the_nearest_is_named() {
    for (command, option) in [("show", "--shared"), ("renew", "--permits"), ("elect", "--limit")] {
        let end: &[&str] = if command == "elect" { &["--", "true"] } else { &[] };
        refuse(&[&[command, "x", option], end].concat(), 64, &[option]);
    }
    for (slip, meant) in [("--tll", "--ttl"), ("--stroe", "--store"), ("--no-wiat", "--no-wait")] {
        refuse(&["run", "x", slip, "--", "true"], 64, &[slip, meant]);
        refuse(&["run", "x", &format!("{slip}=1"), "--", "true"], 64, &[slip, meant]);
    }
    for command in ["doctor", "top", "watch", "bench", "ui"] {
        refuse(&[command], 64, &[command, "there is no command"]);
    }
    for (slip, meant) in [("runn", "run"), ("aquire", "acquire"), ("relaese", "release")] {
        refuse(&[slip, "x"], 64, &[&format!("the nearest is `{meant}`")]);
    }
    let guessed = Bench::new().run(["frobnicate"]);
    assert!(!guessed.stderr.contains("nearest"), "a guess in the dark: {guessed:?}");
    refuse(&["run", "x", "-e", "--", "true"], 64, &["`-e`", "the nearest is `-E`"]);
    for words in
        [&["-q", "run", "x", "--", "true"][..], &["--store", "x", "run", "x", "--", "true"]]
    {
        refuse(words, 64, &[words[0], "options stand behind"]);
    }
    refuse(&["rnu", "x", "--", "true"], 64, &["`run`"]);
}

#[test]
fn what_is_missing_or_too_much_is_said() {
    refuse(&["run", "x"], 64, &["COMMAND", "after `--`"]);
    refuse(&["run", "x", "true"], 64, &["COMMAND", "after `--`"]);
    for command in ["run", "acquire"] {
        let words = [command, "x", "--ttl", "1ms", "--", "true"];
        refuse(
            &words[..if command == "run" { 6 } else { 4 }],
            64,
            &["10ms (run: 100ms)", "not 1ms"],
        );
    }
    refuse(&["run", "--", "true"], 64, &["NAME"]);
    refuse(&["run", "x", "--"], 64, &["COMMAND"]);
    refuse(&["acquire"], 64, &["NAME"]);
    refuse(&["acquire", "x", "--ttl"], 64, &["--ttl"]);
    refuse(&["ls", "a", "b"], 64, &["`b`"]);
    refuse(&[], 64, &["run"]);
}

#[test]
fn nothing_wrong_ever_reaches_a_server() {
    let server = RedisServer::start();
    let monitor = server.monitor();
    let bench = Bench::on(&server);
    for arguments in [
        &["acquire", "x", "--ttl", "0s"][..],
        &["acquire", "a\nb"],
        &["acquire", "x", "--meta", "novalue"],
        &["run", "x", "--ttl", "10s", "--grace", "9s", "--", "true"],
        &["run", "x", "--shared", "--limit", "2", "--", "true"],
        &["run", "x", "--permits", "2", "--", "true"],
        &["run", "x", "y", "--shared", "--", "true"],
        &["run", "x", "--", "no-such-command-here"],
        &["release", "x", "--token", "1"],
        &["release", "x", "--force"],
    ] {
        assert_ne!(bench.run(arguments).code, 0, "{arguments:?}");
    }
    let large = format!("k={}", "v".repeat(1024));
    assert_eq!(bench.run(["acquire", "x", "--meta", &large]).code, 64);
    assert_eq!(
        monitor.take().iter().map(|seen| seen.text()).collect::<Vec<_>>(),
        Vec::<Vec<String>>::new()
    );
}
