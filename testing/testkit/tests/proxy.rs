//! Each fault of the proxy, proved between a real client and a real server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fencelock_testkit::{Proxy, RedisServer, eventually};
use redis::{Commands, Connection};

/// Long enough for an answer that comes, short enough to wait for one that does not.
const SILENCE: Duration = Duration::from_millis(60);
const SOON: Duration = Duration::from_secs(10);

fn bench() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    (server, proxy)
}

fn client(proxy: &Proxy) -> Connection {
    let connection = try_client(proxy).expect("connects through the proxy");
    connection.set_read_timeout(Some(SOON)).expect("set");
    connection
}

fn try_client(proxy: &Proxy) -> redis::RedisResult<Connection> {
    redis::Client::open(proxy.url())?.get_connection_with_timeout(SOON)
}

fn incr(connection: &mut Connection, key: &str) -> redis::RedisResult<i64> {
    connection.incr(key, 1)
}

/// The value as the server has it, asked past the proxy.
fn value(server: &RedisServer, key: &str) -> Option<i64> {
    server.connect().get(key).expect("the server answers")
}

/// A client without a library, for pipelines and half-dead connections.
struct Raw(TcpStream);

impl Raw {
    fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.addr()).expect("connects");
        stream.set_read_timeout(Some(SOON)).expect("set");
        Self(stream)
    }

    fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("sent");
    }

    fn expect(&mut self, text: &str) {
        let mut got = vec![0; text.len()];
        self.0.read_exact(&mut got).expect("answered");
        assert_eq!(String::from_utf8_lossy(&got), text);
    }

    fn expect_silence(&mut self) {
        self.0.set_read_timeout(Some(SILENCE)).expect("set");
        let error = self.0.read(&mut [0; 64]).expect_err("nothing comes");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.0.set_read_timeout(Some(SOON)).expect("set");
    }

    fn expect_end(&mut self) {
        match self.0.read(&mut [0; 64]) {
            Ok(0) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("not the end: {other:?}"),
        }
    }
}

#[test]
fn without_faults_it_is_transparent_and_counts() {
    let (server, proxy) = bench();
    let mut connection = client(&proxy);
    for n in 1..=5 {
        assert_eq!(incr(&mut connection, "k").expect("answered"), n);
    }
    assert_eq!(value(&server, "k"), Some(5));
    assert_eq!((proxy.requests(), proxy.connections(), proxy.live_connections()), (5, 1, 1));
    drop(connection);
    eventually(SOON, "the connection is gone", || proxy.live_connections() == 0);
}

#[test]
fn the_url_carries_the_password_of_the_server() {
    let server = RedisServer::builder().password("hunter2").start();
    let proxy = Proxy::before(&server);
    assert_eq!(incr(&mut client(&proxy), "k").expect("answered"), 1);
}

#[test]
fn a_large_value_passes_in_both_directions() {
    let (_server, proxy) = bench();
    let mut connection = client(&proxy);
    let large: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let _: () = connection.set("k", &large).expect("set");
    assert_eq!(connection.get::<_, Vec<u8>>("k").expect("get"), large);
}

#[test]
fn both_directions_can_be_delayed_and_pipelined_requests_overlap() {
    let (_server, proxy) = bench();
    let mut connection = client(&proxy);
    proxy.delay_requests(Duration::from_millis(40));
    proxy.delay_replies(Duration::from_millis(30));
    let start = Instant::now();
    incr(&mut connection, "k").expect("answered");
    assert!(start.elapsed() >= Duration::from_millis(70));
    proxy.delay_requests(Duration::from_secs(3600));
    let mut pipeline = redis::pipe();
    pipeline.incr("k", 1).incr("k", 1);
    let waiting = std::thread::spawn(move || {
        let answers: Vec<i64> = pipeline.query(&mut connection).expect("answered");
        answers
    });
    proxy.wait_for_requests(3);
    // Shortening a delay takes effect on what is under way.
    proxy.heal();
    assert_eq!(waiting.join().expect("no panic"), [2, 3]);
}

#[test]
fn a_black_hole_accepts_and_swallows_and_its_victims_are_closed_when_it_ends() {
    let (server, proxy) = bench();
    let mut old = client(&proxy);
    old.set_read_timeout(Some(SILENCE)).expect("set");
    proxy.blackhole();
    assert!(incr(&mut old, "k").expect_err("no answer").is_timeout());
    let mut new = Raw::connect(&proxy);
    new.send("INCR k\r\n");
    new.expect_silence();
    assert_eq!(value(&server, "k"), None);
    assert_eq!((proxy.requests(), proxy.connections()), (2, 2));
    proxy.heal();
    new.expect_end();
    assert!(incr(&mut old, "k").is_err());
    assert_eq!(incr(&mut client(&proxy), "k").expect("answered"), 1);
}

#[test]
fn dropped_replies_belong_to_requests_that_were_executed() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    raw.send("INCR k\r\n");
    raw.expect(":1\r\n");
    proxy.drop_replies();
    raw.send("INCR k\r\n");
    raw.expect_silence();
    eventually(SOON, "the server has executed it", || value(&server, "k") == Some(2));
    proxy.heal();
    raw.expect_end();
}

#[test]
fn a_dead_server_is_not_noticed_behind_dropped_replies() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING\r\n");
    raw.expect("+PONG\r\n");
    proxy.drop_replies();
    server.kill();
    raw.expect_silence();
    proxy.heal();
    proxy.cut();
    raw.expect_end();
}

#[test]
fn a_dead_server_is_noticed_through_a_healthy_proxy() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING\r\n");
    raw.expect("+PONG\r\n");
    server.kill();
    raw.expect_end();
    assert!(try_client(&proxy).is_err());
    server.restart();
    assert_eq!(incr(&mut client(&proxy), "k").expect("answered"), 1);
}

#[test]
fn a_cut_closes_what_is_open_and_welcomes_what_comes() {
    let (_server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING\r\n");
    raw.expect("+PONG\r\n");
    proxy.cut();
    raw.expect_end();
    assert_eq!(proxy.live_connections(), 0);
    assert_eq!(incr(&mut client(&proxy), "k").expect("answered"), 1);
}

#[test]
fn refused_connections_leave_the_open_ones_alone() {
    let (_server, proxy) = bench();
    let mut open = client(&proxy);
    assert_eq!(incr(&mut open, "k").expect("answered"), 1);
    for n in 0..10 {
        proxy.refuse();
        let error = TcpStream::connect(proxy.addr()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(incr(&mut open, "k").expect("answered"), 2 + 2 * n);
        proxy.accept();
        assert_eq!(incr(&mut client(&proxy), "k").expect("answered"), 3 + 2 * n);
    }
}

#[test]
fn a_cut_after_the_second_request_lets_two_be_executed_and_no_third() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING\r\n");
    raw.expect("+PONG\r\n");
    proxy.cut_after_requests(2);
    // In one packet: requests are counted, not packets.
    raw.send("INCR k\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\nINCR k\r\n");
    raw.expect(":1\r\n");
    raw.expect_end();
    // The server has executed both, and no third, by the time the end is seen.
    assert_eq!(value(&server, "k"), Some(2));
    assert_eq!(incr(&mut client(&proxy), "k").expect("answered"), 3);
}

#[test]
fn a_counting_fault_passes_over_the_set_up_of_connections() {
    let server = RedisServer::builder().password("hunter2").start();
    let proxy = Proxy::before(&server);
    proxy.cut_after_requests(1);
    let mut connection = client(&proxy);
    assert!(incr(&mut connection, "k").is_err());
    assert_eq!(value(&server, "k"), Some(1));
}

#[test]
fn an_aimed_fault_hits_only_the_named_command() {
    let (server, proxy) = bench();
    proxy.aim(&["incr"]);
    proxy.swallow_next_replies(1);
    let mut raw = Raw::connect(&proxy);
    raw.send("SET k 7\r\n");
    raw.expect("+OK\r\n");
    raw.send("INCR k\r\n");
    raw.expect_silence();
    assert_eq!(value(&server, "k"), Some(8));
    assert_eq!(proxy.requests(), 1);
}

#[test]
fn a_swallowed_reply_silences_its_connection_but_not_the_next() {
    let (server, proxy) = bench();
    let mut hit = Raw::connect(&proxy);
    hit.send("PING\r\n");
    hit.expect("+PONG\r\n");
    proxy.swallow_next_replies(1);
    hit.send("INCR k\r\n");
    hit.expect_silence();
    // The reply of the second must not be taken for that of the first.
    hit.send("INCR k\r\n");
    hit.expect_silence();
    assert_eq!(value(&server, "k"), Some(2));
    let mut next = Raw::connect(&proxy);
    next.send("INCR k\r\n");
    next.expect(":3\r\n");
    proxy.heal();
    hit.expect_end();
    next.send("INCR k\r\n");
    next.expect(":4\r\n");
}

#[test]
fn a_held_request_is_overtaken_and_executed_after_its_client_has_left() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    proxy.hold_requests();
    // The set-up of a connection is not held.
    raw.send("SELECT 0\r\n");
    raw.expect("+OK\r\n");
    raw.send("SET k late\r\n");
    proxy.wait_for_held_requests(1);
    drop(raw);
    server.cli(&["SET", "k", "early"]);
    let now = |server: &RedisServer| server.connect().get::<_, String>("k").expect("answered");
    assert_eq!(now(&server), "early");
    proxy.release_requests();
    eventually(SOON, "the late request is executed", || now(&server) == "late");
    eventually(SOON, "nothing stays open", || proxy.live_connections() == 0);
    assert_eq!(proxy.held_requests(), 0);
}

#[test]
fn held_requests_keep_their_order() {
    let (_server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    proxy.hold_requests();
    raw.send("INCRBY k 2\r\nGET k\r\nDEL k\r\nGET k\r\n");
    proxy.wait_for_held_requests(1);
    raw.expect_silence();
    proxy.release_requests();
    raw.expect(":2\r\n$1\r\n2\r\n:1\r\n$-1\r\n");
}

#[test]
fn a_held_reply_belongs_to_a_request_that_was_executed() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    proxy.hold_replies();
    raw.send("INCR k\r\n");
    proxy.wait_for_held_replies(1);
    assert_eq!(value(&server, "k"), Some(1));
    raw.expect_silence();
    proxy.release_replies();
    raw.expect(":1\r\n");
}

#[test]
fn a_cut_frees_what_is_held_and_forwards_none_of_it() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    proxy.hold_requests();
    raw.send("INCR k\r\n");
    proxy.wait_for_held_requests(1);
    proxy.cut();
    raw.expect_end();
    eventually(SOON, "nothing is held", || proxy.held_requests() == 0);
    proxy.release_requests();
    assert_eq!(value(&server, "k"), None);
}

#[test]
fn a_doubled_request_is_executed_twice_and_answered_once() {
    let (server, proxy) = bench();
    let mut raw = Raw::connect(&proxy);
    raw.send("PING\r\n");
    raw.expect("+PONG\r\n");
    proxy.double_next_request();
    raw.send("SET k v NX\r\nPING\r\n");
    // The second SET is the one that is answered: it lost against the first.
    raw.expect("$-1\r\n+PONG\r\n");
    proxy.double_next_request();
    raw.send("INCR n\r\nINCR n\r\n");
    raw.expect(":2\r\n:3\r\n");
    assert_eq!(value(&server, "n"), Some(3));
}

#[test]
fn pushes_and_messages_do_not_count_as_replies() {
    let (server, proxy) = bench();
    let publish = || server.cli(&["PUBLISH", "c", "m"]);
    // RESP3: confirmations and messages are pushes among the replies.
    let mut raw = Raw::connect(&proxy);
    raw.send("HELLO 3\r\nSUBSCRIBE c\r\nINCR k\r\n");
    let mut greeting = Vec::new();
    while !greeting.ends_with(b":1\r\n") || !greeting.windows(9).any(|w| w == b"subscribe") {
        let mut byte = [0];
        raw.0.read_exact(&mut byte).expect("answered");
        greeting.push(byte[0]);
    }
    // That was the confirmation (its count is 1 too); the reply follows.
    raw.expect(":1\r\n");
    proxy.double_next_request();
    publish();
    raw.expect(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    raw.send("INCR k\r\n");
    raw.expect(":3\r\n");
    // A push that comes while a reply is awaited is not taken for it.
    proxy.swallow_next_replies(1);
    raw.send("BLPOP list 0\r\n");
    eventually(SOON, "the pop blocks", || {
        let info: String =
            redis::cmd("INFO").arg("clients").query(&mut server.connect()).expect("answered");
        info.contains("blocked_clients:1")
    });
    publish();
    raw.expect(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    server.cli(&["LPUSH", "list", "v"]);
    raw.expect_silence();
    // RESP2: confirmations and messages are arrays.
    let mut old = Raw::connect(&proxy);
    old.send("SUBSCRIBE c d\r\n");
    old.expect(
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n",
    );
    publish();
    old.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    proxy.swallow_next_replies(1);
    publish();
    old.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    old.send("PING\r\n");
    old.expect_silence();
}
