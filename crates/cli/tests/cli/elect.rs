//! `elect`: what ends a term, and what comes after it.

use fencelock_testkit::process::{Signal, cont, group_members, send};
use fencelock_testkit::{Process, RedisServer, eventually, process_exists};

use crate::support::{Bench, LIMIT, finish, wait_for_stderr};

/// A command that says its term and goes on until it is told to end, or may go.
const LEAD: &str = "echo $$ >pid; echo $FENCELOCK_FENCING_TOKEN >>terms; \
                    while [ ! -e go ]; do sleep 0.01; done";

fn start(bench: &Bench, flags: &[&str], script: &str) -> Process {
    bench.start([&["elect", "job"], flags, &["--", "sh", "-c", script]].concat())
}

/// Waits until so many terms have begun; they grow.
#[track_caller]
fn terms(bench: &Bench, count: usize) {
    let read =
        || -> Vec<u64> { bench.read("terms").lines().map(|line| line.parse().unwrap()).collect() };
    eventually(LIMIT, &format!("{count} terms"), || {
        let text = bench.read("terms");
        text.ends_with('\n') && text.lines().count() >= count
    });
    let terms = read();
    assert_eq!(terms.len(), count, "{terms:?}");
    assert!(terms.windows(2).all(|pair| pair[0] < pair[1]), "{terms:?}");
}

/// Ends an elector that may be leading or not.
#[track_caller]
fn end(mut elector: Process) {
    elector.signal(Signal::TERM);
    let ended = finish(&mut elector);
    assert_eq!(ended.code, 143, "{ended:?}");
}

#[track_caller]
fn assert_free(bench: &Bench) {
    assert_eq!(bench.run(["show", "job"]).code, 1);
}

#[test]
fn a_command_that_ends_well_ends_the_election() {
    let bench = Bench::new();
    let script = "echo \"$FENCELOCK_NAME\"; test -n \"$FENCELOCK_FENCING_TOKEN\"";
    let ended = finish(&mut start(&bench, &[], script));
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "job\n", ""));
    assert_free(&bench);
}

#[test]
fn a_command_that_fails_is_tried_again_in_another_term() {
    let bench = Bench::new();
    let script = "echo $FENCELOCK_FENCING_TOKEN >>terms; [ $(wc -l <terms) -ge 3 ]";
    let ended = finish(&mut start(&bench, &[], script));
    assert_eq!(ended.code, 0, "{ended:?}");
    terms(&bench, 3);
    assert_eq!(ended.stderr.matches("lock `job`: campaigning again in ").count(), 2, "{ended:?}");
}

#[test]
fn restart_says_what_the_end_of_the_command_means() {
    let bench = Bench::new();
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)] {
        let ended = finish(&mut start(&bench, &["--restart", "never"], script));
        assert_eq!(ended.code, code, "{script}: {ended:?}");
    }
    let mut always = start(&bench, &["--restart", "always"], "echo x >>log; exit 0");
    eventually(LIMIT, "three starts", || bench.read("log").lines().count() >= 3);
    // Told to end, it ends: in a pause, while it campaigns, or with the command's code.
    always.signal(Signal::TERM);
    let ended = finish(&mut always);
    assert!([0, 143].contains(&ended.code), "{ended:?}");
    assert_free(&bench);
}

#[test]
fn where_the_command_fails_the_others_lead_first() {
    let bench = Bench::new();
    let first =
        start(&bench, &[], "echo first >>log; while [ ! -e fail ]; do sleep 0.01; done; exit 1");
    eventually(LIMIT, "the first leads", || bench.read("log") == "first\n");
    let mut second =
        start(&bench, &[], "echo second >>log; while [ ! -e go ]; do sleep 0.01; done");
    wait_for_stderr(&mut second, "waiting for lock `job`");
    bench.write("fail", "");
    eventually(LIMIT, "the second leads", || bench.read("log") == "first\nsecond\n");
    bench.let_go();
    assert_eq!(finish(&mut second).code, 0);
    eventually(LIMIT, "the first leads again", || bench.read("log").lines().count() >= 3);
    assert!(bench.read("log").starts_with("first\nsecond\nfirst\n"));
    let mut first = first;
    first.signal(Signal::TERM);
    let ended = finish(&mut first);
    // The command may fail in the very moment.
    assert!([1, 143].contains(&ended.code), "{ended:?}");
}

#[test]
fn a_lost_leadership_stops_the_command_and_is_campaigned_for_again() {
    let bench = Bench::new();
    let mut elector = start(&bench, &["--ttl", "1s"], LEAD);
    for round in 1..4 {
        terms(&bench, round);
        assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
    }
    terms(&bench, 4);
    wait_for_stderr(&mut elector, "lock `job` was lost");
    end(elector);
    assert_free(&bench);
}

#[test]
fn told_so_a_lost_leadership_ends_with_79() {
    let bench = Bench::new();
    let mut elector = start(&bench, &["--ttl", "1s", "--restart", "never"], LEAD);
    terms(&bench, 1);
    assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
    assert_eq!(finish(&mut elector).code, 79);
}

#[test]
fn a_revoke_moves_the_leadership_to_the_one_that_waits() {
    let bench = Bench::new();
    // Ending well when told to is no wish to end the election.
    let script = "trap 'exit 0' TERM; echo $FENCELOCK_FENCING_TOKEN >>terms; \
                  while :; do sleep 0.01; done";
    let mut one = start(&bench, &["--ttl", "2s"], script);
    terms(&bench, 1);
    let mut other = start(&bench, &["--ttl", "2s"], script);
    wait_for_stderr(&mut other, "waiting for lock `job`");
    for round in 2..5 {
        assert_eq!(bench.run(["revoke", "job", "--wait", "20s"]).code, 0);
        terms(&bench, round);
    }
    wait_for_stderr(&mut one, "is asked back by somebody else");
    wait_for_stderr(&mut other, "is asked back by somebody else");
    for mut elector in [one, other] {
        elector.signal(Signal::TERM);
        // The leader's command ends well, the candidate dies waiting.
        assert!([0, 143].contains(&finish(&mut elector).code));
    }
    assert_free(&bench);
}

#[test]
fn a_wrapper_that_was_frozen_leads_again_under_the_same_minder() {
    let bench = Bench::new();
    let elector = start(&bench, &["--ttl", "1s"], LEAD);
    for round in 1..4 {
        terms(&bench, round);
        let command = pid(&bench);
        elector.stop();
        eventually(LIMIT, "the minder kills", || !is_alive(command));
        cont(elector.pid());
    }
    terms(&bench, 4);
    end(elector);
    assert_free(&bench);
}

/// Goal: the minder, which hears on two lines that its wrapper is gone, minds whichever ends first.
/// Method: often.
#[test]
fn a_wrapper_that_is_killed_takes_all_of_its_command_along_every_time() {
    let bench = Bench::new();
    let script =
        "echo $$ >pid; echo $FENCELOCK_FENCING_TOKEN >>terms; (while :; do sleep 1; done) & wait";
    for round in 1..16 {
        let mut elector = start(&bench, &[], script);
        terms(&bench, round);
        let group = pid(&bench);
        elector.signal(Signal::KILL);
        eventually(LIMIT, "the group is dead", || group_members(group).is_empty());
    }
}

#[test]
fn a_wrapper_that_is_killed_in_a_later_term_takes_its_command_along() {
    let bench = Bench::new();
    let mut elector = start(&bench, &["--ttl", "1s"], LEAD);
    terms(&bench, 1);
    assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
    terms(&bench, 2);
    let command = pid(&bench);
    elector.signal(Signal::KILL);
    eventually(LIMIT, "the command is dead", || !process_exists(command));
}

#[test]
fn a_minder_that_is_killed_ends_it_with_70() {
    let bench = Bench::new();
    let mut elector = start(&bench, &[], LEAD);
    terms(&bench, 1);
    let command = pid(&bench);
    let children = format!("/proc/{0}/task/{0}/children", elector.pid());
    let children = std::fs::read_to_string(children).unwrap();
    for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
        if child != command {
            send(child, Signal::KILL);
        }
    }
    let ended = finish(&mut elector);
    assert_eq!(ended.code, 70, "{ended:?}");
    assert!(!process_exists(command));
}

#[test]
fn a_signal_ends_the_candidate_and_the_leader() {
    let bench = Bench::new();
    let script = format!("trap 'exit 7' TERM; {LEAD}");
    let mut leader = start(&bench, &["--restart", "always"], &script);
    terms(&bench, 1);
    let mut candidate = start(&bench, &[], &script);
    wait_for_stderr(&mut candidate, "waiting for lock `job`");
    candidate.signal(Signal::TERM);
    assert_eq!(finish(&mut candidate).code, 143);
    leader.signal(Signal::TERM);
    assert_eq!(finish(&mut leader).code, 7);
    terms(&bench, 1);
    assert_free(&bench);
}

#[test]
fn an_outage_of_the_store_is_survived() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let elector = start(&bench, &["--ttl", "1s"], LEAD);
    terms(&bench, 1);
    let command = pid(&bench);
    server.stop_signal();
    eventually(LIMIT, "the command is stopped", || !is_alive(command));
    server.cont();
    terms(&bench, 2);
    end(elector);
    // A store that was never there is another matter.
    drop(server);
    let ended = finish(&mut start(&bench, &[], LEAD));
    assert_eq!(ended.code, 69, "{ended:?}");
}

#[test]
fn what_makes_no_sense_for_an_election_is_unknown_or_does_not_count() {
    let bench = Bench::new();
    for flag in ["--wait=1s", "--no-wait", "--max-hold=1s", "--min-hold=1s", "--on-lost=ignore"] {
        let ended = bench.run(["elect", "job", flag, "--", "true"]);
        let option = flag.split('=').next().unwrap();
        ended.assert_refused(64, &[&format!("no option `{option}`"), "fencelock elect --help"]);
    }
    let wrong = bench.run(["elect", "job", "--restart", "sometimes", "--", "true"]);
    wrong.assert_refused(64, &["--restart", "on-failure", "`sometimes`"]);
    bench.run(["elect", "one", "two", "--", "true"]).assert_refused(64, &["two"]);
    assert_eq!(bench.run(["elect", "job", "--", "no-such-command"]).code, 127);
    // Set for `run`: a candidate waits, and a lost leader stops, all the same.
    let mut holder = bench.hold(&["job"]);
    let others = [
        ("FENCELOCK_NO_WAIT", "true"),
        ("FENCELOCK_ON_LOST", "ignore"),
        ("FENCELOCK_MIN_HOLD", "1h"),
        ("FENCELOCK_MAX_HOLD", "2h"),
    ];
    let mut command = bench.command(["elect", "job", "--", "sh", "-c", "echo $FENCELOCK_NAME"]);
    command.envs(others);
    let mut elector = Process::spawn(command);
    wait_for_stderr(&mut elector, "waiting for lock `job`");
    bench.let_go();
    assert_eq!(finish(&mut holder).code, 0);
    let ended = finish(&mut elector);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "job\n"), "{ended:?}");
    assert_free(&bench);
}

#[test]
fn where_there_are_no_terms_it_has_to_be_allowed() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    let words = ["elect", "job", "--dialect", "plain"];
    let script = ["--", "sh", "-c", "test -z \"$FENCELOCK_FENCING_TOKEN\""];
    let ended = bench.run([&words[..], &script].concat());
    ended.assert_refused(64, &["plain", "no fencing tokens"]);
    let ended = bench.run([&words[..], &["--allow-unfenced"], &script].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn what_a_leader_says_of_itself_is_shown() {
    let bench = Bench::new();
    let elector = start(&bench, &["--meta", "info=10.0.0.7:8080"], LEAD);
    terms(&bench, 1);
    let shown = &bench.run(["show", "job", "--json"]).objects()[0];
    assert_eq!(shown["meta"]["info"], "10.0.0.7:8080");
    assert_eq!(shown["fencing_token"].as_u64().unwrap().to_string(), bench.read("terms").trim());
    end(elector);
}

/// The command that leads, or led last.
fn pid(bench: &Bench) -> u32 {
    bench.read("pid").trim().parse().unwrap()
}

/// Whether a process runs: a frozen parent does not reap it.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
