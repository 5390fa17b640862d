//! Flag before environment before working directory before user's folder; wrong settings exit 78.

use std::fs;

use crate::support::{Bench, Ended};

/// What the command of a busy lock exits with tells which conflict code was in force.
#[track_caller]
fn conflict_code(bench: &Bench, variables: &[(&str, &str)], flags: &[&str]) -> i32 {
    let words = [&["run", "x", "-n"], flags, &["--", "true"]].concat();
    bench.run_with(variables, &words).code
}

#[test]
fn stores_with_commas_between_them_are_refused_with_the_way_out() {
    let bench = Bench::new();
    for urls in ["redis://a,redis://:s3cret@b,redis://c", "redis://a, redis://b"] {
        let ended = bench.run_with(&[("FENCELOCK_STORE", urls)], &["run", "x", "--", "true"]);
        ended.assert_refused(78, &["FENCELOCK_STORE", "comma", "separated by spaces"]);
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
        bench.run(["ls", "--store", urls]).assert_refused(64, &["--store", "spaces"]);
    }
}

#[test]
fn a_store_that_nobody_else_sees_is_pointed_out() {
    let bench = Bench::new();
    let ended = bench.run(["run", "x", "--store", "memory:", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.assert_one_line(&["memory", "lock `x` keeps nobody else out"]);
    let quiet = bench.run(["run", "x", "-q", "--store", "memory:", "--", "true"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

#[test]
fn the_nearest_place_wins() {
    let bench = Bench::new();
    let _token = bench.acquire(&["x"]);
    assert_eq!(conflict_code(&bench, &[], &[]), 75);
    fs::create_dir_all(bench.user_file().parent().unwrap()).unwrap();
    fs::write(bench.user_file(), "conflict-exit-code = 11\n").unwrap();
    assert_eq!(conflict_code(&bench, &[], &[]), 11);
    bench.write("fencelock.toml", "conflict-exit-code = 12\n");
    assert_eq!(conflict_code(&bench, &[], &[]), 12);
    let variable = [("FENCELOCK_CONFLICT_EXIT_CODE", "13")];
    assert_eq!(conflict_code(&bench, &variable, &[]), 13);
    assert_eq!(conflict_code(&bench, &variable, &["-E", "14"]), 14);
}

#[test]
fn wait_and_no_wait_are_one_setting() {
    let bench = Bench::new();
    let _token = bench.acquire(&["x"]);
    let code = |variables: &[(&str, &str)], flags: &[&str]| -> Ended {
        bench.run_with(variables, &[&["run", "x"], flags, &["--", "true"]].concat())
    };
    assert_eq!(code(&[("FENCELOCK_NO_WAIT", "true")], &[]).code, 75);
    let waited = code(&[("FENCELOCK_NO_WAIT", "1")], &["--wait", "20ms"]);
    assert!(waited.code == 75 && waited.stderr.contains("20ms"), "{waited:?}");
    assert_eq!(code(&[("FENCELOCK_WAIT", "1h")], &["-n"]).code, 75);
    let both = code(&[("FENCELOCK_NO_WAIT", "1"), ("FENCELOCK_WAIT", "1s")], &[]);
    both.assert_refused(78, &["FENCELOCK_NO_WAIT"]);
}

#[test]
fn a_wrong_variable_exits_78_and_names_itself() {
    for (variable, value) in [
        ("FENCELOCK_TTL", "5"),
        ("FENCELOCK_TTL", "0s"),
        ("FENCELOCK_TTL", "25h"),
        ("FENCELOCK_TTL", " 5s"),
        ("FENCELOCK_WAIT", "5S"),
        ("FENCELOCK_WAIT", "1.5"),
        ("FENCELOCK_GRACE", "1ns"),
        ("FENCELOCK_GRACE", "20s"),
        ("FENCELOCK_STORE", "etcd://h"),
        ("FENCELOCK_STORE", ""),
        ("FENCELOCK_STORE", "redis://h redis://h"),
        ("FENCELOCK_STORE", "redis://h/no-number"),
        ("FENCELOCK_DIALECT", "plane"),
        ("FENCELOCK_DIALECT", "plain"),
        ("FENCELOCK_DISTRIBUTED", "maybe"),
        ("FENCELOCK_ON_LOST", "kill"),
        ("FENCELOCK_CONFLICT_EXIT_CODE", "256"),
        ("FENCELOCK_META", "novalue"),
        ("FENCELOCK_JSON", "yep"),
    ] {
        let ended = Bench::new().run_with(&[(variable, value)], &["run", "x", "--", "true"]);
        ended.assert_refused(78, &[variable]);
    }
}

#[test]
fn a_ttl_of_the_environment_that_is_too_short_for_run_exits_78() {
    let bench = Bench::new();
    let variables = [("FENCELOCK_TTL", "50ms")];
    bench.run_with(&variables, &["run", "x", "--", "true"]).assert_refused(78, &["FENCELOCK_TTL"]);
    assert_eq!(bench.run_with(&variables, &["acquire", "x"]).code, 0);
}

#[test]
fn an_unknown_variable_warns_in_one_line_and_quiet_takes_it_away() {
    let bench = Bench::new();
    let variables = [("FENCELOCK_TLL", "1s"), ("FENCELOCK_STORES", "x")];
    let ended = bench.run_with(&variables, &["run", "x", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.assert_one_line(&["FENCELOCK_TLL", "FENCELOCK_TTL?", "FENCELOCK_STORES"]);
    let quiet = bench.run_with(&variables, &["run", "x", "-q", "--", "true"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

#[test]
fn variables_that_run_sets_are_not_options() {
    let bench = Bench::new();
    let variables = [
        ("FENCELOCK_NAME", "y"),
        ("FENCELOCK_FENCING_TOKEN", "none"),
        ("FENCELOCK_DEADLINE_MS", "never"),
        ("FENCELOCK_TOKEN", "none"),
    ];
    let ended = bench.run_with(&variables, &["run", "x", "--", "true"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[test]
fn a_wrong_file_exits_78_and_names_the_line() {
    for (text, parts) in [
        ("\nstroe = \"redis://h\"\n", &["fencelock.toml:2", "`stroe`", "`store`"][..]),
        ("no_wait = true\n", &["fencelock.toml:1", "`no_wait`", "`no-wait`"]),
        ("permits = \"2\"\n", &["fencelock.toml:1", "`permits`"]),
        ("max-hold = \"1\"\n", &["fencelock.toml:1", "max-hold", "unit"]),
        ("kill = \"maybe\"\n", &["fencelock.toml:1", "kill"]),
        ("ttl = 30\n", &["fencelock.toml:1", "ttl", "unit"]),
        ("ttl = \"1.5\"\n", &["fencelock.toml:1", "ttl"]),
        ("ttl = 1.5\n", &["fencelock.toml:1", "ttl"]),
        ("store = [\"redis://a\", \"redis://a\"]\n", &["fencelock.toml:1", "store", "twice"]),
        ("ttl = \"1s\"\nttl = \"2s\"\n", &["fencelock.toml:2"]),
        ("ttl = \n", &["fencelock.toml:1"]),
        ("meta = \"a=1\"\n", &["fencelock.toml:1", "[meta]"]),
        ("[meta]\na = 1\n\"!b\" = \"2\"\n", &["fencelock.toml:3", "!"]),
        ("\n\nwait = \"5S\"\n", &["fencelock.toml:3", "wait"]),
    ] {
        let bench = Bench::new();
        bench.write("fencelock.toml", text);
        bench.run(["run", "x", "--", "true"]).assert_refused(78, parts);
        bench.run(["ls"]).assert_refused(78, parts);
    }
}

/// Both were read for ever: the pipe until somebody writes, the device until memory is full.
#[test]
fn a_file_without_an_end_exits_78() {
    let bench = Bench::new();
    let file = bench.write("fencelock.toml", "");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    bench.run(["ls"]).assert_refused(78, &["fencelock.toml", "larger than"]);
    fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    bench.run(["ls"]).assert_refused(78, &["fencelock.toml", "pipe"]);
}

/// In a folder that all may write to, somebody else's file would choose our store.
#[test]
fn a_file_of_another_user_exits_78() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a file away");
        return;
    }
    let bench = Bench::new();
    let file = bench.write("fencelock.toml", "store = \"memory:\"\n");
    assert_eq!(bench.run(["ls"]).code, 0);
    std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
    bench.run(["ls"]).assert_refused(78, &["fencelock.toml", "65534"]);
}

#[test]
fn a_wrong_user_file_is_named_with_its_path() {
    let bench = Bench::new();
    fs::create_dir_all(bench.user_file().parent().unwrap()).unwrap();
    fs::write(bench.user_file(), "tll = \"1s\"\n").unwrap();
    let path = format!("{}:1", bench.user_file().display());
    bench.run(["ls"]).assert_refused(78, &[&path, "`ttl`"]);
}

#[test]
fn a_value_that_is_hidden_by_a_flag_is_still_read() {
    let bench = Bench::new();
    let ended = bench.run_with(&[("FENCELOCK_TTL", "5")], &["acquire", "x", "--ttl", "5s"]);
    ended.assert_refused(78, &["FENCELOCK_TTL"]);
}

#[test]
fn a_whole_file_is_taken() {
    let bench = Bench::new();
    bench.write(
        "fencelock.toml",
        "ttl = \"20s\"\nwait = \"1s\"\ngrace = \"100ms\"\non-lost = \"term\"\njson = true\n\
         export-token = true\n[meta]\nteam = \"ops\"\n",
    );
    let ended = bench.run(["acquire", "x", "--meta", "rack=7"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let object = &ended.objects()[0];
    assert_eq!(object["ttl_ms"], 20_000);
    assert_eq!(object["meta"], serde_json::json!({"team": "ops", "rack": "7"}));
}

#[test]
fn without_a_home_there_is_no_default_store() {
    let bench = Bench::new();
    let mut command = bench.command(["run", "x", "--", "true"]);
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let ended = crate::support::finish(&mut fencelock_testkit::Process::spawn(command));
    ended.assert_refused(78, &["HOME", "--store"]);
}

#[test]
fn the_default_store_is_below_the_home_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let bench = Bench::new();
    let mut command = bench.command(["run", "x", "--", "true"]);
    command.env_remove("XDG_STATE_HOME");
    let ended = crate::support::finish(&mut fencelock_testkit::Process::spawn(command));
    assert_eq!(ended.code, 0, "{ended:?}");
    let folder = bench.state().parent().unwrap().join(".local/state/fencelock");
    assert!(folder.join("locks.db").exists());
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_only_the_store_can_find_wrong_is_blamed_on_the_place_it_stands_in() {
    let bench = Bench::new();
    let path = "sqlite:/proc/locks.db";
    let ended = bench.run(["run", "x", "--store", path, "--", "true"]);
    ended.assert_refused(64, &["/proc/locks.db"]);
    let ended = bench.run_with(&[("FENCELOCK_STORE", path)], &["run", "x", "--", "true"]);
    ended.assert_refused(78, &["/proc/locks.db"]);
    let large = format!("k={}", "v".repeat(1024));
    let ended = bench.run_with(&[("FENCELOCK_META", &large)], &["acquire", "x"]);
    ended.assert_refused(78, &["metadata"]);
}

#[test]
fn a_host_without_a_store_refuses_to_lock_only_itself() {
    let bench = Bench::new();
    let ended = bench.run(["run", "x", "--distributed", "--", "true"]);
    ended.assert_refused(64, &["--distributed", "FENCELOCK_STORE"]);
    let variables = [("FENCELOCK_DISTRIBUTED", "1")];
    let ended = bench.run_with(&variables, &["run", "x", "--", "true"]);
    ended.assert_refused(78, &["FENCELOCK_DISTRIBUTED", "FENCELOCK_STORE"]);
    bench.write("fencelock.toml", "distributed = true\n");
    let ended = bench.run(["run", "x", "--", "true"]);
    ended.assert_refused(78, &["fencelock.toml:1", "FENCELOCK_STORE"]);
    let ended = bench.run(["run", "x", "--store", "sqlite:x.db", "--", "true"]);
    ended.assert_refused(64, &["--store", "fencelock.toml:1"]);
    let off = bench.run_with(&[("FENCELOCK_DISTRIBUTED", "0")], &["run", "x", "--", "true"]);
    assert_eq!(off.code, 0, "{off:?}");
}
