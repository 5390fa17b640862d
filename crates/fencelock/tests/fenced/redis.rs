//! The scripts on a real server: the rule, what they refuse, and how long they keep a token.

use std::time::Duration;

use fencelock::{
    FencingToken,
    fenced::redis::{Keep, NOTHING, READ, REMOVE, WRITE, arguments, checked, fields},
    fenced::{Checked, digits},
};
use fencelock_testkit::RedisServer;
use redis::{Connection, RedisResult, Script};

use crate::token;

const KEY: &str = "guarded";
const MINUTE: Keep = Keep::AtLeast(Duration::from_secs(60));

/// A connection to a server, and the calls.
struct Value(Connection);

impl Value {
    fn on(server: &RedisServer) -> Self {
        Self(server.connect())
    }

    fn call(
        &mut self,
        script: &str,
        token: FencingToken,
        keep: Keep,
        extra: &[&str],
    ) -> RedisResult<Vec<Vec<u8>>> {
        Script::new(script).key(KEY).arg(arguments(token, keep, extra)).invoke(&mut self.0)
    }

    fn write(&mut self, token: FencingToken, state: &str) -> Checked {
        self.write_kept(token, Keep::Forever, state)
    }

    fn write_kept(&mut self, token: FencingToken, keep: Keep, state: &str) -> Checked {
        let reply = self.call(WRITE, token, keep, &["state", state]).unwrap();
        checked(token, &reply).unwrap()
    }

    /// The fields as `name=value`, sorted.
    fn read(&mut self, token: FencingToken) -> Checked<Vec<String>> {
        let reply = self.call(READ, token, Keep::Forever, &NOTHING).unwrap();
        let found = match fields(token, &reply).unwrap() {
            Checked::Stale { highest } => return Checked::Stale { highest },
            Checked::Accepted(found) => found,
        };
        let shown = |field: &fencelock::fenced::redis::Field| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{}={}", text(&field.name), text(&field.value))
        };
        let mut found: Vec<String> = found.iter().map(shown).collect();
        found.sort();
        Checked::Accepted(found)
    }

    fn error(&mut self, script: &str, argv: &[&str]) -> String {
        let result: RedisResult<Vec<Vec<u8>>> =
            Script::new(script).key(KEY).arg(argv).invoke(&mut self.0);
        result.expect_err("it is refused").to_string()
    }

    fn command<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut self.0).unwrap()
    }

    /// The time of the server, as the token of a grant that is made now.
    fn now(&mut self) -> FencingToken {
        let (seconds, micros): (u64, u64) = self.command(&["TIME"]);
        token(seconds * 1_000_000 + micros)
    }
}

#[test]
fn a_smaller_token_changes_nothing() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    assert_eq!(value.write(token(33), "first"), Checked::Accepted(()));
    assert_eq!(value.write(token(33), "again"), Checked::Accepted(()));
    // 34 is seen by a read already, which writes nothing else.
    assert_eq!(value.read(token(34)), Checked::Accepted(vec!["state=again".to_owned()]));
    let stale = Checked::Stale { highest: token(34) };
    assert_eq!(value.write(token(33), "late"), stale);
    assert_eq!(
        checked(token(33), &value.call(REMOVE, token(33), Keep::Forever, &[]).unwrap()),
        Ok(stale)
    );
    assert_eq!(value.read(token(33)), Checked::Stale { highest: token(34) });
    assert_eq!(value.read(token(34)), Checked::Accepted(vec!["state=again".to_owned()]));
}

#[test]
fn tokens_of_all_sizes_are_compared_whole() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    // As floats of Lua with 14 digits these would be the same; as text without zeros 9 is above 10.
    let ascending = [9, 10, 1_764_542_000_123_456, 1_764_542_000_123_457];
    for number in ascending {
        assert_eq!(value.write(token(number), "x"), Checked::Accepted(()));
    }
    let last = FencingToken::MAX;
    let before = token(last.as_u64() - 1);
    assert_eq!(value.write(last, "x"), Checked::Accepted(()));
    for late in [before, token(1)] {
        assert_eq!(value.write(late, "y"), Checked::Stale { highest: last });
    }
    assert_eq!(value.command::<String>(&["HGET", KEY, "fencing_token"]), digits(last));
}

#[test]
fn removing_keeps_the_token() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    let reply =
        value.call(WRITE, token(34), Keep::Forever, &["a", "1", "b", "2", "c", ""]).unwrap();
    assert_eq!(checked(token(34), &reply), Ok(Checked::Accepted(())));
    value.call(REMOVE, token(34), Keep::Forever, &["a", "missing"]).unwrap();
    assert_eq!(value.read(token(34)), Checked::Accepted(vec!["b=2".to_owned(), "c=".to_owned()]));
    value.call(REMOVE, token(35), Keep::Forever, &NOTHING).unwrap();
    assert_eq!(value.read(token(35)), Checked::Accepted(vec![]));
    assert_eq!(value.write(token(34), "late"), Checked::Stale { highest: token(35) });
}

#[test]
fn many_fields_at_once_are_written_read_and_removed() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    let words: Vec<String> = (0..5000).flat_map(|n| [format!("f{n}"), format!("v{n}")]).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    value.call(WRITE, token(1), Keep::Forever, &words).unwrap();
    assert_eq!(value.command::<u64>(&["HLEN", KEY]), 5001);
    assert_eq!(value.read(token(1)).accepted().unwrap().len(), 5000);
    value.call(REMOVE, token(1), Keep::Forever, &NOTHING).unwrap();
    assert_eq!(value.command::<u64>(&["HLEN", KEY]), 1);
}

#[test]
fn what_is_not_a_fenced_hash_is_left_alone() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    let good = digits(token(34));
    value.command::<()>(&["SET", KEY, "somebody's"]);
    for script in [WRITE, READ, REMOVE] {
        assert!(value.error(script, &[&good, "0000000000"]).contains("the key is a string"));
    }
    assert_eq!(value.command::<String>(&["GET", KEY]), "somebody's");

    for stored in [
        "34",
        "1.7645420001235e+15",
        "9007199254740992",
        "0000000000000000",
        "",
        "00000000000000034",
    ] {
        value.command::<()>(&["DEL", KEY]);
        value.command::<()>(&["HSET", KEY, "fencing_token", stored]);
        for script in [WRITE, READ, REMOVE] {
            let error = value.error(script, &[&good, "0000000000"]);
            assert!(error.contains("not written by these scripts"), "{stored}: {error}");
        }
        assert_eq!(value.command::<String>(&["HGET", KEY, "fencing_token"]), stored);
    }
}

#[test]
fn a_call_that_is_malformed_changes_nothing() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    let good = digits(token(34));
    for offered in
        ["34", "", "0000000000000000", "9007199254740992", "1.7645420001e+15", "-000000000000034"]
    {
        for script in [WRITE, READ, REMOVE] {
            let error = value.error(script, &[offered, "0000000000"]);
            assert!(error.contains("the offered fencing token"), "{offered}: {error}");
        }
    }
    assert!(value.error(WRITE, &[&good, "60"]).contains("how long to keep"));
    assert!(value.error(WRITE, &[&good, "0000000000", "a"]).contains("has no value"));
    let own = [good.as_str(), "0000000000", "fencing_token", "0000000000000001"];
    assert!(value.error(WRITE, &own).contains("kept by these scripts"));
    assert!(value.error(REMOVE, &own[..3]).contains("kept by these scripts"));
    assert!(!value.command::<bool>(&["EXISTS", KEY]));
}

#[test]
fn a_hash_that_was_there_before_is_taken_over() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    value.command::<()>(&["HSET", KEY, "state", "old"]);
    assert_eq!(value.read(token(34)), Checked::Accepted(vec!["state=old".to_owned()]));
    assert_eq!(value.write(token(33), "late"), Checked::Stale { highest: token(34) });
}

#[test]
fn a_key_that_is_kept_for_ever_has_no_expiry() {
    let server = RedisServer::start();
    let mut value = Value::on(&server);
    assert_eq!(value.write(token(34), "x"), Checked::Accepted(()));
    value.command::<()>(&["EXPIRE", KEY, "100"]);
    assert_eq!(value.write(token(34), "x"), Checked::Accepted(()));
    assert_eq!(value.command::<i64>(&["TTL", KEY]), -1);
    // And a call that would keep it for less does not give it one.
    let now = value.now();
    assert_eq!(value.write_kept(now, MINUTE, "x"), Checked::Accepted(()));
    assert_eq!(value.command::<i64>(&["TTL", KEY]), -1);
}

/// Goal: an expiry lets nobody in that was fenced off.
/// Method: the clock of the server is moved to both sides of the end of the key.
#[test]
fn a_key_that_has_expired_still_refuses_the_holder_before() {
    let server = RedisServer::builder().clock().start();
    let mut value = Value::on(&server);
    let (old, new) = (value.now(), value.now().plus(1).unwrap());
    assert_eq!(value.write_kept(new, MINUTE, "x"), Checked::Accepted(()));
    assert!((119..=120).contains(&value.command::<i64>(&["TTL", KEY])));
    // Each use prolongs it.
    server.clock().advance(Duration::from_secs(100));
    assert_eq!(value.write_kept(new, MINUTE, "x"), Checked::Accepted(()));
    server.clock().advance(Duration::from_secs(100));
    assert_eq!(value.write_kept(old, MINUTE, "late"), Checked::Stale { highest: new });

    server.clock().advance(Duration::from_secs(100));
    assert!(!value.command::<bool>(&["EXISTS", KEY]));
    let late = value.write_kept(old, MINUTE, "late");
    assert!(matches!(late, Checked::Stale { highest } if highest > new), "{late:?}");
    // The one after it, too: who holds a lock for longer than that uses the key meanwhile.
    assert!(value.write_kept(new, MINUTE, "late").is_stale());
    assert!(!value.command::<bool>(&["EXISTS", KEY]));

    let now = value.now();
    assert_eq!(value.write_kept(now, MINUTE, "y"), Checked::Accepted(()));
    assert!(value.write_kept(new, MINUTE, "late").is_stale());
}

#[test]
fn the_scripts_touch_one_key_and_run_on_a_cluster() {
    let server = RedisServer::builder().config("cluster-enabled", "yes").start();
    let mut value = Value::on(&server);
    value.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    fencelock_testkit::eventually(Duration::from_secs(60), "the slots are served", || {
        let info: String = value.command(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:ok")
    });
    assert_eq!(value.write(token(34), "x"), Checked::Accepted(()));
    assert_eq!(value.write(token(33), "late"), Checked::Stale { highest: token(34) });
    assert_eq!(value.read(token(34)), Checked::Accepted(vec!["state=x".to_owned()]));
    value.call(REMOVE, token(34), Keep::Forever, &NOTHING).unwrap();
    assert_eq!(value.read(token(34)), Checked::Accepted(vec![]));
}

#[test]
fn the_rights_that_the_documentation_names_are_enough() {
    let server = RedisServer::builder().acl_user(
        "fenced",
        "on >secret resetchannels ~guarded -@all +eval +evalsha +script|load +type +hget +hset +hgetall +hkeys \
         +hdel +time +persist +expire",
    );
    let server = server.start();
    let client = redis::Client::open(server.url_as("fenced", "secret")).unwrap();
    let mut value = Value(client.get_connection().unwrap());
    let now = {
        let mut admin = Value::on(&server);
        admin.now()
    };
    assert_eq!(value.write_kept(now, MINUTE, "x"), Checked::Accepted(()));
    assert_eq!(value.write(now, "x"), Checked::Accepted(()));
    assert_eq!(value.read(now), Checked::Accepted(vec!["state=x".to_owned()]));
    value.call(REMOVE, now, Keep::Forever, &NOTHING).unwrap();
}

#[test]
fn a_reply_of_something_else_is_an_error() {
    let nothing: [&[u8]; 0] = [];
    assert!(checked(token(34), &nothing).is_err());
    // Of a call with a smaller token, of another script, and none at all.
    for reply in [&b"0000000000000033"[..], b"34", b"OK", b"1.7645420001235e+15"] {
        assert!(checked(token(34), &[reply]).is_err(), "{reply:?}");
    }
    assert!(fields(token(34), &[&b"0000000000000034"[..], b"state"]).is_err());
}
