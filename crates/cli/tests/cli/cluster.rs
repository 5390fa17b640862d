//! On a cluster of three servers: every command finds the server of its name.

use fencelock_testkit::RedisCluster;

use crate::support::Bench;

#[test]
fn run_show_ls_and_release_work_on_every_server_of_a_cluster() {
    let cluster = RedisCluster::start();
    let bench = Bench::new().set("FENCELOCK_STORE", &cluster.url());
    let names = ["alpha", "beta", "gamma", "job:{1", "delta"];
    let servers: std::collections::BTreeSet<usize> = names
        .iter()
        .map(|name| cluster.primary(cluster.slot(format!("fencelock:{name}").as_bytes())))
        .collect();
    assert_eq!(servers.len(), 3, "the names are on all servers");
    for name in names {
        let ended = bench.run(["run", name, "--", "printenv", "FENCELOCK_FENCING_TOKEN"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stdout.trim().parse::<u64>().is_ok(), "{ended:?}");
        assert_eq!(bench.run(["show", name]).code, 1, "{name} is free");
        let token = bench.acquire(&[name]);
        let shown = bench.run(["show", name, "--json"]).objects();
        assert_eq!((shown.len(), &shown[0]["dialect"]), (1, &"native".into()));
        let busy = bench.run(["run", name, "-n", "--", "true"]);
        assert_eq!(busy.code, 75, "{busy:?}");
        assert!(!token.is_empty());
    }
    let listed = bench.run(["ls", "--json"]).objects();
    let mut listed: Vec<&str> = listed.iter().map(|lock| lock["name"].as_str().unwrap()).collect();
    listed.sort_unstable();
    let mut all = names;
    all.sort_unstable();
    assert_eq!(listed, all);
    for name in names {
        assert_eq!(bench.run(["release", name, "--force", "--yes"]).code, 0, "{name}");
    }
    assert_eq!(bench.run(["ls"]).stdout, "");
}

#[test]
fn init_says_that_a_cluster_has_nothing_to_initialise() {
    let cluster = RedisCluster::start();
    let bench = Bench::new().set("FENCELOCK_STORE", &cluster.url());
    bench.run(["init"]).assert_refused(64, &["cluster", "nothing to initialise"]);
}

#[test]
fn names_in_different_slots_are_refused_with_a_hint_and_nothing_runs() {
    let cluster = RedisCluster::start();
    let bench = Bench::new().set("FENCELOCK_STORE", &cluster.url());
    let ended = bench.run(["run", "alpha", "beta", "--", "touch", "ran"]);
    ended.assert_refused(64, &["`alpha`", "`beta`", "slots", "{order}"]);
    assert!(!bench.path("ran").exists());
    for words in [&["run", "alpha", "beta", "--", "true"][..], &["acquire", "alpha", "beta"]] {
        let ended = bench.run(words);
        ended.assert_refused(64, &["-- fencelock run", "{order}:a"]);
        assert!(!ended.stderr.contains("across_slots"), "no calls of a library: {ended:?}");
    }
    let ended = bench.run(["run", "{order:1}a", "{order:1}b", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
}
