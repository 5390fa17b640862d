//! The stand-in server, proved with a real client.

use std::sync::atomic::{AtomicU32, Ordering};

use fencelock_testkit::{FakeServer, RedisServer, Reply};
use redis::{Connection, ErrorKind, RedisResult, ServerErrorKind, Value};

fn client(url: &str) -> RedisResult<Connection> {
    redis::Client::open(url)?.get_connection()
}

#[test]
fn a_script_can_be_missing_for_ever() {
    let script = redis::Script::new("return 1");
    let hash = script.get_hash().to_owned();
    let fake = FakeServer::start(move |args| match args[0].to_ascii_uppercase().as_slice() {
        b"EVALSHA" => Reply::error("NOSCRIPT No matching script."),
        b"SCRIPT" => Reply::bulk(&hash),
        _ => Reply::Usual,
    });
    let mut connection = client(&fake.url()).expect("connects");
    for _ in 0..3 {
        let error = script.invoke::<i64>(&mut connection).expect_err("still missing");
        assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript));
    }
    let names: Vec<String> =
        fake.take_requests().iter().map(|args| String::from_utf8_lossy(&args[0]).into()).collect();
    assert!(names.iter().filter(|name| *name == "EVALSHA").count() >= 6, "{names:?}");
}

#[test]
fn loading_can_last_for_exactly_two_requests() {
    let asked = AtomicU32::new(0);
    let fake = FakeServer::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Reply::error("LOADING Redis is loading the dataset in memory"),
        _ => Reply::Usual,
    });
    let mut connection = client(&fake.url()).expect("connects");
    let mut ping = || redis::cmd("PING").query::<String>(&mut connection);
    assert!(ping().is_err());
    assert!(ping().is_err());
    assert_eq!(ping().expect("loaded"), "PONG");
}

#[test]
fn each_kind_of_reply_arrives_in_both_protocols() {
    let fake = FakeServer::start(|_| {
        Reply::Array(vec![
            Reply::bulk("b\r\n"),
            Reply::Int(-7),
            Reply::Null,
            Reply::Bool(true),
            Reply::Double(1.5),
            Reply::simple("s"),
            Reply::Map(vec![(Reply::simple("k"), Reply::Int(1))]),
        ])
    });
    let common = [Value::BulkString(b"b\r\n".to_vec()), Value::Int(-7), Value::Nil];
    let status = Value::SimpleString("s".to_owned());
    let key = Value::SimpleString("k".to_owned());
    let resp2 = [
        Value::Int(1),
        Value::BulkString(b"1.5".to_vec()),
        status.clone(),
        Value::Array(vec![key.clone(), Value::Int(1)]),
    ];
    let resp3 =
        [Value::Boolean(true), Value::Double(1.5), status, Value::Map(vec![(key, Value::Int(1))])];
    for (suffix, own) in [("", resp2), ("?protocol=resp3", resp3)] {
        let mut connection = client(&format!("{}{suffix}", fake.url())).expect("connects");
        let value: Value = redis::cmd("X").query(&mut connection).expect("answered");
        assert_eq!(value, Value::Array([&common[..], &own[..]].concat()), "{suffix}");
    }
}

#[test]
fn a_connection_can_be_closed_or_its_set_up_refused() {
    let fake = FakeServer::start(|_| Reply::Close);
    let mut connection = client(&fake.url()).expect("connects");
    assert!(redis::cmd("GET").arg("k").query::<Value>(&mut connection).is_err());
    assert!(client(&fake.url()).is_ok());
    let old = FakeServer::start_unassisted(|args| match args[0].to_ascii_uppercase().as_slice() {
        b"HELLO" => Reply::error("ERR unknown command 'HELLO'"),
        _ => Reply::Usual,
    });
    assert!(client(&format!("{}?protocol=resp3", old.url())).is_err());
    assert!(client(&old.url()).is_ok());
}

#[test]
fn its_greeting_has_the_fields_of_a_real_one() {
    let real = RedisServer::start();
    let fake = FakeServer::start(|_| Reply::Usual);
    let fields = |url: String| -> Vec<Value> {
        let mut connection = client(&url).expect("connects");
        let greeting: Value = redis::cmd("HELLO").arg(3).query(&mut connection).expect("answered");
        greeting.into_map_iter().expect("a map").map(|(key, _)| key).collect()
    };
    assert_eq!(fields(fake.url()), fields(real.url()));
}
