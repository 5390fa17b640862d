//! A password never shows: not in a message, not in the command's environment, not in its `ps` line.

use fencelock_testkit::RedisServer;

use crate::support::Bench;

const SECRET: &str = "s3cret-pass";

fn server() -> RedisServer {
    RedisServer::builder().password(SECRET).start()
}

#[test]
fn the_command_sees_the_store_without_its_password() {
    let server = server();
    let script = "env; cat /proc/$$/cmdline | tr '\\0' ' '; cat /proc/$PPID/environ | tr '\\0' '\\n' > outer";
    for (url, shown) in [
        (format!("redis://:{SECRET}@{}/0", server.addr()), format!("redis://{}/0", server.addr())),
        (server.url_as("default", SECRET), format!("redis://default@{}", server.addr())),
    ] {
        let bench = Bench::new();
        let words = ["run", "job", "-v", "--store", &url, "--", "sh", "-c", script];
        let ended = bench.run(words);
        assert_eq!(ended.code, 0, "{ended:?}");
        let store = ended.stdout.lines().find_map(|line| line.strip_prefix("FENCELOCK_STORE="));
        assert!(store.unwrap().starts_with(&shown), "{store:?}");
        assert!(!ended.stdout.contains(SECRET) && !ended.stderr.contains(SECRET), "{ended:?}");
        assert!(ended.stderr.contains("took lock"), "{ended:?}");
    }
}

#[test]
fn a_variable_with_a_password_is_not_inherited() {
    let server = server();
    let bench = Bench::new().set("FENCELOCK_STORE", &server.url_as("default", SECRET));
    let ended = bench.run(["run", "job", "--", "env"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!ended.stdout.contains(SECRET), "{ended:?}");
}

#[test]
fn a_password_file_works_also_for_a_nested_call() {
    let server = server();
    let bench = Bench::new().set("FENCELOCK_STORE", &format!("redis://{}/0", server.addr()));
    let file = bench.write("password", &format!("{SECRET}\n"));
    let file = file.to_str().unwrap();
    assert_eq!(bench.run(["run", "job", "--", "true"]).code, 77);
    let ended = bench.run(["run", "job", "--store-password-file", file, "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let bench = bench.set("FENCELOCK_STORE_PASSWORD_FILE", file);
    let nested = format!("{} run job -n -- true", env!("CARGO_BIN_EXE_fencelock"));
    let ended = bench.run(["run", "job", "--", "sh", "-c", &nested]);
    assert_eq!(ended.code, 75, "the nested call is let in and finds it busy: {ended:?}");
}

#[test]
fn blank_lines_in_a_password_file_do_not_count() {
    let server = server();
    let url = format!("redis://{}/0", server.addr());
    let bench = Bench::new().set("FENCELOCK_STORE", &url);
    for text in ["PASS", "PASS\n\n\n", "PASS\r\n", "\n\nPASS\n"] {
        bench.write("password", &text.replace("PASS", SECRET));
        let words = ["run", "job", "--store-password-file", "password", "--", "true"];
        assert_eq!(bench.run(words).code, 0, "{text:?}");
    }
}

#[test]
fn a_password_file_that_can_not_be_used_exits_78() {
    let bench = Bench::new();
    bench.write("empty", "\n \n\n");
    for file in ["nothing", "empty", "."] {
        let words =
            ["run", "x", "--store", "redis://h", "--store-password-file", file, "--", "true"];
        bench.run(words).assert_refused(78, &["--store-password-file", file]);
    }
    let words = ["run", "x", "--store-password-file", "empty", "--", "true"];
    bench.run(words).assert_refused(64, &["--store-password-file"]);
}

#[test]
fn no_message_about_a_broken_url_repeats_its_password() {
    let bench = Bench::new();
    for url in [
        format!("redis://:{SECRET}@h:port/0"),
        format!("redis://me:{SECRET}@h/no-number"),
        format!("redis://me:{SECRET}/x@h/0"),
        format!("rediss://me:{SECRET}@h/0?cert=/c"),
        format!("reddis://me:{SECRET}@h/0"),
        format!("redis+unix:///s?pass={SECRET}&dbb=1"),
        format!("redis+unix://h/s?pass={SECRET}"),
        format!("redis://a:{SECRET}@h redis://b:{SECRET}@h/x"),
    ] {
        for ended in [
            bench.run(["run", "x", "--store", &url, "--", "true"]),
            bench.run(["run", "x", "--stroe", &url, "--", "true"]),
            bench.run(["ls", "x", &url]),
            bench.run(["acquire", "x", "--store", &url, "--distributed", "--dialect", "plane"]),
            bench.run_with(&[("FENCELOCK_STORE", &url)], &["run", "x", "--", "true"]),
        ] {
            assert!(ended.code == 64 || ended.code == 78, "{ended:?}");
            assert!(!ended.stderr.contains(SECRET), "{ended:?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        }
    }
}

#[test]
fn a_wrong_password_is_not_repeated_either() {
    let server = server();
    for url in
        [server.url_as("default", "wr0ng-pass"), format!("redis://:wr0ng-pass@{}", server.addr())]
    {
        let ended = Bench::new().run(["acquire", "x", "--store", &url]);
        assert_eq!(ended.code, 77, "{ended:?}");
        assert!(!ended.stderr.contains("wr0ng-pass"), "{ended:?}");
    }
}
