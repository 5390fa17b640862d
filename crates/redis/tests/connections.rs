//! Connections that break, fall silent, idle, and come back; replies that are lost.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fencelock_core::{Acquired, Novelty, Released, Renewed};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Outcome, Store, StoreErrorKind, rt};
use fencelock_testkit::{FakeServer, Persistence, Proxy, RedisServer, Reply, eventually};
use support::{
    DIALECTS, acquire, granted, inspect, name, release, renew, soon, store_at, take, token, ttl,
    whole, within,
};

/// Asks for `k` with little time.
async fn try_within(
    store: &RedisStore,
    token: fencelock_core::Token,
    millis: u64,
) -> fencelock_store::StoreResult<Acquired> {
    let request = fencelock_core::AcquireRequest::new(name("k"), token, ttl(30_000));
    store.acquire(&request, within(store, millis)).await
}

#[tokio::test]
async fn a_killed_connection_is_made_again_without_an_error() {
    let server = RedisServer::start();
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        let store = store_at(&server.url(), dialect);
        let holder = token();
        let _ = take(&store, "k", holder).await;
        for _ in 0..5 {
            server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            let renewed = renew(&store, "k", holder).await.expect("the store answers");
            assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
        }
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        // Time for the end of the stream to be seen, as between any two calls of a real program:
        // the release of the plain dialect can't be told from a copy of itself.
        rt::sleep(Duration::from_millis(20)).await;
        assert_eq!(release(&store, "k", holder).await.expect("the store answers"), Released::Held);
    }
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closes_is_not_noticed() {
    let server = RedisServer::builder().config("timeout", "1").start();
    let proxy = Proxy::before(&server);
    let stores = DIALECTS.map(|dialect| store_at(&proxy.url(), dialect));
    let holder = token();
    for store in &stores {
        let _ = take(store, "k", holder).await;
    }
    eventually(Duration::from_secs(10), "the server closes idle connections", || {
        proxy.live_connections() == 0
    });
    rt::sleep(Duration::from_millis(20)).await;
    for store in &stores {
        let answer = acquire(store, "k", token()).await.expect("no error").answer;
        assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
        assert_eq!(release(store, "k", holder).await.expect("no error"), Released::Held);
    }
}

#[tokio::test]
async fn a_server_that_was_away_is_used_again_within_half_a_second_of_its_return() {
    let server = RedisServer::builder().persistence(Persistence::Aof).start();
    let store = store_at(&server.url(), Dialect::Native);
    let holder = token();
    let _ = take(&store, "k", holder).await;
    server.kill();
    let error = renew(&store, "k", holder).await.expect_err("it is down");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains(&server.addr()), "{error}");
    // Many tasks that try again and again must not make the pause any longer.
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (store, stop) = (store.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Acquire) {
                    if acquire(&store, "other", token()).await.is_ok() {
                        return Some(Instant::now());
                    }
                }
                None
            })
        })
        .collect();
    rt::sleep(Duration::from_millis(900)).await;
    let server = rt::blocking(move || {
        server.restart();
        server
    })
    .await
    .expect("it comes back");
    let back = Instant::now();
    for task in tasks {
        let first = task.await.expect("no panic").expect("a success");
        assert!(first < back + Duration::from_millis(500), "{:?}", first - back);
    }
    stop.store(true, Ordering::Release);
    let renewed = renew(&store, "k", holder).await.expect("the store answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "its log kept the lease: {renewed:?}");
    drop(server);
}

#[tokio::test]
async fn a_server_that_is_down_is_not_hammered() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let store = store_at(&proxy.url(), Dialect::Native);
    server.kill();
    let end = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < end {
        let error = acquire(&store, "k", token()).await.expect_err("it is down");
        assert_eq!(
            (error.kind(), error.outcome()),
            (StoreErrorKind::Unavailable, Outcome::NotDone)
        );
    }
    assert!(proxy.connections() < 25, "{} attempts", proxy.connections());
}

#[tokio::test]
async fn a_lost_reply_is_repaired_by_the_same_request() {
    let server = RedisServer::start();
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        let proxy = Proxy::before(&server);
        let store = store_at(&proxy.url(), dialect);
        let _ = store.connect(soon(&store)).await.expect("connected");
        proxy.aim(&["SET", "EVAL", "EVALSHA", "DELEX", "DELIFEQ"]);
        // The server closed the connection when it had carried the request out.
        proxy.cut_after_requests(1);
        let holder = token();
        let grant = granted(acquire(&store, "k", holder).await);
        assert_eq!(grant.novelty, Novelty::Repeated, "{dialect}");
        assert!(grant.remaining <= Duration::from_secs(30));
        // And a release: what is certain is said, what is not is not.
        proxy.cut_after_requests(1);
        match release(&store, "k", holder).await {
            Ok(answer) => assert_eq!((answer, dialect), (Released::Held, Dialect::Native)),
            Err(error) => {
                assert_eq!(dialect, Dialect::Plain, "{error:?}");
                assert_eq!(error.outcome(), Outcome::Unknown);
            }
        }
        let _ = take(&store, "k", token()).await;
    }
}

#[tokio::test]
async fn a_doubled_request_changes_nothing_more() {
    let server = RedisServer::start();
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        let proxy = Proxy::before(&server);
        let store = store_at(&proxy.url(), dialect);
        let _ = store.connect(soon(&store)).await.expect("connected");
        proxy.aim(&["SET", "EVAL", "EVALSHA", "DELEX", "DELIFEQ"]);
        proxy.double_next_request();
        let holder = token();
        let grant = granted(acquire(&store, "k", holder).await);
        assert_eq!(grant.novelty, Novelty::Repeated);
        let again = granted(acquire(&store, "k", holder).await);
        assert_eq!(again.fence, grant.fence);
        assert!(again.remaining <= grant.remaining);
    }
}

#[tokio::test]
async fn an_unanswered_acquire_is_unknown_and_its_release_frees_the_name() {
    let server = RedisServer::start();
    for dialect in DIALECTS {
        server.cli(&["FLUSHALL"]);
        let proxy = Proxy::before(&server);
        let store = store_at(&proxy.url(), dialect);
        let _ = store.connect(soon(&store)).await.expect("connected");
        proxy.hold_requests();
        let holder = token();
        let error = try_within(&store, holder, 100).await.expect_err("nothing comes back");
        assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
        // On the same connection, behind the acquire.
        let asked = release(&store, "k", holder);
        let mut asked = std::pin::pin!(asked);
        assert!(rt::timeout(Duration::from_millis(30), &mut asked).await.is_none());
        proxy.release_requests();
        assert_eq!(asked.await.expect("the store answers"), Released::Held, "{dialect}");
        assert_eq!(proxy.connections(), 1, "{dialect}");
        let _ = take(&store, "k", token()).await;
    }
}

#[tokio::test]
async fn a_connection_that_stays_silent_is_replaced() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let store = store_at(&proxy.url(), Dialect::Native);
    let holder = token();
    let _ = take(&store, "k", holder).await;
    // From here on this one connection delivers nothing more; others would.
    proxy.aim(&["EVAL", "EVALSHA"]);
    proxy.swallow_next_replies(1);
    let error = try_within(&store, token(), 100).await.expect_err("nothing comes back");
    assert_eq!(error.outcome(), Outcome::Unknown);
    rt::sleep(Duration::from_millis(300)).await;
    let renewed = renew(&store, "k", holder).await.expect("a fresh connection answers");
    assert!(matches!(renewed, Renewed::Extended { .. }), "{renewed:?}");
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn a_host_that_accepts_and_never_answers_costs_no_more_than_the_time_given() {
    let server = FakeServer::start_unassisted(|_| Reply::Silence);
    let store = store_at(&server.url(), Dialect::Native);
    let start = Instant::now();
    let error = try_within(&store, token(), 200).await.expect_err("nobody answers");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Unavailable, Outcome::NotDone));
    assert!(start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_changed_password_is_denied_once_the_connection_is_gone() {
    let secret = "correct-horse-battery";
    let server =
        RedisServer::builder().acl_user("app", &format!("on >{secret} ~* &* +@all")).start();
    let store = store_at(&server.url_as("app", secret), Dialect::Native);
    let holder = token();
    let _ = take(&store, "k", holder).await;
    server.cli(&["ACL", "SETUSER", "app", "resetpass", ">other"]);
    server.cli(&["CLIENT", "KILL", "USER", "app"]);
    rt::sleep(Duration::from_millis(20)).await;
    let error = renew(&store, "k", holder).await.expect_err("the password is wrong");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Denied, Outcome::NotDone));
    assert!(error.to_string().contains("refused the user or the password"), "{error}");
    assert!(!whole(&error).contains(secret), "{}", whole(&error));
    server.cli(&["ACL", "SETUSER", "app", &format!(">{secret}")]);
    eventually_renewed(&store, holder).await;
}

async fn eventually_renewed(store: &RedisStore, holder: fencelock_core::Token) {
    let end = Instant::now() + Duration::from_secs(10);
    while renew(store, "k", holder).await.is_err() {
        assert!(Instant::now() < end, "it never worked again");
    }
}

#[tokio::test]
async fn a_password_is_in_no_message_whatever_goes_wrong() {
    let secret = "hunter2-hunter2";
    let server = RedisServer::builder().password("another").start();
    // It quotes what it was sent, as servers that do not know a command do.
    let quoting = FakeServer::start_unassisted(|args| {
        let args: Vec<_> = args[1..].iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        Reply::error(format!(
            "ERR unknown command 'HELLO', with args beginning with: '{}'",
            args.join("' '")
        ))
    });
    let urls = [
        format!("redis://app:{secret}@{}/0", server.addr()),
        format!("redis://:{secret}@{}/0", server.addr()),
        format!("redis://:{secret}@{}/0", quoting.addr()),
        format!("redis://:{secret}@127.0.0.1:1/0"),
        format!("redis+unix:///nowhere/redis.sock?pass={secret}"),
    ];
    for url in urls {
        let store = store_at(&url, Dialect::Native);
        let error = acquire(&store, "k", token()).await.expect_err("it can't work");
        assert_eq!(error.outcome(), Outcome::NotDone, "{error:?}");
        let shown = format!(
            "{} {store} {store:?} {:?}",
            whole(&error),
            url.parse::<fencelock_redis::RedisUrl>()
        );
        assert!(!shown.contains(secret), "{shown}");
    }
    let url = server.url().parse::<fencelock_redis::RedisUrl>().expect("a url");
    let builder = RedisStore::builder(url).password(secret);
    assert!(!format!("{builder:?}").contains(secret));
}

#[tokio::test]
async fn user_password_database_and_unix_socket_are_used() {
    let server = RedisServer::builder()
        .password("s3cret")
        .acl_user("app", "on >p@/:%+ss ~* &* +@all")
        .start();
    let socket = server.unix_socket().display().to_string();
    let urls = [
        (format!("redis://:s3cret@{}/3", server.addr()), "3"),
        (format!("redis://app:p%40%2F%3A%25+ss@{}?db=2", server.addr()), "2"),
        (format!("redis+unix://{socket}?pass=s3cret&db=4"), "4"),
        (format!("unix://{socket}?user=app&pass=p@/:%25+ss&db=5"), "5"),
    ];
    for (url, database) in urls {
        let store = store_at(&url, Dialect::Native);
        let _ = take(&store, &format!("in-{database}"), token()).await;
        let info = format!("{:?}", server.cli(&["INFO", "keyspace"]));
        assert!(info.contains(&format!("db{database}:keys=1")), "{url}: {info}");
    }
    let url = server.addr();
    let url = format!("redis://app@{url}/6").parse().expect("a url");
    let store = RedisStore::builder(url).password("p@/:%+ss").build().expect("a store");
    let _ = take(&store, "k", token()).await;
    let wrong = store_at(&format!("redis://:s3cret@{}/99", server.addr()), Dialect::Native);
    let error = acquire(&wrong, "k", token()).await.expect_err("there are 16 databases");
    assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Config, Outcome::NotDone));
}

#[test]
fn one_runtime_after_the_other_and_two_at_once() {
    let server = RedisServer::start();
    let store = store_at(&server.url(), Dialect::Native);
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let holder = token();
            let _ = take(&store, "k", holder).await;
            assert_eq!(release(&store, "k", holder).await.expect("answered"), Released::Held);
        });
    }
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    for _ in 0..50 {
                        let (at, holder) = (format!("k{thread}"), token());
                        let _ = take(&store, &at, holder).await;
                        assert_eq!(
                            release(&store, &at, holder).await.expect("answered"),
                            Released::Held
                        );
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
}

#[test]
fn outside_of_a_runtime_it_says_so() {
    let store = store_at("redis://127.0.0.1:1/", Dialect::Native);
    let request = fencelock_core::AcquireRequest::new(name("k"), token(), ttl(30_000));
    let mut future = store.acquire(&request, soon(&store));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), StoreErrorKind::Config),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn many_tasks_make_one_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let store = store_at(&proxy.url(), Dialect::Native);
    let tasks: Vec<_> = (0..50)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move { take(&store, &format!("k{task}"), token()).await })
        })
        .collect();
    for task in tasks {
        let _ = task.await.expect("no panic");
    }
    assert_eq!(proxy.connections(), 1);
    assert!(matches!(inspect(&store, "k7").await, fencelock_core::Inspection::Held(_)));
}
