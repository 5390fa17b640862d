//! The rights that `docs/operating/acl.md` asks for: every command works with them, and where one is
//! missing some command says which.

use fencelock_testkit::{Process, RedisServer, eventually};

use crate::support::{Bench, Ended, LIMIT, finish};

/// The rights of the line for a dialect, by the pattern of its keys.
fn documented(keys: &str) -> Vec<&'static str> {
    let page = include_str!("../../../../docs/operating/acl.md");
    let line = page.lines().find(|line| line.starts_with("user ") && line.contains(keys));
    line.expect("the page has the line").split(' ').skip(4).collect()
}

fn server_with(rights: &[&str]) -> RedisServer {
    RedisServer::builder().acl_user("app", &format!("on >p {}", rights.join(" "))).start()
}

fn bench_on(server: &RedisServer, dialect: &str) -> Bench {
    Bench::new()
        .set("FENCELOCK_STORE", &server.url_as("app", "p"))
        .set("FENCELOCK_DIALECT", dialect)
}

/// One call of every command, and how each ended; the last lock is handed to one that waits. A lock
/// on two names is held for so many seconds; it is renewed after a third of one.
fn every_command(server: &RedisServer, dialect: &str, holds: &str) -> Vec<Ended> {
    let bench = bench_on(server, dialect);
    let is_native = dialect == "native";
    let mut ended = Vec::new();
    let mut call = |words: &[&str]| {
        let end = bench.run(words);
        let said = end.stdout.trim_end().to_owned();
        ended.push(end);
        said
    };
    // Names of their own: what can't be released must hold up nobody.
    call(&["run", "app:a", "--", "true"]);
    call(&["run", "app:b", "app:c", "--ttl", "1s", "--", "sleep", holds]);
    let token = call(&["acquire", "app:d", "--ttl", "60s"]);
    call(&["renew", "app:d", "--token", &token]);
    call(&["show", "app:d"]);
    call(&["ls"]);
    call(&["release", "app:d", "--token", &token]);
    call(&["acquire", "app:e", "--ttl", "60s"]);
    call(&["release", "app:e", "--force", "--yes"]);
    if is_native {
        let script = "echo inside; exec sleep 30";
        let mut holder = bench.start(["run", "app:r", "--", "sh", "-c", script]);
        eventually(LIMIT, "it has the lock, or may not", || {
            holder.exited().is_some() || holder.stdout().contains("inside")
        });
        call(&["revoke", "app:r"]);
    }
    let token = call(&["acquire", "app:w", "--ttl", "60s"]);
    let mut waiters: Vec<Process> =
        (0..2).map(|_| bench.start(["run", "app:w", "--wait", "20s", "--", "true"])).collect();
    for waiter in &mut waiters {
        eventually(LIMIT, "it waits, or says why it can't, or has the lock", || {
            waiter.exited().is_some() || waiter.stderr().contains("fencelock: ")
        });
    }
    call(&["release", "app:w", "--token", &token]);
    let is_given_back = ended.last().is_some_and(|release| release.code == 0);
    for waiter in &mut waiters {
        // What is never given back is not waited for.
        if is_given_back || waiter.exited().is_some() {
            ended.push(finish(waiter));
        }
    }
    ended
}

#[test]
fn every_command_works_with_the_documented_rights_and_each_that_is_missing_is_named() {
    for (dialect, keys) in [("native", "~fencelock:*"), ("plain", "~app:*")] {
        let rights = documented(keys);
        let server = server_with(&rights);
        for ended in every_command(&server, dialect, "0.5") {
            assert_eq!(ended.code, 0, "{dialect}: {ended:?}");
        }
        // Without these everything works: see the page.
        let spared = ["+evalsha", "+mget", "+setrange", "+type", "+info", "+pubsub|numsub"];
        let told = ["+publish", "+subscribe", "+unsubscribe"];
        let without = |right: &str| {
            let fewer: Vec<_> = rights.iter().copied().filter(|word| *word != right).collect();
            let works = spared.contains(&right) || told.contains(&right);
            let ended = every_command(&server_with(&fewer), dialect, "0");
            let is_as_said = if works {
                ended.iter().all(|ended| ended.code == 0)
            } else {
                ended.iter().any(|ended| ended.code == 77 && ended.stderr.contains(right))
            };
            assert!(is_as_said, "{dialect} {right}: {ended:?}");
        };
        // Most of it is waiting for what does not come: six at a time.
        let commands: Vec<_> = rights.iter().filter(|right| right.starts_with('+')).collect();
        for some in commands.chunks(6) {
            std::thread::scope(|scope| {
                for right in some {
                    scope.spawn(|| without(right));
                }
            });
        }
    }
}

#[test]
fn whoever_only_looks_needs_no_right_to_write() {
    let page = include_str!("../../../../docs/operating/acl.md");
    let line = page.lines().find(|line| line.starts_with("user viewer "));
    let rights: Vec<_> = line.expect("the page has the line").split(' ').skip(4).collect();
    let server = server_with(&rights);
    let all = Bench::on(&server);
    let token = all.acquire(&["app:a", "--ttl", "60s"]);
    let mut waiter = all.start(["run", "app:a", "--", "true"]);
    eventually(LIMIT, "it waits", || waiter.stderr().contains("waiting"));
    let bench = bench_on(&server, "native");
    assert!(bench.run(["show", "app:a"]).stdout.contains("lease left"));
    assert!(bench.run(["ls"]).stdout.contains("app:a"));
    for words in [
        &["run", "app:b", "--", "true"][..],
        &["release", "app:a", "--force", "--yes"],
        &["renew", "app:a", "--token", &token],
        &["release", "app:a", "--token", &token],
    ] {
        let ended = bench.run(words);
        assert!(ended.code == 77 && ended.stderr.contains("grant +"), "{words:?} {ended:?}");
    }
    assert_eq!(all.run(["release", "app:a", "--token", &token]).code, 0);
    assert_eq!(finish(&mut waiter).code, 0);
}

/// The documented users may not read the keys of the other dialect, and nobody asked for it.
#[test]
fn show_and_revoke_need_no_right_to_the_dialect_that_was_not_asked_for() {
    let server = server_with(&documented("~fencelock:*"));
    let bench = Bench::new().set("FENCELOCK_STORE", &server.url_as("app", "p"));
    let free = bench.run(["show", "app:a"]);
    assert_eq!((free.code, free.stdout.as_str()), (1, "lock `app:a` is free\n"), "{free:?}");
    assert_eq!(free.stderr, "");
    let said = bench.run(["show", "app:a", "-v"]).stderr;
    assert!(said.contains("not looked up in the plain dialect"), "{said}");
    bench.acquire(&["app:a", "--ttl", "60s"]);
    let held = bench.run(["show", "app:a"]);
    assert!(held.code == 0 && held.stderr.is_empty(), "{held:?}");
    let free = bench.run(["revoke", "app:b"]);
    assert!(free.code != 77, "{free:?}");
    // What was asked for is denied as ever.
    bench.run(["show", "app:a", "--dialect", "plain"]).assert_refused(77, &["key pattern"]);
}

#[test]
fn another_database_without_the_right_to_select_is_denied_with_its_name() {
    let server = server_with(&documented("~fencelock:*"));
    let url = server.url_as("app", "p");
    let url = format!("{}/3", url.trim_end_matches("/0").trim_end_matches('/'));
    let bench = Bench::new().set("FENCELOCK_STORE", &url).set("FENCELOCK_DIALECT", "native");
    bench.run(["show", "app:a"]).assert_refused(77, &["select", "+select"]);
}

#[test]
fn a_name_outside_of_the_granted_keys_is_denied_with_a_sentence() {
    let server = server_with(&documented("~app:*"));
    let bench = bench_on(&server, "plain");
    let ended = bench.run(["run", "other:a", "--", "true"]);
    ended.assert_refused(77, &["key pattern"]);
}
