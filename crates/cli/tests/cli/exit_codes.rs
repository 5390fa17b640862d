//! The table of exit codes, line by line, against what is observed.

use std::os::unix::fs::PermissionsExt;

use fencelock_testkit::process::Signal;
use fencelock_testkit::{RedisServer, eventually};

use crate::support::{Bench, LIMIT, finish, wait_for_stderr};

#[test]
fn a_commands_own_code_comes_back() {
    let bench = Bench::new();
    for code in [0, 1, 2, 7, 42, 64, 75, 79, 125, 126, 127, 255] {
        let ended = bench.run(["run", "x", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((ended.code, ended.stderr.as_str()), (code, ""));
    }
}

#[test]
fn a_command_killed_by_a_signal_gives_128_and_the_signal() {
    let bench = Bench::new();
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("HUP", 129)] {
        let ended = bench.run(["run", "x", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(ended.code, code, "{ended:?}");
    }
}

#[test]
fn a_signal_while_waiting_gives_128_and_the_signal_and_leaves_nothing() {
    let bench = Bench::new();
    let holder = bench.hold(&["job"]);
    let signals = [
        (Signal::HUP, 129),
        (Signal::INT, 130),
        (Signal::QUIT, 131),
        (Signal::USR1, 138),
        (Signal::USR2, 140),
        (Signal::ALARM, 142),
        (Signal::TERM, 143),
    ];
    for (signal, code) in signals {
        for words in [&["run", "job", "--", "touch", "ran"][..], &["acquire", "job"]] {
            let mut waiter = bench.start(words);
            wait_for_stderr(&mut waiter, "waiting for lock");
            waiter.signal(signal);
            let ended = finish(&mut waiter);
            assert_eq!(ended.code, code, "{words:?} {ended:?}");
            assert_eq!(ended.stdout, "");
        }
    }
    bench.let_go();
    drop(holder);
    assert!(!bench.path("ran").exists());
    assert_eq!(bench.run(["run", "job", "--wait", "5s", "--", "true"]).code, 0);
}

#[test]
fn signals_reach_the_command() {
    let bench = Bench::new();
    for signal in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM"] {
        let script = format!(
            "trap 'echo got > {signal}; exit 5' {signal}; echo inside; while :; do sleep 0.01; done"
        );
        let mut run = bench.start(["run", "x", "--", "sh", "-c", &script]);
        run.wait_for_stdout(LIMIT, "inside");
        let number = match signal {
            "HUP" => Signal::HUP,
            "INT" => Signal::INT,
            "QUIT" => Signal::QUIT,
            "TERM" => Signal::TERM,
            "USR1" => Signal::USR1,
            "USR2" => Signal::USR2,
            _ => Signal::ALARM,
        };
        run.signal(number);
        let ended = finish(&mut run);
        assert_eq!(ended.code, 5, "{signal}: {ended:?}");
        assert_eq!(bench.read(signal), "got\n");
    }
    assert_eq!(bench.run(["show", "x"]).code, 1);
}

#[test]
fn a_command_that_is_not_there_is_found_out_before_the_wait() {
    let bench = Bench::new();
    let _token = bench.acquire(&["job"]);
    bench.run(["run", "job", "--", "no-such-command-here"]).assert_refused(127, &["not found"]);
    bench.run(["run", "job", "--", "./nothing"]).assert_refused(127, &["not found"]);
    let script = bench.write("script", "#!/bin/sh\n");
    bench.run(["run", "job", "--", "./script"]).assert_refused(126, &["can't be executed"]);
    bench.run(["run", "job", "--", "/"]).assert_refused(126, &["can't be executed"]);
    let mut mode = std::fs::metadata(&script).unwrap().permissions();
    mode.set_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    assert_eq!(bench.run(["run", "free", "--", "./script"]).code, 0);
}

#[test]
fn an_interpreter_that_is_not_there_gives_127_and_the_lock_back() {
    let bench = Bench::new();
    let script = bench.write("script", "#!/no/such/interpreter\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.run(["run", "job", "--", "./script"]).assert_refused(127, &["interpreter"]);
    assert_eq!(bench.run(["show", "job"]).code, 1);
}

#[test]
fn a_free_lock_shows_1_and_a_held_one_0() {
    let bench = Bench::new();
    let free = bench.run(["show", "job"]);
    assert_eq!(
        (free.code, free.stdout.as_str(), free.stderr.as_str()),
        (1, "lock `job` is free\n", "")
    );
    let _token = bench.acquire(&["job"]);
    assert_eq!(bench.run(["show", "job"]).code, 0);
    assert_eq!(bench.run(["show", "job", "other"]).code, 1);
}

#[test]
fn an_output_that_can_not_be_written_gives_70() {
    let bench = Bench::new();
    for command in ["acquire job", "show job", "ls", "--help", "completions bash", "man"] {
        let mut shell = std::process::Command::new("sh");
        bench.prepare(&mut shell);
        let program = env!("CARGO_BIN_EXE_fencelock");
        shell.args(["-c", &format!("{program} {command} > /dev/full")]);
        let ended = finish(&mut fencelock_testkit::Process::spawn(shell));
        if command == "ls" {
            assert_eq!(ended.code, 0, "nothing to print: {ended:?}");
        } else {
            assert_eq!(ended.code, 70, "{command}: {ended:?}");
            ended.assert_one_line(&["written"]);
        }
    }
}

#[test]
fn a_store_that_is_not_there_gives_69_within_3_seconds() {
    let port = fencelock_testkit::port::ReservedPort::draw();
    let url = format!("redis://:s3cret@127.0.0.1:{}/0", port.port());
    let bench = Bench::new().set("FENCELOCK_STORE", &url);
    let mut late = 0;
    for words in [
        &["run", "job", "--", "touch", "ran"][..],
        &["run", "job", "-n", "--", "touch", "ran"],
        &["acquire", "job"],
        &["show", "job"],
        &["ls"],
        &["renew", "job", "--token", "00000000000000000000000000000000"],
        &["release", "job", "--force", "--yes"],
    ] {
        let start = std::time::Instant::now();
        let ended = bench.run(words);
        late += usize::from(start.elapsed() > std::time::Duration::from_secs(3));
        ended.assert_refused(69, &[&format!("127.0.0.1:{}", port.port())]);
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    }
    assert!(!bench.path("ran").exists());
    // One that was kept waiting by a busy machine proves nothing.
    assert!(late <= 1, "{late} calls took more than 3 seconds");
}

/// The stand-in answers as a web server does, which no redis can be made to do.
#[test]
fn an_address_where_something_else_listens_gives_69() {
    let other = fencelock_testkit::FakeServer::start_unassisted(|_| {
        fencelock_testkit::Reply::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())
    });
    let bench = Bench::new().set("FENCELOCK_STORE", &other.url());
    bench.run(["run", "job", "-n", "--", "true"]).assert_refused(69, &[&other.addr()]);
}

#[test]
fn a_store_that_denies_gives_77() {
    let server = RedisServer::builder().password("right").start();
    let bench = Bench::new().set("FENCELOCK_STORE", &server.url_as("default", "wr0ng"));
    for words in [&["run", "job", "--", "touch", "ran"][..], &["acquire", "job"], &["show", "job"]]
    {
        let ended = bench.run(words);
        assert_eq!(ended.code, 77, "{ended:?}");
        ended.assert_one_line(&[&server.addr()]);
        assert!(!ended.stderr.contains("wr0ng"), "{ended:?}");
    }
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_folder_that_can_not_be_made_gives_69() {
    let bench = Bench::new();
    std::fs::write(bench.state().join("fencelock"), "a file").unwrap();
    let ended = bench.run(["run", "job", "--", "true"]);
    assert_eq!(ended.code, 69, "{ended:?}");
    ended.assert_one_line(&["fencelock"]);
}

#[test]
fn background_work_ends_with_its_command() {
    let bench = Bench::new();
    let script = "sleep 1000 & echo $! > pid; exit 0";
    let ended = bench.run(["run", "job", "--grace", "50ms", "--", "sh", "-c", script]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let pid: u32 = bench.read("pid").trim().parse().unwrap();
    eventually(LIMIT, "the background work is gone", || !fencelock_testkit::process_exists(pid));
}

/// The first words of the table in the help.
fn table(bench: &Bench) -> Vec<String> {
    let help = bench.run(["--help"]).stdout;
    let lines = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    // What goes on from the line before stands further in.
    let codes = lines.filter(|line| !line.starts_with("   "));
    codes.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_table_of_the_help_is_what_is_observed() {
    let server = RedisServer::builder().password("right").start();
    let bench = Bench::new();
    bench.write("script", "#!/bin/sh\n");
    let _token = bench.acquire(&["busy"]);
    let denied = format!("redis://{}", server.addr());
    let port = fencelock_testkit::port::ReservedPort::draw();
    let absent = format!("redis://127.0.0.1:{}", port.port());
    let wrong = "00000000000000000000000000000000";
    let calls: &[(&str, i32, &[&str])] = &[
        ("0..255", 33, &["run", "x", "--", "sh", "-c", "exit 33"]),
        ("128+n", 137, &["run", "x", "--", "sh", "-c", "kill -KILL $$"]),
        ("1", 1, &["show", "free"]),
        ("64", 64, &["run", "x", "--ttl", "0s", "--", "true"]),
        ("69", 69, &["run", "x", "--store", &absent, "--", "true"]),
        ("70", 70, &["man", "--dir", "/dev/null/x"]),
        ("75", 75, &["run", "busy", "-n", "--", "true"]),
        ("77", 77, &["run", "x", "--store", &denied, "--", "true"]),
        (
            "78",
            78,
            &["run", "x", "--store-password-file", "none", "--store", &denied, "--", "true"],
        ),
        ("79", 79, &["release", "busy", "--token", wrong]),
        ("126", 126, &["run", "x", "--", "./script"]),
        ("127", 127, &["run", "x", "--", "./nothing"]),
    ];
    let listed: Vec<&str> = calls.iter().map(|(line, ..)| *line).collect();
    assert_eq!(table(&bench), listed);
    for (_, code, words) in calls {
        let ended = bench.run(*words);
        assert_eq!(ended.code, *code, "{words:?} {ended:?}");
    }
}

#[test]
fn an_advice_can_be_typed_as_it_stands_there() {
    let bench = Bench::new();
    for (name, words) in [("my job", "'my job'"), ("it's", "'it'\\''s'"), ("日本", "日本")] {
        bench.acquire(&[name, "--ttl", "1h"]);
        let ended = bench.run(["run", name, "-n", "--", "true"]);
        ended.assert_refused(75, &[&format!("`fencelock show {words}`")]);
    }
    bench.acquire(&["00ff", "--name-hex", "--ttl", "1h"]);
    let ended = bench.run(["run", "00ff", "--name-hex", "-n", "--", "true"]);
    ended.assert_refused(75, &["`fencelock show --name-hex 00ff`"]);
    bench.acquire(&["job", "--ttl", "1h", "--store", "sqlite:its own.db"]);
    let ended = bench.run(["run", "job", "-n", "--store", "sqlite:its own.db", "--", "true"]);
    let path = bench.path("its own.db");
    let there = format!("`fencelock show --store 'sqlite:{}' job`", path.display());
    ended.assert_refused(75, &[&there]);
    let asked = bench.run(["revoke", "my job"]);
    asked.assert_refused(64, &["ends by itself in", "`fencelock release 'my job'`"]);
}

#[test]
fn a_file_that_is_no_lock_file_is_said_once() {
    let bench = Bench::new();
    bench.write("junk.db", "something of somebody else's, longer than the header of a database");
    let ended = bench.run(["run", "x", "--store", "sqlite:junk.db", "--", "true"]);
    ended.assert_refused(64, &["not a lock file"]);
    assert_eq!(ended.stderr.matches("file is not a database").count(), 1, "{ended:?}");
}

/// The advice was to look at the first name, which was free.
#[test]
fn a_busy_one_of_several_names_is_not_said_to_be_the_first() {
    let bench = Bench::new();
    bench.acquire(&["b"]);
    let ended = bench.run(["run", "a", "b", "-n", "--", "true"]);
    ended.assert_refused(75, &["one of locks `a`, `b` is busy", "`fencelock show a b`"]);
}
