//! The movable clock, proved on a real server.

use std::time::Duration;

use fencelock_testkit::{Persistence, RedisServer};
use redis::Commands;

/// The slack for the real time that passes during a test on a starved machine.
const SLACK: Duration = Duration::from_secs(30);

fn server_time(server: &RedisServer) -> Duration {
    let (seconds, micros): (u64, u64) =
        redis::cmd("TIME").query(&mut server.connect()).expect("TIME");
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[test]
fn a_key_is_gone_after_the_clock_has_passed_its_expiry() {
    let server = RedisServer::builder().clock().start();
    server.cli(&["SET", "short", "v", "PX", "10000"]);
    server.cli(&["SET", "long", "v", "PX", "100000"]);
    server.clock().advance(Duration::from_secs(11));
    let mut connection = server.connect();
    assert_eq!(connection.get::<_, Option<String>>("short").expect("get"), None);
    let left: u64 = connection.pttl("long").expect("pttl");
    assert!(left <= 89_000, "{left} ms left");
    assert!(left > 89_000 - 30_000, "{left} ms left");
}

#[test]
fn the_clock_moves_both_ways_and_time_shows_it() {
    let server = RedisServer::builder().clock().start();
    let before = server_time(&server);
    server.clock().advance(Duration::from_millis(3_600_900));
    let ahead = server_time(&server);
    assert!(ahead >= before + Duration::from_millis(3_600_900), "{before:?} {ahead:?}");
    assert!(ahead < before + Duration::from_millis(3_600_900) + SLACK, "{before:?} {ahead:?}");
    server.clock().step_back(Duration::from_millis(7_201_800));
    let behind = server_time(&server);
    assert!(behind < before, "{before:?} {behind:?}");
    assert!(behind >= before - Duration::from_millis(3_600_900), "{before:?} {behind:?}");
}

#[test]
fn a_step_back_prolongs_what_is_held() {
    let server = RedisServer::builder().clock().start();
    server.cli(&["SET", "k", "v", "PX", "10000"]);
    server.clock().step_back(Duration::from_secs(100));
    assert!(server.connect().pttl::<_, i64>("k").expect("pttl") > 60_000);
}

#[test]
fn the_offset_survives_a_restart() {
    let server = RedisServer::builder().clock().persistence(Persistence::Aof).start();
    server.clock().advance(Duration::from_secs(86_400));
    let before = server_time(&server);
    server.kill();
    server.restart();
    assert!(server_time(&server) >= before);
}
