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
