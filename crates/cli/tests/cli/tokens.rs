//! `acquire`, `renew` and `release` from different processes.

use std::process::{Command, Stdio};

use fencelock_testkit::Process;

use crate::support::{Bench, finish};

const WRONG: &str = "00000000000000000000000000000000";

#[test]
fn a_token_renews_and_releases_from_other_processes_in_each_way_of_giving_it() {
    let bench = Bench::new();
    let token = bench.acquire(&["k", "--ttl", "30s"]);
    assert_eq!(token.len(), 32);
    let quiet = bench.run_with(&[("FENCELOCK_TOKEN", &token)], &["renew", "k"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
    assert_eq!(bench.run(["renew", "k", "--token", &token, "--ttl", "1m"]).code, 0);
    bench.write("token", &format!("{token}\n"));
    let mut command = bench.command(["release", "k", "--token", "-"]);
    command.stdin(Stdio::from(std::fs::File::open(bench.path("token")).unwrap()));
    assert_eq!(finish(&mut Process::spawn_with_stdin(command)).code, 0);
    assert_eq!(bench.run(["show", "k"]).code, 1);
}

#[test]
fn a_wrong_token_exits_79_and_changes_nothing() {
    let bench = Bench::new();
    let token = bench.acquire(&["k"]);
    let before = bench.run(["show", "k", "--json"]).objects()[0].clone();
    for words in
        [&["renew", "k", "--ttl", "10m", "--token", WRONG][..], &["release", "k", "--token", WRONG]]
    {
        let ended = bench.run(words);
        ended.assert_refused(79, &["lock", "sqlite:"]);
        assert!(!ended.stderr.contains(&token) && !ended.stderr.contains(WRONG), "{ended:?}");
    }
    let after = bench.run(["show", "k", "--json"]).objects()[0].clone();
    assert_eq!(before["token_hash"], after["token_hash"]);
    assert!(after["ttl_ms"].as_u64() <= before["ttl_ms"].as_u64());
    assert_eq!(bench.run(["release", "k", "--token", &token]).code, 0);
}

#[test]
fn a_second_release_and_an_absent_lock_exit_79() {
    let bench = Bench::new();
    let token = bench.acquire(&["k"]);
    assert_eq!(bench.run(["release", "k", "--token", &token]).code, 0);
    bench.run(["release", "k", "--token", &token]).assert_refused(79, &["lock"]);
    bench.run(["renew", "k", "--token", &token]).assert_refused(79, &["lock"]);
    bench.run(["release", "never", "--token", WRONG]).assert_refused(79, &["never"]);
    bench.run(["renew", "never", "--token", WRONG, "--json"]).assert_refused(79, &["never"]);
}

#[test]
fn a_lease_that_ran_out_is_not_renewed() {
    let bench = Bench::new();
    let token = bench.acquire(&["k", "--ttl", "10ms"]);
    // Whoever waits for the lock gets it at its end.
    assert_eq!(bench.run(["run", "k", "--", "true"]).code, 0);
    bench.run(["renew", "k", "--token", &token]).assert_refused(79, &["lock"]);
    assert_eq!(bench.run(["show", "k"]).code, 1);
}

#[test]
fn an_acquired_lock_outlives_its_process() {
    let bench = Bench::new();
    let token = bench.acquire(&["k"]);
    assert_eq!(bench.run(["run", "k", "-n", "--", "true"]).code, 75);
    assert_eq!(bench.run(["release", "k", "--token", &token]).code, 0);
}

#[test]
fn a_token_that_can_not_be_written_is_given_back() {
    let bench = Bench::new();
    let program = env!("CARGO_BIN_EXE_fencelock");
    for output in ["> /dev/full", ">&-", "--json > /dev/full", "--json >&-"] {
        let mut command = Command::new("sh");
        bench.prepare(&mut command);
        command.args(["-c", &format!("{program} acquire k {output}")]);
        let ended = finish(&mut Process::spawn(command));
        assert_eq!(ended.code, 70, "{output}: {ended:?}");
        ended.assert_one_line(&["token", "`k`", "given back"]);
        assert_eq!(bench.run(["show", "k"]).code, 1, "{output}");
    }
    let mut command = Command::new("sh");
    bench.prepare(&mut command);
    // Thrown away on purpose is not the same as nowhere to write to.
    command.args(["-c", &format!("{program} acquire k > /dev/null")]);
    assert_eq!(finish(&mut Process::spawn(command)).code, 0);
    assert_eq!(bench.run(["show", "k"]).code, 0);
}

#[test]
fn a_reader_that_went_away_gives_the_token_back() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.command(["acquire", "k"]);
    command.stdin(Stdio::null()).stdout(Stdio::from(writer)).stderr(Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(70));
    assert_eq!(bench.run(["show", "k"]).code, 1);
}

#[test]
fn force_needs_a_yes_where_there_is_no_terminal_and_says_whom_it_removed() {
    let bench = Bench::new();
    let holder = bench.hold(&["k"]);
    // setsid: no terminal even where the tests run in one.
    let mut command = Command::new("setsid");
    bench.prepare(&mut command);
    command.args(["--wait", env!("CARGO_BIN_EXE_fencelock"), "release", "k", "--force"]);
    let refused = finish(&mut Process::spawn(command));
    refused.assert_refused(64, &["--yes"]);
    assert_eq!(bench.run(["show", "k"]).code, 0);
    let forced = bench.run(["release", "k", "--force", "--yes"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert!(forced.stdout.contains(&format!("process {}", holder.pid())), "{forced:?}");
    let again = bench.run(["release", "k", "--force", "--yes"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""), "{again:?}");
    again.assert_one_line(&["`k`", "free"]);
}

#[test]
fn forced_out_with_json_is_the_holder() {
    let bench = Bench::new();
    let token = bench.acquire(&["k"]);
    let forced = bench.run(["release", "k", "--force", "--yes", "--json"]);
    assert_eq!(forced.objects()[0]["name"], "k", "{forced:?}");
    bench.run(["release", "k", "--token", &token]).assert_refused(79, &["lock"]);
}

/// Answers the question for the name at a terminal of its own.
fn force_at_a_terminal(bench: &Bench, answer: &str) -> crate::support::Ended {
    let mut command = Command::new("script");
    bench.prepare(&mut command);
    let force = format!("{} release 'the job' --force", env!("CARGO_BIN_EXE_fencelock"));
    command.args(["--quiet", "--return", "--command", &force, "/dev/null"]);
    bench.write("answer", answer);
    command.stdin(Stdio::from(std::fs::File::open(bench.path("answer")).unwrap()));
    finish(&mut Process::spawn_with_stdin(command))
}

#[test]
fn force_at_a_terminal_wants_the_name_typed_again() {
    let bench = Bench::new();
    let _token = bench.acquire(&["the job"]);
    let wrong = force_at_a_terminal(&bench, "the jop\n");
    assert_eq!(wrong.code, 64, "{wrong:?}");
    assert!(wrong.stdout.contains("type the name again"), "{wrong:?}");
    assert_eq!(bench.run(["show", "the job"]).code, 0);
    let right = force_at_a_terminal(&bench, "the job\n");
    assert_eq!(right.code, 0, "{right:?}");
    assert!(right.stdout.contains("took lock `the job` away from process"), "{right:?}");
    assert_eq!(bench.run(["show", "the job"]).code, 1);
}
