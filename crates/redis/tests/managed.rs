//! Servers that lack something, as those that are rented or stand behind a proxy do.
//!
//! What a real server can be made to lack is taken from one, by its rights or by `rename-command`.
//! The last tests use a scripted stand-in, for commands that the server of most machines does not have
//! (`testing/servers` has a Valkey that does), and since no server forgets each script at once. They
//! prove what is sent, and not that such a server does it.

mod support;

use std::sync::Arc;

use fencelock_core::{Acquired, Released};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Outcome, Store, StoreErrorKind, WakeupSink};
use fencelock_testkit::{FakeServer, RedisServer, Reply};
use redis::Value;
use support::{
    DIALECTS, Ear, acquire, inspect, release, renew, soon, store_at, take, token, waits,
};

/// A lock is taken, kept, looked at, waited for where it can be, and given back.
async fn lives(store: &RedisStore) {
    let holder = token();
    let _ = take(store, "k", holder).await;
    assert!(renew(store, "k", holder).await.expect("it answers").remaining().is_some());
    assert!(matches!(
        acquire(store, "k", token()).await.expect("it answers").answer,
        Acquired::Busy(_)
    ));
    assert!(matches!(inspect(store, "k").await, fencelock_core::Inspection::Held(_)));
    let by = soon(store);
    let listed = store.list(&fencelock_core::ListRequest::new(""), by).await.expect("it answers");
    assert_eq!(listed.answer.locks.len(), 1);
    if !store.capabilities().queue {
        assert_eq!(release(store, "k", holder).await.expect("it answers"), Released::Held);
        return;
    }
    let ear = Arc::new(Ear::default());
    let subscription =
        store.listen(Arc::clone(&ear) as Arc<dyn WakeupSink>, soon(store)).await.expect("it may");
    let waiter = waits("k", Some(subscription.listener));
    let _ = store.acquire(&waiter, soon(store)).await.expect("it answers");
    assert_eq!(release(store, "k", holder).await.expect("it answers"), Released::Held);
    assert!(ear.heard().iter().any(|wakeup| wakeup.token() == waiter.token));
    assert_eq!(release(store, "k", waiter.token).await.expect("it answers"), Released::Held);
}

/// The command by which this server deletes a string only if it is a certain one.
fn compares_and_deletes(server: &RedisServer) -> Option<&'static str> {
    let knows = |name| {
        let info = server.cli(&["COMMAND", "INFO", name]);
        !matches!(&info, Value::Array(found) if found.first() == Some(&Value::Nil))
    };
    ["DELEX", "DELIFEQ"].into_iter().find(|name| knows(name))
}

/// Commands that rented servers rename or leave out.
const RENAMED: &[&str] = &[
    "SELECT", "CONFIG", "WAIT", "CLIENT", "SCRIPT", "FUNCTION", "FCALL", "MULTI", "DEBUG", "KEYS",
    "MONITOR", "SLOWLOG", "ACL", "SAVE", "SHUTDOWN", "ROLE", "OBJECT",
];

#[tokio::test]
async fn what_rented_servers_leave_out_is_not_needed() {
    let builder = RENAMED.iter().fold(RedisServer::builder(), |builder, command| {
        builder.config("rename-command", &format!("{command} \"\""))
    });
    // INFO can't be renamed, or this bench would not know that its server has started.
    let server = builder.acl_user("app", "on >p ~* &* +@all -info").start();
    assert!(server.try_cli(&["CONFIG", "GET", "save"]).is_err(), "it is not renamed");
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        lives(&store_at(&server.url_as("app", "p"), dialect)).await;
        server.cli(&["FLUSHALL"]);
        lives(&store_at(&server.unix_url(), dialect)).await;
    }
    // Only another database than the first has to be asked for.
    let store = store_at(&server.url_with_db(1), Dialect::Native);
    let error = acquire(&store, "k", token()).await.expect_err("there is one database");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
    assert!(error.to_string().contains("database"), "{error}");
}

#[tokio::test]
async fn nothing_that_may_be_missing_is_sent() {
    for dialect in DIALECTS {
        let server = RedisServer::start();
        let monitor = server.monitor();
        lives(&store_at(&server.url(), dialect)).await;
        let names: Vec<_> = monitor.take().iter().map(fencelock_testkit::Seen::name).collect();
        assert!(names.iter().any(|name| name == "EVAL"), "{names:?}");
        for renamed in RENAMED.iter().filter(|name| **name != "CLIENT") {
            assert!(!names.iter().any(|name| name == renamed), "{dialect}: {renamed}");
        }
        // Nobody asks a server that does not say that it has it.
        let has = compares_and_deletes(&server);
        let sent = names.iter().find(|name| name.starts_with("DEL") && *name != "DEL");
        let expected = has.filter(|_| dialect == Dialect::Plain);
        assert_eq!(sent.map(String::as_str), expected, "{names:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_the_greeting_is_refused_with_a_sentence() {
    // What twemproxy and envoy do not pass on, a server can be made not to know.
    let server =
        RedisServer::builder().config("rename-command", "HELLO \"\"").password("hunter2").start();
    for dialect in DIALECTS {
        let store = store_at(&server.url(), dialect);
        let error = acquire(&store, "k", token()).await.expect_err("it has no RESP3");
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
        assert!(error.to_string().contains("a proxy is in between"), "{error}");
        assert!(!support::whole(&error).contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn what_was_found_out_of_a_server_is_found_out_anew_after_a_reconnect() {
    let server = RedisServer::builder().acl_user("app", "on >p ~* &* +@all -evalsha").start();
    let store = store_at(&server.url_as("app", "p"), Dialect::Native);
    let sent = |monitor: &fencelock_testkit::Monitor| {
        let seen = monitor.take();
        let top =
            seen.iter().filter(|seen| !seen.is_from_script() && seen.name().starts_with("EVAL"));
        top.map(fencelock_testkit::Seen::name).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        let _ = inspect(&store, "k").await;
    }
    let monitor = server.monitor();
    let _ = inspect(&store, "k").await;
    assert_eq!(sent(&monitor), ["EVAL"], "EVALSHA is not tried again and again");
    server.cli(&["ACL", "SETUSER", "app", "+evalsha"]);
    server.cli(&["CLIENT", "KILL", "USER", "app"]);
    for _ in 0..2 {
        let _ = inspect(&store, "k").await;
    }
    assert_eq!(sent(&monitor), ["EVAL", "EVALSHA"], "a new connection is another chance");
    // The other way round: what a server knew may be lost where EVAL is allowed again.
    server.cli(&["ACL", "SETUSER", "app", "-eval"]);
    server.cli(&["CLIENT", "KILL", "USER", "app"]);
    let _ = inspect(&store, "k").await;
    server.cli(&["ACL", "SETUSER", "app", "+eval"]);
    server.cli(&["SCRIPT", "FLUSH"]);
    server.cli(&["CLIENT", "KILL", "USER", "app"]);
    let _ = inspect(&store, "k").await;
}

/// A stand-in that says it is this server, and answers scripts of releases as if they were held.
fn pretending(
    info: &'static str,
    other: impl Fn(&[Vec<u8>]) -> Reply + Send + Sync + 'static,
) -> FakeServer {
    FakeServer::start(move |args| match args[0].as_slice() {
        b"INFO" => Reply::bulk(info),
        b"EVAL" | b"EVALSHA" => match other(args) {
            Reply::Usual => Reply::bulk("h"),
            reply => reply,
        },
        _ => other(args),
    })
}

/// What was sent besides the set-up of connections, by name.
fn sent(server: &FakeServer) -> Vec<String> {
    let requests = server.take_requests().into_iter();
    let names = requests.map(|args| String::from_utf8_lossy(&args[0]).into_owned());
    names.filter(|name| !["HELLO", "CLIENT", "INFO"].contains(&name.as_str())).collect()
}

#[tokio::test]
async fn a_server_that_forgets_each_script_is_given_the_text_each_time() {
    let server = pretending("redis_version:7.2.0\r\n", |args| match args[0].as_slice() {
        b"EVALSHA" => Reply::error("NOSCRIPT No matching script. Please use EVAL."),
        _ => Reply::Usual,
    });
    let store = store_at(&server.url(), Dialect::Plain);
    for _ in 0..4 {
        assert_eq!(release(&store, "k", token()).await.expect("it answers"), Released::Held);
        assert!(sent(&server).len() <= 2);
    }
}

#[tokio::test]
async fn a_server_that_compares_and_deletes_by_itself_is_asked_to() {
    for (info, command) in [
        ("redis_version:8.4.0\r\n", "DELEX"),
        ("redis_version:7.2.4\r\nvalkey_version:9.0.1\r\n", "DELIFEQ"),
    ] {
        let held = token();
        let secret = String::from_utf8(held.to_hex().to_vec()).expect("digits");
        let server = pretending(info, move |args| {
            let words: Vec<_> = args.iter().map(|word| String::from_utf8_lossy(word)).collect();
            match (&*words[0], &words[1..]) {
                ("DELEX", [_, condition, value]) if condition == "IFEQ" => {
                    Reply::Int(i64::from(*value == secret))
                }
                ("DELIFEQ", [_, value]) => Reply::Int(i64::from(*value == secret)),
                // The script looks at what is there now.
                ("EVAL" | "EVALSHA", _) => Reply::bulk("t"),
                _ => Reply::Usual,
            }
        });
        let store = store_at(&server.url(), Dialect::Plain);
        store.connect(soon(&store)).await.map(drop).expect_err("an odd answer, after the greeting");
        let _ = sent(&server);
        assert_eq!(release(&store, "k", held).await.expect("it answers"), Released::Held);
        assert_eq!(sent(&server), [command]);
        // What is not deleted is looked at by the script, which tells gone from taken.
        assert_eq!(release(&store, "k", token()).await.expect("it answers"), Released::Taken);
        let after = sent(&server);
        assert_eq!((after.len(), &after[0][..]), (2, command), "{after:?}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_command_it_should_have_is_not_asked_again() {
    for refusal in [
        "ERR unknown command 'DELEX', with args beginning with: 'k' 'IFEQ' ",
        "NOPERM User app has no permissions to run the 'delex' command",
    ] {
        let server = pretending("redis_version:8.4.0\r\n", move |args| match args[0].as_slice() {
            b"DELEX" => Reply::error(refusal),
            _ => Reply::Usual,
        });
        let store = store_at(&server.url(), Dialect::Plain);
        store.connect(soon(&store)).await.map(drop).expect_err("an odd answer, after the greeting");
        let _ = sent(&server);
        for first in ["DELEX", "EVAL"] {
            assert_eq!(release(&store, "k", token()).await.expect("it answers"), Released::Held);
            let names = sent(&server);
            assert!(names[0].starts_with(first), "{names:?}");
        }
    }
    // Another type at the key: only the script can say which.
    let server = pretending("redis_version:8.4.0\r\n", |args| match args[0].as_slice() {
        b"DELEX" => {
            Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
        }
        b"EVAL" | b"EVALSHA" => Reply::bulk("t"),
        _ => Reply::Usual,
    });
    let store = store_at(&server.url(), Dialect::Plain);
    store.connect(soon(&store)).await.map(drop).expect_err("an odd answer, after the greeting");
    for _ in 0..2 {
        let _ = sent(&server);
        assert_eq!(release(&store, "k", token()).await.expect("it answers"), Released::Taken);
        assert_eq!(sent(&server)[0], "DELEX");
    }
}
