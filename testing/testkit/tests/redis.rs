//! The server launcher, proved on real servers.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fencelock_testkit::process::{Process, Signal};
use fencelock_testkit::{Persistence, RedisServer, eventually, process_exists};
use redis::{Commands, Value};

const SOON: Duration = Duration::from_secs(20);

fn ok() -> Value {
    Value::Okay
}

#[test]
fn a_started_server_answers_on_its_port_and_on_its_socket() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["SET", "k", "v"]), ok());
    for url in [server.url(), server.unix_url()] {
        let client = redis::Client::open(url.as_str()).expect("a URL");
        let value: String = client.get_connection().expect("connects").get("k").expect("answers");
        assert_eq!(value, "v", "{url}");
    }
    let other = redis::Client::open(server.url_with_db(3)).expect("a URL");
    let value: Option<String> = other.get_connection().expect("connects").get("k").expect("ok");
    assert_eq!(value, None);
}

#[test]
fn a_dropped_server_leaves_no_process_and_no_directory() {
    let server = RedisServer::start();
    let (pid, directory) = (server.pid(), server.directory().to_owned());
    assert!(process_exists(pid));
    assert!(directory.is_dir());
    drop(server);
    assert!(!process_exists(pid));
    assert!(!directory.exists());
}

#[test]
fn many_servers_started_at_once_are_all_their_own() {
    let threads: Vec<_> = (0..8)
        .map(|n| {
            std::thread::spawn(move || {
                let server = RedisServer::start();
                server.cli(&["SET", "me", &n.to_string()]);
                server
            })
        })
        .collect();
    let servers: Vec<_> = threads.into_iter().map(|t| t.join().expect("starts")).collect();
    for (n, server) in servers.iter().enumerate() {
        // The threads that started them have ended; the servers have not.
        let me: String = server.connect().get("me").expect("answers");
        assert_eq!(me, n.to_string());
    }
}

#[test]
fn a_killed_server_comes_back_on_the_same_port_without_its_data() {
    let server = RedisServer::start();
    let (port, pid) = (server.port(), server.pid());
    server.cli(&["SET", "k", "v"]);
    server.kill();
    assert!(!process_exists(pid));
    assert!(server.try_cli(&["PING"]).is_err());
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.cli(&["GET", "k"]), Value::Nil);
}

#[test]
fn an_append_only_file_survives_a_kill() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    server.cli(&["SET", "k", "v"]);
    server.kill();
    server.restart();
    assert_eq!(server.connect().get::<_, String>("k").expect("answers"), "v");
}

#[test]
fn a_snapshot_survives_a_clean_stop_but_not_a_kill() {
    let server = RedisServer::builder().persistence(Persistence::Rdb).start();
    server.cli(&["SET", "k", "old"]);
    server.restart();
    assert_eq!(server.connect().get::<_, String>("k").expect("answers"), "old");
    server.cli(&["SET", "k", "new"]);
    server.kill();
    server.restart();
    assert_eq!(server.connect().get::<_, String>("k").expect("answers"), "old");
}

#[test]
fn a_frozen_server_answers_only_after_it_is_thawed() {
    let server = RedisServer::start();
    let mut connection = server.connect();
    server.stop_signal();
    connection.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    assert!(redis::cmd("PING").query::<String>(&mut connection).is_err());
    server.cont();
    assert_eq!(server.cli(&["PING"]), Value::SimpleString("PONG".to_owned()));
}

#[test]
fn passwords_and_users_are_enforced() {
    let server = RedisServer::builder()
        .password("hunter2")
        .acl_user("weak", "on >weak ~weak:* +get")
        .config("maxmemory", "50mb")
        .start();
    let get = |url: String, key: &str| {
        let client = redis::Client::open(url).expect("a URL");
        client.get_connection().and_then(|mut c| c.get::<_, Option<String>>(key))
    };
    assert!(get(server.url(), "k").is_ok());
    assert!(get(server.unix_url(), "k").is_ok());
    assert!(get(format!("redis://{}/", server.addr()), "k").is_err());
    assert!(get(server.url_as("weak", "weak"), "weak:k").is_ok());
    assert!(get(server.url_as("weak", "weak"), "k").is_err());
    let configured: (String, String) =
        redis::cmd("CONFIG").arg("GET").arg("maxmemory").query(&mut server.connect()).expect("ok");
    assert_eq!(configured.1, (50 * 1024 * 1024).to_string());
}

#[test]
fn a_fixed_port_is_taken_by_one_server_only() {
    let server = RedisServer::start();
    let port = server.port();
    let second = std::panic::catch_unwind(|| RedisServer::builder().port(port).start());
    assert!(second.is_err());
    drop(server);
    assert_eq!(RedisServer::builder().port(port).start().port(), port);
}

#[test]
fn a_wrong_setting_is_reported_and_not_retried() {
    let started = std::panic::catch_unwind(|| {
        RedisServer::builder().config("maxmemory-policy", "no-such-policy").start()
    });
    let message = *started.expect_err("refused").downcast::<String>().expect("a text");
    assert!(message.contains("did not start"), "{message}");
}

#[test]
fn the_monitor_shows_each_command_of_clients_and_scripts_in_order() {
    let server = RedisServer::start();
    let mut connection = server.connect();
    let monitor = server.monitor();
    let _: () = connection.set("k", b"a \"b\"\0\xff\r\n").expect("set");
    let script = "return redis.call('get', KEYS[1])";
    let _: Value =
        redis::cmd("EVAL").arg(script).arg(1).arg("k").query(&mut connection).expect("eval");
    let seen = monitor.take();
    assert_eq!(seen.iter().map(|s| s.name()).collect::<Vec<_>>(), ["SET", "EVAL", "GET"]);
    assert_eq!(seen[0].args[2], b"a \"b\"\0\xff\r\n");
    assert_eq!(seen.iter().map(|s| s.is_from_script()).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(monitor.take(), []);
    let _: () = connection.set("k", 1).expect("set");
    assert_eq!(monitor.take()[0].text(), ["SET", "k", "1"]);
}

/// Not a test of its own: the body of the process that the next test kills.
#[test]
#[ignore = "run by a_server_dies_with_a_killed_test_process"]
fn start_a_server_and_hang() {
    let Some(path) = std::env::var_os("TESTKIT_HANG_PID_FILE").map(PathBuf::from) else { return };
    let server = RedisServer::start();
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{} {}", server.pid(), server.directory().display()))
        .expect("written");
    std::fs::rename(partial, path).expect("renamed");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_server_dies_with_a_killed_test_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pid");
    let mut command = Command::new(std::env::current_exe().expect("this test binary"));
    command.args(["--ignored", "--exact", "start_a_server_and_hang"]);
    command.env("TESTKIT_HANG_PID_FILE", &file);
    let mut test = Process::spawn(command);
    eventually(SOON, "the inner test has a server", || file.exists());
    let text = std::fs::read_to_string(&file).expect("read");
    let (pid, left_behind) = text.split_once(' ').expect("two words");
    let pid = pid.parse().expect("a pid");
    assert!(process_exists(pid));
    test.signal(Signal::KILL);
    eventually(SOON, "the server is gone", || !process_exists(pid));
    // A killed process cannot clean up; its directory is the one thing that stays.
    std::fs::remove_dir_all(left_behind).expect("removed");
}
