//! `--shared`, `--permits` and `--limit` of `run` and `acquire`: who holds beside whom, what the
//! command is told, how such a hold ends, and what is refused.

use fencelock_testkit::process::Signal;
use fencelock_testkit::{Process, RedisServer, eventually};

use crate::support::{Bench, LIMIT, finish, wait_for_stderr};

/// Prints whether there is a fencing token.
const TELL: &str = "echo ${FENCELOCK_FENCING_TOKEN-unset}";
/// Ends by TERM, which it notes.
const POLITE: &str =
    "trap 'echo term >> log; exit 7' TERM; echo inside; while :; do sleep 0.01; done";

/// Homes with each store in which several may hold a name, and what they need to live.
fn benches() -> (RedisServer, Vec<Bench>) {
    let server = RedisServer::start();
    let benches = vec![Bench::new(), Bench::on(&server)];
    (server, benches)
}

fn start(bench: &Bench, flags: &[&str], script: &str) -> Process {
    let mut run = bench.start([&["run", "job"], flags, &["--", "sh", "-c", script]].concat());
    run.wait_for_stdout(LIMIT, "inside");
    run
}

/// Lets those who hold with `Bench::hold` end, and the next ones hold again.
fn let_go(bench: &Bench, holders: Vec<Process>) {
    bench.let_go();
    for mut holder in holders {
        let ended = finish(&mut holder);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    }
    std::fs::remove_file(bench.path("go")).unwrap();
}

#[test]
fn readers_hold_beside_each_other_and_a_writer_alone() {
    let (_server, benches) = benches();
    for bench in benches {
        let readers = vec![bench.hold(&["job", "--shared"]), bench.hold(&["job", "--shared"])];
        let busy = bench.run(["run", "job", "-n", "--", "true"]);
        busy.assert_refused(75, &["`job` is busy", "held by 2 holders, the last of them process"]);
        assert_eq!(bench.run(["run", "job", "-n", "-E", "3", "--", "true"]).code, 3);
        let_go(&bench, readers);

        let writer = bench.hold(&["job"]);
        let busy = bench.run(["run", "job", "--shared", "-n", "--", "true"]);
        busy.assert_refused(75, &["`job` is busy", "held by process"]);
        let_go(&bench, vec![writer]);
        assert_eq!(bench.run(["show", "job"]).code, 1);
    }
}

#[test]
fn a_reader_that_comes_while_a_writer_waits_is_behind_it() {
    let (_server, benches) = benches();
    for bench in benches {
        let reader = bench.hold(&["job", "--shared"]);
        let mut writer = bench.start(["run", "job", "--", "sh", "-c", "echo written >> log"]);
        wait_for_stderr(&mut writer, "waiting for lock `job`, place 1 of 1: held by process");
        let late = bench.run(["run", "job", "--shared", "-n", "--", "true"]);
        assert_eq!(late.code, 75, "{late:?}");
        let mut next = bench.start(["run", "job", "--shared", "--", "cat", "log"]);
        wait_for_stderr(&mut next, "waiting for lock `job`");
        let_go(&bench, vec![reader]);
        assert_eq!(finish(&mut writer).code, 0);
        let next = finish(&mut next);
        assert_eq!((next.code, next.stdout.as_str()), (0, "written\n"), "{next:?}");
    }
}

#[test]
fn who_wants_many_permits_is_not_passed_by_those_who_want_few() {
    let (_server, benches) = benches();
    for bench in benches {
        let small = bench.hold(&["job", "--limit", "4"]);
        let mut large =
            bench.start(["run", "job", "--limit", "4", "--permits", "4", "--", "echo", "all"]);
        wait_for_stderr(&mut large, "waiting for lock `job`, place 1 of 1: held by process");
        // Three permits are free, and wait with it.
        let late = bench.run(["run", "job", "--limit", "4", "-n", "--", "true"]);
        late.assert_refused(75, &["`job` is busy", "(1 of 4 permits)"]);
        let_go(&bench, vec![small]);
        let large = finish(&mut large);
        assert_eq!((large.code, large.stdout.as_str()), (0, "all\n"), "{large:?}");
    }
}

#[test]
fn permits_are_counted() {
    let (_server, benches) = benches();
    for bench in benches {
        let three = bench.hold(&["job", "--permits", "3", "--limit", "4"]);
        let busy = bench.run(["run", "job", "--permits", "2", "--limit", "4", "-n", "--", "true"]);
        busy.assert_refused(75, &["`job` is busy", "(3 of 4 permits)"]);
        assert_eq!(bench.run(["run", "job", "--limit", "4", "-n", "--", "true"]).code, 0);
        // One name is one lock: a semaphore is not held alone at the same time.
        for flags in [&[][..], &["--shared"]] {
            let ended = bench.run([&["run", "job"], flags, &["--", "true"]].concat());
            ended.assert_refused(75, &["`job` is a semaphore at the moment"]);
        }
        let_go(&bench, vec![three]);
        assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 0);
    }
}

#[test]
fn another_limit_is_refused_with_both_until_the_lock_was_held_alone() {
    let (_server, benches) = benches();
    for bench in benches {
        assert_eq!(bench.run(["run", "job", "--limit", "4", "--", "true"]).code, 0);
        let parts =
            ["`job`", "has 4 permits", "--limit says 3", "use --limit 4", "run job -- true"];
        for verb in ["run", "acquire"] {
            let tail: &[&str] = if verb == "run" { &["--", "true"] } else { &[] };
            let ended = bench.run([&[verb, "job", "--limit", "3"], tail].concat());
            ended.assert_refused(64, &parts);
        }
        let elsewhere = bench.run_with(&[("FENCELOCK_LIMIT", "3")], &["acquire", "job"]);
        elsewhere.assert_refused(78, &parts);
        assert_eq!(bench.run(["run", "job", "--", "true"]).code, 0);
        assert_eq!(bench.run(["run", "job", "--limit", "3", "--", "true"]).code, 0);
    }
}

#[test]
fn only_who_is_alone_has_a_fencing_token() {
    let (_server, benches) = benches();
    for bench in benches {
        let alone = bench.run(["run", "job", "--", "sh", "-c", TELL]);
        assert!(alone.stdout.trim_end().parse::<u64>().is_ok(), "{alone:?}");
        for (flags, said) in [
            (&["--shared"][..], "took lock `job` to share it with others"),
            (&["--limit", "2"], "with 1 of 2 permits"),
        ] {
            // Nor does that of an outer run shine through.
            let words = [&["run", "job", "-v"], flags, &["--", "sh", "-c", TELL]].concat();
            let ended = bench.run_with(&[("FENCELOCK_FENCING_TOKEN", "17")], &words);
            assert_eq!((ended.code, ended.stdout.as_str()), (0, "unset\n"), "{ended:?}");
            assert!(ended.stderr.contains(said), "{ended:?}");
            let told = bench.run([&["run", "job", "--json"], flags, &["--", "true"]].concat());
            let told = &crate::support::objects(&told.stderr)[0];
            assert_eq!(told["fencing_token"], serde_json::Value::Null, "{told}");
            assert_eq!(told["shared"], true);
            // Alone once, so that the name is no lock of the other kind.
            assert_eq!(bench.run(["run", "job", "--", "true"]).code, 0);
        }
    }
}

#[test]
fn all_readers_are_asked_back_and_each_command_is_told() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut readers: Vec<Process> =
            (0..3).map(|_| start(&bench, &["--shared"], POLITE)).collect();
        let revoked = bench.run(["revoke", "job", "--wait", "30s"]);
        assert_eq!((revoked.code, revoked.stderr.as_str()), (0, ""), "{revoked:?}");
        assert!(revoked.stdout.contains("lock `job` was given back"), "{revoked:?}");
        for reader in &mut readers {
            let ended = finish(reader);
            assert_eq!(ended.code, 7, "{ended:?}");
            ended.assert_one_own_line(&["lock `job`", "asked back", "TERM"]);
        }
        assert_eq!(bench.read("log"), "term\n".repeat(3));
        assert_eq!(bench.run(["show", "job"]).code, 1);
    }
}

#[test]
fn a_revoke_says_who_could_not_be_asked() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut reader = start(&bench, &["--shared"], POLITE);
        let token = bench.acquire(&["job", "--shared", "--ttl", "10m"]);
        let revoked = bench.run(["revoke", "job", "--wait", "30s"]);
        revoked
            .assert_refused(75, &["`job`", "by all who could be asked", "still held by process"]);
        assert_eq!(finish(&mut reader).code, 7);
        assert_eq!(bench.run(["release", "job", "--token", &token]).code, 0);
        assert_eq!(bench.run(["show", "job"]).code, 1);
    }
}

#[test]
fn who_is_freed_by_force_of_a_share_is_stopped_with_79() {
    let (_server, benches) = benches();
    for bench in benches {
        let script = "trap '' TERM; echo inside; while :; do sleep 0.01; done";
        for flags in [["--limit", "5", "--ttl", "3s"], ["--shared", "--kill", "--ttl", "3s"]] {
            let mut holders: Vec<Process> = (0..2).map(|_| start(&bench, &flags, script)).collect();
            let forced = bench.run(["release", "job", "--force", "--yes"]);
            assert_eq!(forced.code, 0, "{forced:?}");
            assert!(forced.stdout.contains("away from 2 holders"), "{forced:?}");
            for holder in &mut holders {
                let ended = finish(holder);
                assert_eq!(ended.code, 79, "{ended:?}");
                assert!(ended.stderr.contains("lock `job` was lost"), "{ended:?}");
            }
            assert_eq!(bench.run(["run", "job", "--", "true"]).code, 0);
        }
    }
}

#[test]
fn a_share_is_held_at_least_and_at_most_as_a_lock_is() {
    let (_server, benches) = benches();
    for bench in benches {
        let words = ["run", "job", "--shared", "--min-hold", "60s", "--", "true"];
        assert_eq!(bench.run(words).code, 0);
        let shown = bench.run(["show", "job"]);
        assert!(shown.stdout.contains("held as        shared\n"), "{shown:?}");
        assert!(shown.stdout.contains(", not renewed\n"), "{shown:?}");
        assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
        assert_eq!(bench.run(["run", "job", "--shared", "-n", "--", "true"]).code, 0);

        let words = ["run", "gpu", "--limit", "1", "--max-hold", "500ms", "--", "sleep", "60"];
        let ended = bench.run(words);
        ended.assert_refused(79, &["`gpu` is held for at most", "--max-hold"]);
        assert_eq!(bench.run(["run", "gpu", "--limit", "1", "-n", "--", "true"]).code, 0);
    }
}

#[test]
fn a_wrapper_that_is_killed_gives_its_permit_back() {
    let (_server, benches) = benches();
    for bench in benches {
        let flags = ["job", "--limit", "2", "--ttl", "5s"];
        let mut killed = bench.hold(&flags);
        let stays = bench.hold(&flags);
        let mut waits = bench.start(["run", "job", "--limit", "2", "--", "true"]);
        wait_for_stderr(&mut waits, "held by 2 holders (2 of 2 permits)");
        killed.signal(Signal::KILL);
        let ended = finish(&mut waits);
        assert_eq!(ended.code, 0, "{ended:?}");
        eventually(LIMIT, "one holder", || {
            bench.run(["show", "job", "--json"]).objects()[0]["holder_count"] == 1
        });
        let_go(&bench, vec![stays]);
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    let bench = Bench::new();
    for (flags, parts) in [
        (&["a", "b", "--shared"][..], &["--shared is for one lock", "alone"][..]),
        (&["a", "b", "--limit", "2"], &["--limit is for one lock"]),
        (&["a", "--permits", "1"], &["--permits needs --limit N"]),
        (&["a", "--permits", "3", "--limit", "2"], &["--permits", "no 3 permits of 2"]),
        (&["a", "--permits", "0", "--limit", "2"], &["--permits `0`", "1 to 1000000"]),
        (&["a", "--limit", "0"], &["--limit `0`", "1 to 1000000"]),
        (&["a", "--limit", "1000001"], &["--limit `1000001`"]),
        (&["a", "--limit", "-1"], &["--limit `-1`"]),
        (&["a", "--limit", "two"], &["--limit `two` is not a number of permits"]),
        (&["a", "--shared", "--limit", "2"], &["--shared", "together with --limit"]),
        (&["a", "--shared", "--permits", "2"], &["--shared", "together with --permits"]),
    ] {
        let words = [&["run"], flags, &["--", "touch", "ran"]].concat();
        bench.run(words).assert_refused(64, parts);
        bench.run([&["acquire"], flags].concat()).assert_refused(64, parts);
    }
    assert!(!bench.path("ran").exists());
    for words in [["show", "a", "--shared"], ["ls", "--limit", "2"], ["renew", "a", "--shared"]] {
        assert_eq!(bench.run(words).code, 64, "{words:?}");
    }
    assert_eq!(bench.run(["elect", "a", "--shared", "--", "true"]).code, 64);
}

#[test]
fn a_store_without_shared_locks_says_so() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let quorum = Bench::new().set("FENCELOCK_STORE", &urls.join(" "));
    assert_eq!(quorum.run(["init", "-q"]).code, 0);
    let plain = Bench::on(&servers[0]).set("FENCELOCK_DIALECT", "plain");
    for bench in [quorum, plain] {
        for flags in [&["--shared"][..], &["--limit", "2"]] {
            let words = [&["run", "job"], flags, &["--", "touch", "ran"]].concat();
            bench.run(words).assert_refused(64, &["`job`", "only mutexes work"]);
            let words = [&["acquire", "job"], flags].concat();
            bench.run(words).assert_refused(64, &["`job`", "only mutexes work"]);
        }
        assert!(!bench.path("ran").exists());
        assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 0);
    }
}

#[test]
fn they_are_settings_like_all_others() {
    let bench = Bench::new();
    let holds = |seen: &str| {
        let line = bench.run(["show", "job", "--json"]);
        assert_eq!(line.objects()[0]["limit"].to_string(), seen, "{line:?}");
    };
    bench.write("fencelock.toml", "limit = 3\n");
    let token = bench.acquire(&["job", "--permits", "2"]);
    holds("3");
    assert_eq!(bench.run(["release", "job", "--token", &token]).code, 0);
    // What is typed goes before what the file says.
    let token = bench.acquire(&["job", "--shared"]);
    holds("null");
    assert_eq!(bench.run(["run", "job", "--shared", "-n", "--", "true"]).code, 0);
    assert_eq!(bench.run(["release", "job", "--token", &token]).code, 0);
    let sets = bench.run(["run", "a", "b", "--", "true"]);
    sets.assert_refused(78, &["fencelock.toml:1: `limit` is for one lock"]);
    let shared = bench.run_with(&[("FENCELOCK_SHARED", "1")], &["acquire", "job"]);
    assert_eq!(shared.code, 0, "{shared:?}");
    holds("null");
    bench.write("fencelock.toml", "limit = 3\nshared = true\n");
    let both = bench.run(["acquire", "job"]);
    both.assert_refused(78, &["`shared` can't be used together with", "`limit`"]);
    // A leader is alone, whatever is set for locks.
    bench.write("fencelock.toml", "shared = true\n");
    let elected = bench.run(["elect", "lead", "--", "sh", "-c", TELL]);
    assert!(elected.stdout.trim_end().parse::<u64>().is_ok(), "{elected:?}");
}
