//! The restart guard as a program meets it: one server, and a quorum, of real ones.
#![cfg(all(feature = "redis", feature = "quorum"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use fencelock::{
    Attempt, Client, Error, ErrorKind, IfUsed, Initialised, Inspection, Released, RestartGuard,
};
use fencelock_testkit::RedisServer;

const PATIENCE: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_secs(60);

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends")
}

async fn initialise(server: &RedisServer) -> Initialised {
    let written = Client::builder(server.url()).initialise(MINUTE, IfUsed::Refuse).await;
    written.expect("the server answers")
}

fn assert_names_init(error: &Error, kind: ErrorKind) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(text.contains("restarted") && text.contains("`fencelock init --store "), "{text}");
}

#[tokio::test]
async fn one_server_is_guarded_when_asked_for() {
    let server = RedisServer::start();
    let open = Client::builder(server.url()).build().unwrap();
    let guard = within(open.mutex("open").lock()).await.expect("no guard, no refusal");
    for guard in [RestartGuard::Uptime(MINUTE), RestartGuard::Strict(MINUTE)] {
        let locks = Client::builder(server.url()).restart_guard(guard).build().unwrap();
        assert_names_init(&locks.mutex("k").try_lock().await.unwrap_err(), ErrorKind::Unavailable);
        // It was reached: what it says does not end a wait before its time.
        let (start, wait) = (Instant::now(), Duration::from_secs(3));
        let error = within(locks.mutex("k").wait(wait).lock()).await.unwrap_err();
        assert_names_init(&error, ErrorKind::Unavailable);
        assert!(start.elapsed() >= wait, "{:?}", start.elapsed());
    }
    assert_eq!(within(guard.release()).await, Released::Held);
    assert_eq!(initialise(&server).await, Initialised::Written { max_ttl: MINUTE });
    for guard in [RestartGuard::Uptime(MINUTE), RestartGuard::Strict(MINUTE)] {
        let locks = Client::builder(server.url()).restart_guard(guard).build().unwrap();
        let guard = within(locks.mutex("k").lock()).await.expect("it counts");
        assert_eq!(within(guard.release()).await, Released::Held);
    }
}

/// Goal: waiters of one process and of another are served in their order as without a guard.
#[tokio::test]
async fn a_guarded_server_that_counts_hands_over_as_any_other() {
    let server = RedisServer::start();
    let _ = initialise(&server).await;
    for guard in [RestartGuard::Uptime(MINUTE), RestartGuard::Strict(MINUTE)] {
        let client = || Client::builder(server.url()).restart_guard(guard).build().unwrap();
        let (first, second) = (client(), client());
        let held = within(first.mutex("k").lock()).await.expect("it is free");
        let waiting = tokio::spawn(async move {
            let guard = within(second.mutex("k").lock()).await.expect("it is handed over");
            (guard.fencing_token(), within(guard.release()).await)
        });
        let waits = |seen: &Inspection| matches!(seen, Inspection::Held(held) if held.waiting > 0);
        while !waits(&first.inspect("k").await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let before = held.fencing_token();
        assert_eq!(within(held.release()).await, Released::Held);
        let (after, released) = waiting.await.expect("no panic");
        assert!(after > before, "{before:?} {after:?}");
        assert_eq!(released, Released::Held);
    }
}

#[tokio::test]
async fn a_holder_that_asks_for_more_than_the_guard_allows_keeps_what_it_has() {
    let server = RedisServer::start();
    let _ = initialise(&server).await;
    let guarded = RestartGuard::Uptime(Duration::from_secs(10));
    let locks = Client::builder(server.url()).restart_guard(guarded).build().unwrap();
    let error = locks.mutex("k").ttl(Duration::from_secs(11)).try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let short = locks.mutex("k").ttl(Duration::from_secs(10));
    let Attempt::Granted(guard) = short.try_lock().await.unwrap() else { panic!("it is free") };
    assert!(within(guard.renew(Duration::from_secs(11))).await.is_err());
    assert!(guard.is_valid());
    within(guard.renew(Duration::from_secs(10))).await.expect("it may go on");
    assert_eq!(within(guard.release()).await, Released::Held);
}

#[tokio::test]
async fn a_quorum_is_guarded_unless_its_nodes_forget_nothing() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let locks = fencelock::connect_quorum(&urls).await.unwrap();
    let error = locks.mutex("k").try_lock().await.unwrap_err();
    assert_names_init(&error, ErrorKind::NoQuorum);

    // Whoever waits does so for as long as it said, from the first contact on.
    let fresh = fencelock::connect_quorum(&urls).await.unwrap();
    let waiting = tokio::spawn(async move { within(fresh.mutex("waits").lock()).await });
    let hasty = fencelock::connect_quorum(&urls).await.unwrap();
    let (start, wait) = (Instant::now(), Duration::from_secs(3));
    let error = within(hasty.mutex("k").wait(wait).lock()).await.unwrap_err();
    assert_names_init(&error, ErrorKind::NoQuorum);
    assert!(error.to_string().contains("counts again in "), "{error}");
    assert!(start.elapsed() >= wait, "{:?}", start.elapsed());
    assert!(!waiting.is_finished(), "it said for ever");

    let durable = Client::quorum_builder(&urls).quarantine(Duration::ZERO).build().unwrap();
    let guard = within(durable.mutex("k").lock()).await.expect("they count");
    assert_eq!(within(guard.release()).await, Released::Held);
    let plain = Client::quorum_builder(&urls).dialect("plain").build().unwrap();
    let guard = within(plain.mutex("k").lock()).await.expect("there is no marker");
    assert_eq!(within(guard.release()).await, Released::Held);

    for server in &servers[..2] {
        let _ = initialise(server).await;
    }
    let guard = within(locks.mutex("k").lock()).await.expect("a majority counts");
    assert_eq!(within(guard.release()).await, Released::Held);
    let guard = waiting.await.expect("no panic").expect("a majority counts");
    assert_eq!(within(guard.release()).await, Released::Held);
}

/// Goal: two holders at once, made of a node that forgot the first, can't be. Method: one of three
/// nodes is new and never knew of the lock, one forgets it in a restart; a new client asks.
#[tokio::test]
async fn a_node_that_forgot_its_vote_does_not_vote_again() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    for server in &servers {
        let _ = initialise(server).await;
    }
    servers[2].kill();
    let first = fencelock::connect_quorum(&urls).await.unwrap();
    let held = within(first.mutex("k").ttl(MINUTE).lock()).await.expect("two of three");
    servers[2].restart();
    let _ = initialise(&servers[2]).await;
    servers[1].kill();
    servers[1].restart();
    for guard in [RestartGuard::Uptime(MINUTE), RestartGuard::Strict(MINUTE)] {
        let second = Client::quorum_builder(&urls).restart_guard(guard).build().unwrap();
        let attempt = second.mutex("k").try_lock().await;
        assert!(!matches!(attempt, Ok(Attempt::Granted(_))), "{guard:?}: {attempt:?}");
    }
    assert!(held.is_valid());
    // Without a guard there are two: it is the guard that refused.
    let open = Client::quorum_builder(&urls).restart_guard(RestartGuard::Off).build().unwrap();
    let attempt = open.mutex("k").try_lock().await;
    assert!(matches!(attempt, Ok(Attempt::Granted(_))) && held.is_valid(), "{attempt:?}");
}

#[tokio::test]
async fn what_has_no_guard_says_so() {
    for url in ["memory:", "sqlite:/tmp/x.db"] {
        let error = Client::builder(url).initialise(MINUTE, IfUsed::Refuse).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let guarded = Client::builder(url).restart_guard(RestartGuard::Strict(MINUTE)).build();
        assert_eq!(guarded.unwrap_err().kind(), ErrorKind::Config);
    }
    let url = "redis://127.0.0.1:1";
    let guard = RestartGuard::Uptime(MINUTE);
    let plain = Client::builder(url).dialect("plain").restart_guard(guard).build();
    assert_eq!(plain.unwrap_err().kind(), ErrorKind::Config);
    let endless = Client::builder(url).restart_guard(RestartGuard::Uptime(Duration::MAX)).build();
    assert_eq!(endless.unwrap_err().kind(), ErrorKind::Config);
    let short = Client::builder(url).initialise(Duration::ZERO, IfUsed::Refuse).await;
    assert_eq!(short.unwrap_err().kind(), ErrorKind::Config);
}
