//! How those who hold a lock together are shown, and what each of them can do with its token.

use fencelock_testkit::RedisServer;
use serde_json::Value;

use crate::support::{Bench, finish};

/// Homes with each store in which several may hold a name, and what they need to live.
fn benches() -> (RedisServer, Vec<Bench>) {
    let server = RedisServer::start();
    let benches = vec![Bench::new(), Bench::on(&server)];
    (server, benches)
}

fn acquire(bench: &Bench, flags: &[&str]) -> Value {
    let ended = bench.run([&["acquire", "job", "--json"], flags].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.objects().remove(0)
}

#[test]
fn each_holder_is_shown() {
    let (_server, benches) = benches();
    for bench in benches {
        let first = acquire(&bench, &["--shared", "--ttl", "10m", "--meta", "who=first"]);
        let second = acquire(&bench, &["--shared", "--ttl", "20m"]);
        for grant in [&first, &second] {
            let said = ["kind", "shared", "fencing_token", "holders", "holder_count", "limit"];
            let expected = ["\"lock\"", "true", "null", "null", "null", "null"];
            assert_eq!(said.map(|field| grant[field].to_string()), expected, "{grant}");
        }
        for words in [&["show", "job", "--json"][..], &["ls", "--json"]] {
            let shown = &bench.run(words).objects()[0];
            assert_eq!(
                (&shown["kind"], &shown["shared"], &shown["holder_count"]),
                (&"lock".into(), &true.into(), &2.into()),
                "{shown}"
            );
            let holders = shown["holders"].as_array().unwrap();
            assert_eq!(holders.len(), 2, "{shown}");
            let mut fields: Vec<&str> =
                holders[0].as_object().unwrap().keys().map(String::as_str).collect();
            fields.sort_unstable();
            let expected = [
                "fencing_token",
                "host",
                "label",
                "meta",
                "number",
                "permits",
                "pid",
                "revoked",
                "since",
                "token_hash",
                "ttl_ms",
                "unattended",
            ];
            assert_eq!(fields, expected);
            let pids: Vec<&Value> = holders.iter().map(|holder| &holder["pid"]).collect();
            assert_eq!(pids, [&second["holder"]["pid"], &first["holder"]["pid"]], "the last first");
            assert_eq!(shown["holder"]["pid"], holders[0]["pid"], "{shown}");
            assert_eq!(shown["token_hash"], holders[0]["token_hash"], "{shown}");
            assert_eq!(holders[1]["meta"], serde_json::json!({"who": "first"}));
            assert_eq!(holders[1]["unattended"], true, "{shown}");
            let left = |holder: &Value| holder["ttl_ms"].as_u64().unwrap();
            assert!(left(&holders[0]) > 600_000 && left(&holders[1]) <= 600_000, "{shown}");
            assert!(!shown.to_string().contains(first["token"].as_str().unwrap()));
        }
        let text = bench.run(["show", "job"]).stdout;
        assert!(text.contains("held as        shared\n"), "{text}");
        let holders: Vec<&str> = text.lines().filter(|line| line.starts_with("holder ")).collect();
        assert_eq!(holders.len(), 2, "{text}");
        assert!(holders[1].contains(", not renewed, who=first"), "{text}");
        let list = bench.run(["ls"]).stdout;
        assert!(list.contains("2 holders, the last of them process"), "{list}");
        assert!(list.contains("[shared, not renewed]"), "{list}");
    }
}

#[test]
fn a_semaphore_is_shown_with_its_permits() {
    let (_server, benches) = benches();
    for bench in benches {
        let mut holder = bench.hold(&["job", "--permits", "3", "--limit", "5"]);
        let grant = acquire(&bench, &["--limit", "5"]);
        let said = ["kind", "shared", "fencing_token", "limit"];
        let expected = ["\"semaphore\"", "true", "null", "5"];
        assert_eq!(said.map(|field| grant[field].to_string()), expected, "{grant}");
        let shown = &bench.run(["show", "job", "--json"]).objects()[0];
        let said = ["kind", "shared", "holder_count", "used", "limit"];
        let expected = ["\"semaphore\"", "true", "2", "4", "5"];
        assert_eq!(said.map(|field| shown[field].to_string()), expected, "{shown}");
        let holders = shown["holders"].as_array().unwrap();
        let permits: Vec<&Value> = holders.iter().map(|holder| &holder["permits"]).collect();
        assert_eq!(permits, [1, 3], "{shown}");
        let text = bench.run(["show", "job"]).stdout;
        assert!(text.contains("held as        semaphore, 4 of 5 permits\n"), "{text}");
        assert!(text.contains(", 3 permits, since "), "{text}");
        assert!(bench.run(["ls"]).stdout.contains("[semaphore, 4 of 5 permits]"));
        bench.let_go();
        finish(&mut holder);
    }
}

#[test]
fn a_lock_that_one_holds_has_the_fields_too() {
    let (_server, benches) = benches();
    for bench in benches {
        let token = bench.acquire(&["job"]);
        let shown = &bench.run(["show", "job", "--json"]).objects()[0];
        let said = ["kind", "shared", "holder_count", "used", "limit", "owner"];
        let expected = ["\"lock\"", "false", "1", "null", "null", "null"];
        assert_eq!(said.map(|field| shown[field].to_string()), expected, "{shown}");
        assert_eq!(shown["holders"][0]["token_hash"], shown["token_hash"]);
        assert_eq!(bench.run(["release", "job", "--token", &token]).code, 0);
        let free = &bench.run(["show", "job", "--json"]).objects()[0];
        let expected = ["null", "false", "0", "null", "null", "null"];
        assert_eq!(said.map(|field| free[field].to_string()), expected, "{free}");
        assert_eq!(free["holders"], serde_json::json!([]));
    }
}

#[test]
fn each_token_renews_and_releases_its_own_share() {
    let (_server, benches) = benches();
    for bench in benches {
        for flags in [&["--shared"][..], &["--limit", "3"]] {
            let first = acquire(&bench, &[flags, &["--meta", "who=first"]].concat());
            let second = acquire(&bench, flags);
            let token = |grant: &Value| grant["token"].as_str().unwrap().to_owned();
            let renewed =
                bench.run(["renew", "job", "--json", "--ttl", "50m", "--token", &token(&first)]);
            assert_eq!(renewed.code, 0, "{renewed:?}");
            let told = &renewed.objects()[0];
            assert_eq!(told["meta"], serde_json::json!({"who": "first"}), "{told}");
            assert_eq!(told["holder"]["pid"], first["holder"]["pid"], "{told}");
            assert_eq!(told["holder_count"], 2, "{told}");
            assert!(told["ttl_ms"].as_u64().unwrap() > 2_900_000, "{told}");

            assert_eq!(bench.run(["release", "job", "--token", &token(&first)]).code, 0);
            let again = bench.run(["release", "job", "--token", &token(&first)]);
            again.assert_refused(79, &["does not hold lock `job`"]);
            let gone = bench.run(["renew", "job", "--token", &token(&first)]);
            assert_eq!(gone.code, 79, "{gone:?}");
            let shown = &bench.run(["show", "job", "--json"]).objects()[0];
            assert_eq!(shown["holder_count"], 1, "{shown}");
            assert_eq!(shown["holder"]["pid"], second["holder"]["pid"], "{shown}");
            assert_eq!(bench.run(["release", "job", "--token", &token(&second)]).code, 0);
            assert_eq!(bench.run(["show", "job"]).code, 1);
        }
    }
}

#[test]
fn of_very_many_some_are_shown_and_all_are_counted() {
    let (_server, benches) = benches();
    for bench in benches {
        let tokens: Vec<String> = (0..18).map(|_| bench.acquire(&["job", "--shared"])).collect();
        let shown = &bench.run(["show", "job", "--json"]).objects()[0];
        assert_eq!(shown["holder_count"], 18, "{shown}");
        assert_eq!(shown["holders"].as_array().unwrap().len(), 16, "{shown}");
        assert!(bench.run(["show", "job"]).stdout.contains("and 2 more\n"));
        // The first is not among those that are told of, and can still be given back.
        assert_eq!(bench.run(["release", "job", "--token", &tokens[0]]).code, 0);
        assert_eq!(bench.run(["release", "job", "--force", "--yes"]).code, 0);
        assert_eq!(bench.run(["show", "job"]).code, 1);
    }
}
