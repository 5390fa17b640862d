//! `fencelock init`: which servers are told that they are new, and which are refused.

use fencelock_testkit::{Persistence, RedisServer};

use crate::support::Bench;

#[test]
fn each_server_is_initialised_by_itself_and_told_about_in_a_line() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let bench = Bench::new().set("FENCELOCK_STORE", &urls.join(" "));
    servers[1].kill();
    let ended = bench.run(["init", "--json"]);
    assert_eq!(ended.code, 69, "one is away: {ended:?}");
    ended.assert_one_line(&[&servers[1].addr()]);
    let lines = ended.objects();
    let states: Vec<_> = lines.iter().map(|line| line["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["initialised", "failed", "initialised"]);
    assert_eq!(lines[0]["store"], urls[0].as_str());
    assert_eq!(lines[0]["max_ttl_ms"], 60_000);
    assert!(lines[0]["error"].is_null() && lines[1]["error"].is_string(), "{lines:?}");

    servers[1].restart();
    let ended = bench.run(["init"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(
        lines[0].starts_with(&urls[0]) && lines[0].contains("initialised already"),
        "{ended:?}"
    );
    assert!(lines[1].starts_with(&urls[1]) && lines[1].contains("from now on"), "{ended:?}");
    for server in &servers {
        let marker: String = redis_text(server);
        assert!(marker.ends_with("|00060000|i"), "{marker}");
    }
}

fn redis_text(server: &RedisServer) -> String {
    format!("{:?}", server.cli(&["GET", "fencelock:!boot"])).replace(['\'', '"', ')'], "")
}

#[test]
fn a_server_that_was_in_use_before_it_restarted_is_refused_unless_told_otherwise() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let bench = Bench::on(&server);
    assert_eq!(bench.run(["init"]).code, 0);
    server.restart();
    let ended = bench.run(["init"]);
    ended.assert_refused(75, &[&server.addr(), "in use before", "--yes"]);
    let lines = bench.run(["init", "--json"]).objects();
    assert_eq!(lines[0]["state"], "refused");
    assert!(lines[0]["counts_in_ms"].as_u64().unwrap() > 10_000, "{lines:?}");
    assert_eq!(bench.run(["init", "--yes"]).code, 0);
    let again = bench.run(["init", "--json"]).objects();
    assert_eq!(again[0]["state"], "unchanged");
}

#[test]
fn what_has_no_restart_guard_is_refused() {
    let bench = Bench::new();
    bench.run(["init"]).assert_refused(64, &["--store"]);
    for store in ["sqlite:/tmp/x.db", "memory:"] {
        bench.run(["init", "--store", store]).assert_refused(64, &[store, "only Redis"]);
        let words = ["init", "--store", "redis://127.0.0.1:1", "--store", store];
        bench.run(words).assert_refused(64, &[store]);
    }
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    bench.run(["init", "--dialect", "plain"]).assert_refused(64, &["plain"]);
    for span in ["", "1", "0s", "25h"] {
        bench.run(["init", "--max-ttl", span]).assert_refused(64, &["max"]);
    }
    bench.run(["init", "job"]).assert_refused(64, &["job"]);
    assert!(redis_text(&server).contains("nil"), "{}", redis_text(&server));
}

#[test]
fn the_longest_ttl_only_grows() {
    let server = RedisServer::start();
    let bench = Bench::on(&server);
    for (asked, kept) in [("2m", 120_000), ("30s", 120_000), ("10m", 600_000)] {
        let lines = bench.run(["init", "--json", "--max-ttl", asked]).objects();
        assert_eq!(lines[0]["max_ttl_ms"], kept, "{lines:?}");
    }
}

/// Goal: a node of a quorum that lost its data is not taken for a new one. Method: of three one
/// restarts empty while a lock is held on the others, and all are initialised again.
#[test]
fn an_empty_server_among_servers_that_hold_locks_has_to_be_confirmed() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let bench = Bench::new().set("FENCELOCK_STORE", &urls.join(" "));
    assert_eq!(bench.run(["init"]).code, 0);
    // On each by itself, so that it is known who holds how many.
    let _one = bench.acquire(&["job", "--store", &urls[0], "--ttl", "1h"]);
    let _other = bench.acquire(&["job", "--store", &urls[1], "--ttl", "1h"]);
    let _third = bench.acquire(&["task", "--store", &urls[1], "--ttl", "1h"]);
    let ended = bench.run(["init"]);
    assert_eq!(ended.code, 0, "without locks, but not blank: {ended:?}");
    servers[2].kill();
    servers[2].restart();
    let ended = bench.run(["init"]);
    assert_eq!(ended.code, 75, "{ended:?}");
    ended.assert_one_line(&[&urls[2], "empty", &servers[1].addr(), "holds 2 locks", "--yes"]);
    assert_eq!(ended.stdout.matches("initialised already").count(), 2, "{ended:?}");
    let states: Vec<_> = bench.run(["init", "--json"]).objects();
    let states: Vec<_> = states.iter().map(|line| line["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["unchanged", "unchanged", "refused"]);
    assert!(redis_text(&servers[2]).contains("nil"), "{}", redis_text(&servers[2]));
    let ended = bench.run(["init", "--yes"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert!(redis_text(&servers[2]).ends_with("|00060000|i"), "{}", redis_text(&servers[2]));
}

#[test]
fn a_server_that_does_not_answer_keeps_no_other_from_being_initialised() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let bench = Bench::new().set("FENCELOCK_STORE", &urls.join(" "));
    servers[0].kill();
    let ended = bench.run(["init"]);
    assert_eq!(ended.code, 69, "{ended:?}");
    ended.assert_one_line(&[&servers[0].addr()]);
    assert_eq!(ended.stdout.matches("from now on").count(), 2, "{ended:?}");
}
