//! The fields of `--json`: exactly those of the contract.

use serde_json::Value;

use crate::support::{Bench, LIMIT, finish, objects};

/// The fields in order, for one kind of line.
#[track_caller]
fn assert_fields(object: &Value, token: &str) {
    let mut expected = vec![
        "name",
        token,
        "fencing_token",
        "number",
        "ttl_ms",
        "validity_ms",
        "holder",
        "meta",
        "queue",
        "revoked",
        "unattended",
        "dialect",
        "kind",
        "shared",
        "holder_count",
        "holders",
        "used",
        "limit",
        "owner",
    ];
    expected.sort_unstable();
    let mut fields: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, expected, "{object}");
}

#[track_caller]
fn assert_holder(object: &Value) {
    let holder = object["holder"].as_object().unwrap();
    let mut fields: Vec<&str> = holder.keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["host", "label", "pid", "since"]);
    let since = holder["since"].as_str().unwrap();
    let _: jiff::Timestamp = since.parse().unwrap();
    assert!(since.ends_with('Z'), "{since}");
}

#[test]
fn acquire_prints_the_token_and_show_and_ls_its_hash() {
    let bench = Bench::new();
    let acquired = bench.run(["acquire", "job", "--json", "--ttl", "20s", "--meta", "team=ops"]);
    assert_eq!((acquired.code, acquired.stderr.as_str()), (0, ""));
    let grant = &acquired.objects()[0];
    assert_fields(grant, "token");
    assert_holder(grant);
    assert_eq!(grant["ttl_ms"], 20_000);
    assert!(grant["validity_ms"].as_u64().unwrap() < 20_000);
    let token = grant["token"].as_str().unwrap();
    for words in [&["show", "job", "--json"][..], &["ls", "--json"], &["ls", "jo", "--json"]] {
        let shown = bench.run(words);
        assert_eq!(shown.code, 0, "{shown:?}");
        assert!(!shown.stdout.contains(token), "{shown:?}");
        let object = &shown.objects()[0];
        assert_fields(object, "token_hash");
        assert_holder(object);
        assert_eq!(object["fencing_token"], grant["fencing_token"]);
        assert_eq!(object["meta"], serde_json::json!({"team": "ops"}));
        assert_eq!(object["queue"], 0);
        assert_eq!(object["dialect"], "native");
        assert_eq!(object["validity_ms"], Value::Null);
        assert!(object["ttl_ms"].as_u64().unwrap() <= 20_000);
        assert_eq!(object["token_hash"].as_str().unwrap().len(), 16);
    }
    let text = bench.run(["show", "job"]);
    assert!(text.stdout.contains("team=ops") && !text.stdout.contains(token), "{text:?}");
}

#[test]
fn renew_and_release_print_what_they_know() {
    let bench = Bench::new();
    let token = bench.acquire(&["job"]);
    let hash = bench.run(["show", "job", "--json"]).objects()[0]["token_hash"].clone();
    let renewed = bench.run(["renew", "job", "--ttl", "50s", "--token", &token, "--json"]);
    let object = &renewed.objects()[0];
    assert_fields(object, "token_hash");
    assert_eq!(object["token_hash"], hash);
    assert!(object["ttl_ms"].as_u64().unwrap() > 45_000, "{object}");
    assert!(object["fencing_token"].is_u64() && object["holder"]["pid"].is_u64(), "{object}");
    assert_eq!(object["unattended"], true);
    let released = bench.run(["release", "job", "--token", &token, "--json"]);
    assert_fields(&released.objects()[0], "token_hash");
    assert_eq!(released.objects()[0]["token_hash"], hash);
    let forced = bench.run(["release", "job", "--force", "--yes", "--json"]);
    assert_eq!((forced.code, forced.objects().len()), (0, 1), "free already: {forced:?}");
    assert_eq!(forced.objects()[0]["holder"], Value::Null);
}

#[test]
fn a_free_lock_and_an_empty_list_are_valid_too() {
    let bench = Bench::new();
    let free = bench.run(["show", "job", "--json"]);
    assert_eq!(free.code, 1);
    assert_fields(&free.objects()[0], "token_hash");
    assert_eq!(free.objects()[0]["holder"], Value::Null);
    assert_eq!(bench.run(["ls", "--json"]).stdout, "");
}

#[test]
fn each_name_is_a_line() {
    let bench = Bench::new();
    let acquired = bench.run(["acquire", "b", "a", "--json"]);
    let lines = acquired.objects();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["name"], &lines[1]["name"]), (&"a".into(), &"b".into()));
    assert_eq!(lines[0]["token"], lines[1]["token"]);
    assert_eq!(lines[0]["fencing_token"], lines[1]["fencing_token"]);
    assert_eq!(bench.run(["show", "a", "b", "--json"]).objects().len(), 2);
}

#[test]
fn run_prints_its_grant_on_standard_error_and_leaves_standard_output_alone() {
    let bench = Bench::new();
    let ended = bench.run(["run", "job", "--json", "--", "echo", "mine"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "mine\n"));
    let grant = &objects(&ended.stderr)[0];
    assert_fields(grant, "token_hash");
    assert_holder(grant);
}

#[test]
fn run_is_bound_to_the_process_that_show_names() {
    let bench = Bench::new();
    let mut holder = bench.hold(&["job"]);
    let shown = bench.run(["show", "job", "--json"]);
    assert_eq!(shown.objects()[0]["holder"]["pid"], holder.pid());
    bench.let_go();
    assert_eq!(finish(&mut holder).code, 0);
    let _ = LIMIT;
}
