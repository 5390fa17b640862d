//! Several stores are one: a quorum of real servers, with and without a minority of them.

use std::time::{Duration, Instant};

use fencelock_testkit::RedisServer;

use crate::support::{Bench, Ended, finish, wait_for_stderr};

/// Servers that count from the start.
fn servers(count: usize) -> Vec<RedisServer> {
    let servers: Vec<RedisServer> = (0..count).map(|_| RedisServer::start()).collect();
    let ended = bench(&servers).run(["init", "-q"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    servers
}

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

/// A home whose store is the quorum of these.
fn bench(servers: &[RedisServer]) -> Bench {
    Bench::new().set("FENCELOCK_STORE", &urls(servers).join(" "))
}

/// Longer than any call may take that finds no quorum: two seconds for a store that was never
/// reached, and room on a busy machine.
const BOUND: Duration = Duration::from_secs(10);

#[track_caller]
fn bounded(bench: &Bench, words: &[&str]) -> Ended {
    let start = Instant::now();
    let ended = bench.run(words);
    assert!(start.elapsed() < BOUND, "{words:?} took {:?}: {ended:?}", start.elapsed());
    ended
}

#[test]
fn every_command_works_on_a_quorum_with_one_of_three_dead() {
    let servers = servers(3);
    let bench = bench(&servers);
    servers[1].kill();
    let token = bench.acquire(&["job", "--ttl", "20s", "--meta", "why=test"]);
    let token = ["--token", &token];
    let busy = bench.run(["run", "job", "-n", "--", "true"]);
    assert_eq!(busy.code, 75, "{busy:?}");
    busy.assert_one_line(&["`job`", "quorum(3: ", &servers[0].addr(), &servers[1].addr()]);

    let shown = bench.run(["show", "job", "--json"]).objects();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0]["fencing_token"].is_u64(), "{shown:?}");
    assert_eq!(shown[0]["meta"]["why"], "test");
    let ttl = |shown: &serde_json::Value| shown["ttl_ms"].as_u64().unwrap();
    assert!((1..=20_000).contains(&ttl(&shown[0])), "{shown:?}");
    let listed = bench.run(["ls", "--json"]).objects();
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"job".into()), "{listed:?}");

    let renewed = bench.run([&["renew", "job", "--ttl", "60s"], &token[..]].concat());
    assert_eq!(renewed.code, 0, "{renewed:?}");
    let shown = bench.run(["show", "job", "--json"]).objects();
    assert!(ttl(&shown[0]) > 30_000, "{shown:?}");
    assert_eq!(bench.run([&["release", "job"], &token[..]].concat()).code, 0);
    assert_eq!(bench.run([&["renew", "job"], &token[..]].concat()).code, 79);
    assert_eq!(bench.run(["show", "job"]).code, 1);

    let ended = bench.run(["run", "job", "--", "sh", "-c", "exit 7"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (7, ""));
    let _token = bench.acquire(&["job"]);
    assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
    assert_eq!(bench.run(["ls", "--json"]).stdout, "");
}

#[test]
fn the_command_is_told_all_stores_and_a_growing_fencing_token() {
    let servers = servers(3);
    let bench = bench(&servers);
    let script = "echo $FENCELOCK_FENCING_TOKEN; echo $FENCELOCK_STORE";
    let mut last = 0;
    for _ in 0..3 {
        let ended = bench.run(["run", "job", "--", "sh", "-c", script]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let (token, store) = ended.stdout.trim_end().split_once('\n').unwrap();
        let token: u64 = token.parse().unwrap();
        assert!(token > last, "{token} after {last}");
        assert_eq!(store, urls(&servers).join(" "));
        last = token;
    }
    let nested = format!("{} run job -n -- true", env!("CARGO_BIN_EXE_fencelock"));
    let ended = Bench::new().run_with(
        &[("FENCELOCK_STORE", &urls(&servers).join(" "))],
        &["run", "job", "--", "sh", "-c", &nested],
    );
    assert_eq!(ended.code, 75, "the nested call asks the same quorum: {ended:?}");
}

#[test]
fn three_of_five_dead_exit_69_in_bounded_time_with_what_each_said() {
    let servers = servers(5);
    let bench = bench(&servers);
    let token = bench.acquire(&["held", "--ttl", "1m"]);
    for server in &servers[..3] {
        server.kill();
    }
    for words in [
        &["acquire", "job", "-n"][..],
        &["acquire", "job", "--wait", "1s"],
        &["acquire", "job"],
        &["run", "job", "--", "true"],
        &["renew", "held", "--token", &token],
        &["release", "held", "--token", &token],
        &["release", "held", "--force", "--yes"],
        &["show", "held"],
        &["ls"],
    ] {
        let ended = bounded(&bench, words);
        ended.assert_refused(69, &[]);
        if ["renew", "release"].contains(&words[0]) {
            assert!(!ended.stderr.contains("granted"), "nothing was: {ended:?}");
        }
        for server in &servers[..3] {
            assert!(ended.stderr.contains(&server.addr()), "{words:?}: {ended:?}");
        }
    }
}

#[test]
fn a_minority_that_is_killed_while_the_command_runs_does_not_stop_it() {
    let servers = servers(5);
    let bench = bench(&servers);
    let mut holder = bench.hold(&["job", "--ttl", "2s"]);
    servers[0].kill();
    servers[3].kill();
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 75);
    bench.write("go", "");
    let ended = finish(&mut holder);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 0);
}

#[test]
fn a_majority_that_is_killed_while_the_command_runs_stops_it_in_time() {
    let servers = servers(3);
    let bench = bench(&servers);
    let mut holder = bench.hold(&["job", "--ttl", "1s"]);
    servers[0].kill();
    servers[1].kill();
    let ended = finish(&mut holder);
    assert_eq!(ended.code, 79, "{ended:?}");
}

#[test]
fn whoever_waits_gets_the_lock_after_its_release() {
    let servers = servers(3);
    let bench = bench(&servers);
    let mut holder = bench.hold(&["job"]);
    let mut waiter = bench.start(["run", "job", "--wait", "20s", "--", "true"]);
    wait_for_stderr(&mut waiter, "waiting for lock");
    bench.write("go", "");
    assert_eq!(finish(&mut holder).code, 0);
    assert_eq!(finish(&mut waiter).code, 0);
}

#[test]
fn flags_variables_and_files_name_several_stores() {
    let servers = servers(3);
    let urls = urls(&servers);
    let token = bench(&servers).acquire(&["job"]);
    let busy = |bench: &Bench, words: &[&str]| {
        let ended = bench.run([&["run", "job", "-n"], words, &["--", "true"]].concat());
        assert_eq!(ended.code, 75, "{ended:?}");
        assert!(ended.stderr.contains("quorum(3: "), "{ended:?}");
    };
    let bench = Bench::new();
    busy(&bench, &["--store", &urls[0], "--store", &urls[1], "--store", &urls[2]]);
    busy(&bench, &["--store", &urls.join(" ")]);
    bench.write("fencelock.toml", &format!("store = {urls:?}\n"));
    busy(&bench, &[]);
    bench.write("fencelock.toml", &format!("store = {:?}\n", urls.join(" ")));
    busy(&bench, &[]);
    // Those of two places are never put together.
    let one = bench.run(["show", "job", "--store", &urls[0], "--json"]).objects();
    assert_eq!(one.len(), 1, "{one:?}");
    let ended = bench.run(["release", "job", "--token", &token]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for list in ["[]", "[1.5]", "[[\"redis://a\"]]", "{}"] {
        bench.write("fencelock.toml", &format!("store = {list}\n"));
        bench.run(["ls"]).assert_refused(78, &["fencelock.toml:1", "`store`", "list"]);
    }
}

#[test]
fn what_is_no_quorum_is_refused_before_anything_is_sent() {
    let bench = Bench::new();
    for (stores, parts) in [
        (&["redis://a", "redis://a"][..], &["twice"][..]),
        (&["redis://a", "redis://me:s3cret@b", "http://c"], &["--store", "http://c"]),
        (&["redis://a", "redis://me:s3cret@b", "redis://c/x"], &["--store", "database"]),
        (&["redis://a", "sqlite:/tmp/x.db", "redis://b"], &["clocks"]),
    ] {
        let flags = stores.iter().flat_map(|store| ["--store", store]);
        let words: Vec<&str> = ["acquire", "x"].into_iter().chain(flags).collect();
        let ended = bench.run(words);
        ended.assert_refused(64, parts);
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    }
    for local in ["sqlite:/tmp/x.db", "memory:"] {
        let words = ["acquire", "x", "--distributed", "--store", "redis://a", "--store", local];
        bench.run(words).assert_refused(64, &["--store", local, "--distributed"]);
    }
}

#[test]
fn each_store_has_its_own_password_or_all_have_one() {
    let passwords = ["p/w@0", "p w:1", "p%2"];
    let start =
        |password: &str| RedisServer::builder().password(&format!("\"{password}\"")).start();
    let servers: Vec<RedisServer> = passwords.iter().map(|password| start(password)).collect();
    let urls: Vec<String> =
        servers.iter().map(|server| format!("redis://{}/0", server.addr())).collect();
    let bench = Bench::new().set("FENCELOCK_STORE", &urls.join(" "));
    let file = bench.write("each", &format!("{}\n", passwords.join("\n")));
    let bench = bench.set("FENCELOCK_STORE_PASSWORD_FILE", file.to_str().unwrap());
    assert_eq!(bench.run(["init", "-q"]).code, 0);
    let ended = bench.run(["run", "job", "-v", "--", "env"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for password in passwords {
        assert!(!ended.stdout.contains(password) && !ended.stderr.contains(password), "{ended:?}");
    }
    let nested = format!("{} run job -n -- true", env!("CARGO_BIN_EXE_fencelock"));
    let ended = bench.run(["run", "job", "--", "sh", "-c", &nested]);
    assert_eq!(ended.code, 75, "the nested call is let in and finds it busy: {ended:?}");

    for text in ["a\nb\n", "a\nb\nc\nd\n"] {
        bench.write("each", text);
        bench.run(["ls"]).assert_refused(78, &["FENCELOCK_STORE_PASSWORD_FILE", "3 stores"]);
    }
    bench.write("each", "wrong\n");
    assert_eq!(bench.run(["ls"]).code, 77, "none of them lets it in");
    // The same for all, where a URL has none of its own.
    let same: Vec<RedisServer> = (0..3).map(|_| start("shared")).collect();
    let mut urls: Vec<String> =
        same.iter().map(|server| format!("redis://{}/0", server.addr())).collect();
    urls[1] = format!("redis://:shared@{}/0", same[1].addr());
    bench.write("each", "shared\n");
    let variables = [("FENCELOCK_STORE", urls.join(" "))];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(bench.run_with(&variables, &["init", "-q"]).code, 0);
    assert_eq!(bench.run_with(&variables, &["run", "job", "--", "true"]).code, 0);
}

/// A `--min-hold` of two minutes was accepted, and the lock was free after thirty seconds.
#[test]
fn what_is_longer_than_any_lock_on_a_quorum_is_refused_before_anything_is_sent() {
    let bench = Bench::new().set("FENCELOCK_STORE", "redis://a redis://b redis://c");
    let token = "00000000000000000000000000000000";
    for words in [
        &["run", "job", "--ttl", "61s", "--", "true"][..],
        &["run", "job", "--min-hold", "2m", "--", "true"],
        &["acquire", "job", "--ttl", "5m"],
        &["renew", "job", "--token", token, "--ttl", "2m"],
    ] {
        bench.run(words).assert_refused(64, &["at most 1m on a quorum"]);
    }
    let variable = [("FENCELOCK_TTL", "5m")];
    let ended = bench.run_with(&variable, &["run", "job", "--", "true"]);
    ended.assert_refused(78, &["FENCELOCK_TTL", "not 5m"]);
    let servers = servers(3);
    let ended = self::bench(&servers).run(["run", "job", "--ttl", "60s", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn without_a_majority_each_server_is_named_once_and_no_secret() {
    let open = RedisServer::start();
    let closed = RedisServer::builder().password("s3cret-one").start();
    let gone = RedisServer::start();
    gone.kill();
    let urls = [
        open.url(),
        format!("redis://:s3cret-two@{}/0", closed.addr()),
        format!("redis://me:s3cret-three@{}/0", gone.addr()),
    ];
    let bench = Bench::new().set("FENCELOCK_STORE", &urls.join(" "));
    for words in [&["acquire", "job"][..], &["run", "job", "--", "true"], &["show", "job"], &["ls"]]
    {
        let ended = bounded(&bench, words);
        ended.assert_refused(69, &["2 needed"]);
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
        for server in [&closed, &gone] {
            assert_eq!(ended.stderr.matches(&server.addr()).count(), 1, "{words:?}: {ended:?}");
        }
    }
}

#[test]
fn a_quorum_of_new_servers_names_the_way_out() {
    let young: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let bench = bench(&young);
    // Not `-n`: on a starved machine one try is over before it has three connections.
    for words in
        [&["acquire", "job", "--wait", "2s"][..], &["run", "job", "--wait", "2s", "--", "true"]]
    {
        let ended = bounded(&bench, words);
        ended.assert_refused(69, &["restarted", "`fencelock init --store "]);
    }
    assert_eq!(bench.run(["show", "job"]).code, 1, "looking is free");
    let ended = bench.run(["init"]);
    assert_eq!((ended.code, ended.stdout.lines().count()), (0, 3), "{ended:?}");
    assert_eq!(bench.run(["run", "job", "-n", "--", "true"]).code, 0);
}

/// Goal: a server that forgot its lock must not vote for the next holder. Method: of three, the one
/// that knows the lock only by itself is away, and one restarts empty; the third has it.
#[test]
fn a_server_that_restarted_empty_does_not_vote_for_somebody_else() {
    let servers = servers(3);
    let bench = bench(&servers);
    servers[2].kill();
    let token = bench.acquire(&["job", "--ttl", "1m"]);
    servers[0].kill();
    servers[0].restart();
    servers[2].restart();
    // Two servers are free of the lock, a majority: only that they are young keeps it exclusive.
    let ended = bench.run(["run", "job", "-n", "--", "true"]);
    assert!(ended.code == 75 || ended.code == 69, "{ended:?}");
    let renewed = bench.run(["renew", "job", "--token", &token]);
    assert!(renewed.code == 79 || renewed.code == 69, "one of three has it: {renewed:?}");
}
