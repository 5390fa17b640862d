//! The client on real stores: a Redis server of each test's own, and a file.
#![cfg(all(feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use fencelock::{
    Attempt, Client, ErrorKind, Guard, Inspection, LeaseState, LossReason, Released, Renew,
    Revoked, Wait,
};
use fencelock_testkit::{Proxy, RedisServer};

const PATIENCE: Duration = Duration::from_secs(20);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn client(url: impl AsRef<str>) -> Client {
    Client::builder(url).build().expect("the url is right")
}

async fn take(client: &Client, name: &str, ttl: Duration) -> Guard {
    match client.mutex(name).ttl(ttl).try_lock().await.expect("the store works") {
        Attempt::Granted(guard) => guard,
        Attempt::Busy(busy) => panic!("nobody holds it: {busy:?}"),
    }
}

async fn is_free(client: &Client, name: &str) -> bool {
    matches!(client.inspect(name).await, Ok(Inspection::Free { .. }))
}

async fn until_free(client: &Client, name: &str, within: Duration) {
    let end = Instant::now() + within;
    while !is_free(client, name).await {
        assert!(Instant::now() < end, "{name} is free within {within:?}");
        tokio::time::sleep(millis(2)).await;
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends")
}

/// One client of each kind of store, with what they need to live.
struct Stores {
    _server: RedisServer,
    _folder: tempfile::TempDir,
    clients: Vec<Client>,
}

impl Stores {
    fn new() -> Self {
        let server = RedisServer::start();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks.db");
        let plain = Client::builder(server.url_with_db(1)).dialect("plain").build().unwrap();
        let clients = vec![
            client("memory:"),
            client(server.url()),
            client(server.unix_url()),
            plain,
            client(format!("sqlite:{}", file.display())),
        ];
        Self { _server: server, _folder: folder, clients }
    }
}

#[tokio::test]
async fn a_lock_lives_past_its_ttl_and_is_given_back_on_every_store() {
    let stores = Stores::new();
    let each = stores.clients.iter().enumerate().map(async |(number, client)| {
        let what = client.store_display();
        // Two of them are clients of one server.
        let name = &format!("job {number}");
        // Long enough for a machine that is busy with other things.
        let guard = take(client, name, millis(2_000)).await;
        let started = Instant::now();
        while started.elapsed() < millis(4_500) {
            let seen = guard.deadline();
            within(guard.deadline_changed(seen)).await;
            assert!(guard.is_valid(), "{what}: {guard:?}");
        }
        let busy = client.mutex(name.as_str()).try_lock().await.unwrap();
        assert!(matches!(busy, Attempt::Busy(_)), "{what}");
        assert_eq!(guard.fencing_token().is_some(), client.capabilities().fencing, "{what}");
        assert_eq!(guard.release().await, Released::Held, "{what}");
        assert!(is_free(client, name).await, "{what}");
    });
    futures_util::future::join_all(each).await;
}

#[tokio::test]
async fn sets_tickets_runs_and_drops_work_on_every_store() {
    let stores = Stores::new();
    for client in &stores.clients {
        let what = client.store_display();
        if client.capabilities().max_names > 1 {
            let set = client.mutexes(["a", "b"]).lock().await.unwrap();
            assert!(!is_free(client, "b").await, "{what}");
            assert_eq!(set.release().await, Released::Held, "{what}");
        }
        let sum = client.mutex("job").run(|held| async move { held.is_valid() }).await.unwrap();
        assert!(sum && is_free(client, "job").await, "{what}");

        drop(take(client, "job", millis(30_000)).await);
        until_free(client, "job", PATIENCE).await;

        let guard = take(client, "job", millis(30_000)).await;
        let token = guard.token();
        let ticket = guard.detach().await.unwrap();
        assert_eq!(ticket.token() != token, client.capabilities().binding, "{what}: unbound");
        let lease = client.lease(ticket.names().clone(), ticket.token());
        assert!(lease.renew(millis(60_000)).await.unwrap() > millis(59_000), "{what}");
        match client.adopt(ticket.clone()).await {
            Ok(guard) => assert_eq!(guard.release().await, Released::Held, "{what}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
                assert_eq!(lease.release().await.unwrap(), Released::Held, "{what}");
            }
        }
        assert!(is_free(client, "job").await, "{what}");
        client.clone().close().await;
        assert!(client.inspect("job").await.unwrap_err().is_closed(), "{what}");
    }
}

#[test]
fn a_guard_outlives_the_runtime_that_took_it_on_every_store() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    };
    let stores = Stores::new();
    for client in &stores.clients {
        let first = runtime();
        let guard = first.block_on(take(client, "job", millis(400)));
        first.shutdown_timeout(millis(100));
        runtime().block_on(async {
            for _ in 0..3 {
                within(guard.deadline_changed(guard.deadline())).await;
                assert!(guard.is_valid(), "{}", client.store_display());
            }
            assert_eq!(guard.release().await, Released::Held, "{}", client.store_display());
        });
        let guard = runtime().block_on(take(client, "job", millis(30_000)));
        drop(guard);
        runtime().block_on(until_free(client, "job", PATIENCE));
    }
}

#[tokio::test]
async fn an_absent_server_is_told_within_three_seconds_without_the_password() {
    let port = fencelock_testkit::port::ReservedPort::draw();
    let address = format!("127.0.0.1:{}", port.port());
    let client = client(format!("redis://:hunter2@{address}/"));
    let started = Instant::now();
    let error = client.mutex("job").lock().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(started.elapsed() < millis(3_000), "{:?}", started.elapsed());
    assert_eq!(error.to_string().matches(&address).count(), 1, "{error}");
    let shown = format!("{error} {error:?} {client:?} {}", client.store_display());
    assert!(!shown.contains("hunter2"), "{shown}");
    let started = Instant::now();
    assert!(client.mutex("job").wait(Wait::Never).lock().await.unwrap_err().is_unavailable());
    assert!(started.elapsed() < millis(1_500));
}

#[tokio::test]
async fn a_swallowed_reply_is_asked_for_again_and_leaves_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let direct = client(server.url());
    let through = Client::builder(proxy.url()).request_timeout(millis(200)).build().unwrap();
    through.connect_now().await.unwrap();

    proxy.swallow_next_replies(1);
    let guard = within(through.mutex("job").ttl(millis(30_000)).lock()).await;
    // Nothing more comes on that connection until it is closed: the call was given up, and asked
    // again on a new one.
    match guard {
        Ok(guard) => assert_eq!(within(guard.release()).await, Released::Held),
        Err(error) => panic!("{error}"),
    }
    assert!(is_free(&direct, "job").await);
}

#[tokio::test]
async fn an_acquire_whose_future_is_dropped_on_the_way_is_taken_back() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let direct = client(server.url());
    let through = Client::builder(proxy.url()).request_timeout(millis(300)).build().unwrap();
    through.connect_now().await.unwrap();
    for held in ["request", "reply", "cut", "blackhole"] {
        match held {
            "request" => proxy.hold_requests(),
            "reply" => proxy.hold_replies(),
            "cut" => proxy.cut_after_requests(1),
            _ => proxy.blackhole(),
        }
        let mutex = through.mutex("job").ttl(millis(60_000));
        let dropped = tokio::time::timeout(millis(100), mutex.lock()).await;
        let granted = matches!(dropped, Ok(Ok(_)));
        assert_eq!(granted, held == "cut", "only a cut lets the client ask again: {dropped:?}");
        drop(dropped);
        proxy.heal();
        // Well before the ttl.
        until_free(&direct, "job", Duration::from_secs(15)).await;
        within(async {
            while !format!("{through:?}").contains("pending: 0") {
                tokio::time::sleep(millis(5)).await;
            }
        })
        .await;
        assert!(is_free(&direct, "job").await, "{held}");
    }
}

#[tokio::test]
async fn a_server_without_persistence_that_restarts_is_a_loss_at_the_first_answered_renewal() {
    let server = RedisServer::start();
    let client = client(server.url());
    let guard = take(&client, "job", millis(3_000)).await;
    let first = guard.fencing_token();
    server.kill();
    server.restart();
    let reason = within(guard.lost()).await;
    assert_eq!(reason, LossReason::Disappeared);
    let next = within(client.mutex("job").lock()).await.unwrap();
    assert!(next.fencing_token() > first);
}

#[tokio::test]
async fn a_holder_and_a_waiter_ride_out_a_broken_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let through = client(proxy.url());
    let direct = client(server.url());
    let guard = take(&through, "held", millis(1_500)).await;
    let blocker = take(&direct, "waited", millis(30_000)).await;
    let mutex = through.mutex("waited");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    proxy.refuse();
    proxy.cut();
    let seen = guard.deadline();
    within(async {
        while guard.state() != LeaseState::Suspect {
            tokio::time::sleep(millis(2)).await;
        }
    })
    .await;
    proxy.accept();
    within(guard.deadline_changed(seen)).await;
    assert_eq!(guard.state(), LeaseState::Held);
    assert_eq!(blocker.release().await, Released::Held);
    let waited = within(waiter).await.unwrap().unwrap();
    assert_eq!(waited.release().await, Released::Held);
    assert_eq!(guard.release().await, Released::Held);
}

#[tokio::test]
async fn a_script_cache_that_is_flushed_disturbs_no_verb() {
    let server = RedisServer::start();
    for dialect in ["native", "plain"] {
        let client = Client::builder(server.url()).dialect(dialect).build().unwrap();
        let flush = || server.cli(&["SCRIPT", "FLUSH"]);
        flush();
        let guard = take(&client, "job", millis(30_000)).await;
        flush();
        guard.renew(millis(30_000)).await.unwrap();
        flush();
        assert_eq!(guard.release().await, Released::Held);
    }
}

#[tokio::test]
async fn a_plain_key_that_never_expires_is_waited_for_and_told() {
    let server = RedisServer::start();
    server.cli(&["SET", "job", "somebody"]);
    let client = Client::builder(server.url()).dialect("plain").build().unwrap();
    let Ok(Attempt::Busy(busy)) = client.mutex("job").try_lock().await else {
        panic!("it is held");
    };
    assert_eq!(busy.holder.remaining, None);
    let error = client.mutex("job").wait(millis(300)).lock().await.unwrap_err();
    assert!(error.is_wait_expired() && error.to_string().contains("never expires"), "{error}");
    let mutex = client.mutex("job");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    server.cli(&["DEL", "job"]);
    let guard = within(waiter).await.unwrap().unwrap();
    assert_eq!(guard.release().await, Released::Held);
}

#[tokio::test]
async fn a_foreign_value_is_reported_and_left_alone() {
    let server = RedisServer::start();
    let client = client(server.url());
    server.cli(&["RPUSH", "fencelock:job", "x"]);
    let error = client.mutex("job").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignValue, "{error}");
    assert!(error.to_string().contains("list"), "{error}");
    assert!(matches!(client.inspect("job").await, Ok(Inspection::Foreign(_))));
}

#[tokio::test]
async fn a_late_holder_does_not_free_the_next_ones_lock_on_every_store() {
    let stores = Stores::new();
    for client in &stores.clients {
        let what = client.store_display();
        let late = client.mutex("job").ttl(millis(60)).renewal(Renew::Manual);
        let late = late.lock().await.unwrap();
        within(late.lost()).await;
        let next = within(client.mutex("job").lock()).await.unwrap();
        assert_ne!(late.release().await, Released::Held, "{what}");
        assert!(next.is_valid());
        assert_eq!(next.release().await, Released::Held, "{what}");
    }
}

#[tokio::test]
async fn a_lock_is_held_at_least_and_at_most_on_every_store() {
    let stores = Stores::new();
    for client in &stores.clients {
        let what = client.store_display();
        for ttl in [millis(300), millis(60_000)] {
            let guard = client.mutex("job").ttl(ttl).min_hold(millis(1_000)).lock().await.unwrap();
            let started = Instant::now();
            assert_eq!(guard.release().await, Released::Held, "{what}");
            assert!(!is_free(client, "job").await, "{what}");
            until_free(client, "job", PATIENCE).await;
            assert!(started.elapsed() >= millis(980), "{what}: {:?}", started.elapsed());
        }
        let held = client.mutex("job").ttl(millis(300)).max_hold(millis(1_000));
        let started = Instant::now();
        let guard = held.lock().await.unwrap();
        assert_eq!(within(guard.lost()).await, LossReason::MaxHold, "{what}");
        assert!(started.elapsed() >= millis(1_000), "{what}: {:?}", started.elapsed());
        until_free(client, "job", PATIENCE).await;
        drop(guard);
        let held = client.mutex("job").ttl(millis(300)).progress_within(millis(200));
        let guard = held.lock().await.unwrap();
        assert_eq!(within(guard.lost()).await, LossReason::NoProgress, "{what}");
    }
}

#[tokio::test]
async fn a_holder_is_asked_back_on_every_store_that_can() {
    let stores = Stores::new();
    for client in &stores.clients {
        let what = client.store_display();
        let guard = take(client, "job", millis(60_000)).await;
        if client.capabilities().dialect == "plain" {
            let error = client.revoke("job").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
            continue;
        }
        assert_eq!(client.revoke("other").await.unwrap(), Revoked::WasFree, "{what}");
        let asked = client.revoke_within("job", PATIENCE);
        let giving = async {
            // By a message: the next renewal is twenty seconds away.
            within(guard.revoked()).await;
            assert!(guard.is_valid(), "{what}");
            guard.release().await
        };
        let (asked, given) = tokio::join!(asked, giving);
        assert_eq!((asked.unwrap(), given), (Revoked::Released, Released::Held), "{what}");

        let guard = take(client, "job", millis(600)).await;
        let answer = client.revoke("job").await.unwrap();
        assert!(
            matches!(&answer, Revoked::Requested(holder) if holder.revoked),
            "{what}: {answer:?}"
        );
        // Nobody waits for it: the renewals tell.
        let end = Instant::now() + PATIENCE;
        while !guard.is_revoked() {
            assert!(Instant::now() < end, "{what}");
            tokio::time::sleep(millis(2)).await;
        }
        let ticket = guard.leak().await.unwrap();
        let answer = client.revoke("job").await.unwrap();
        assert!(matches!(answer, Revoked::Unattended(_)), "{what}: {answer:?}");
        let lease = client.lease(ticket.names().clone(), ticket.token());
        assert_eq!(lease.release().await.unwrap(), Released::Held, "{what}");
    }
}

/// Goal: no exchange whose answer was lost makes two holders. Method: a lease of the file is bound
/// to its process, so leaking it exchanges its token; another task of the process waits meanwhile.
#[tokio::test]
async fn a_leak_without_an_answer_leaves_one_holder() {
    use fencelock::store::{Fault, FaultyStore, Verb};
    let folder = tempfile::tempdir().unwrap();
    let file = fencelock_sqlite::SqliteStore::open(folder.path().join("locks.db")).unwrap();
    let faulty = FaultyStore::new(file.clone());
    let one = Client::with_store(std::sync::Arc::new(faulty.clone()));
    let other = Client::with_store(std::sync::Arc::new(file));
    let guard = one.mutex("job").lock().await.unwrap();
    let waiter = tokio::spawn({
        let mutex = one.mutex("job");
        async move { mutex.lock().await.unwrap() }
    });
    let token = guard.token_hash();
    let end = Instant::now() + PATIENCE;
    while faulty.calls(Verb::Renew) == 0 {
        assert!(Instant::now() < end, "it fetches fencing tokens for whoever waits");
        tokio::time::sleep(millis(1)).await;
    }
    faulty.plan(Verb::ExchangeToken, Fault::LostReply);
    within(guard.leak()).await.unwrap_err();
    // What the exchange had taken was given back: nobody can have that lease any more.
    let next = within(waiter).await.unwrap();
    assert_ne!(next.token_hash(), token);
    let attempt = other.mutex("job").try_lock().await.unwrap();
    assert!(matches!(attempt, Attempt::Busy(_)), "{next:?} beside {attempt:?}");
}

/// Goal: no lease goes on to a task while it ends with somebody else's process: that one's end
/// would make a second holder.
#[tokio::test]
async fn a_lease_that_ends_with_another_process_is_not_passed_on() {
    use fencelock::store::core::{Binding, ProcessId};
    let folder = tempfile::tempdir().unwrap();
    let client = client(format!("sqlite:{}", folder.path().join("locks.db").display()));
    let stat = std::fs::read_to_string("/proc/1/stat").unwrap();
    let mut fields = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace();
    let started = fields.nth(19).unwrap().parse().unwrap();
    let first = Binding::Processes(vec![ProcessId { pid: 1, started }]);
    let guard = client.mutex("job").bind(first).lock().await.unwrap();
    let token = guard.token_hash();
    let mutex = client.mutex("job");
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
    // Time for what would make it possible: the fencing tokens for whoever waits.
    tokio::time::sleep(millis(100)).await;
    guard.release().await;
    assert_ne!(within(waiter).await.unwrap().token_hash(), token);
}

/// Goal: who waits for a lock of another library's is told, and does not ask again and again. Method: a
/// lease far longer than the test, and the requests of the waiter counted.
#[tokio::test]
async fn a_waiter_hears_of_a_lock_that_another_library_gives_back() {
    let server = RedisServer::start();
    server.cli(&["HSET", "k", "852f3e2f-104b-4219-9d90-e04a2b71bdeb:7", "1"]);
    server.cli(&["PEXPIRE", "k", "600000"]);
    let locks = Client::builder(server.url()).dialect("redisson").build().unwrap();
    let monitor = server.monitor();
    let waiting = tokio::spawn({
        let lock = locks.mutex("k").wait(PATIENCE);
        async move { lock.lock().await }
    });
    let listens = || {
        let answer =
            format!("{:?}", server.cli(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{k}"]));
        answer.contains("int(1)")
    };
    let end = Instant::now() + PATIENCE;
    while !listens() {
        assert!(Instant::now() < end, "it listens");
        tokio::task::yield_now().await;
    }
    server.cli(&["DEL", "k"]);
    server.cli(&["PUBLISH", "redisson_lock__channel:{k}", "0"]);
    let guard = within(waiting).await.unwrap().unwrap();
    let asked = monitor.take();
    let asked =
        asked.iter().filter(|seen| !seen.is_from_script() && seen.name().starts_with("EVAL"));
    // Busy, busy though it listens, told; and one more where it began to listen in between.
    assert!((2..=4).contains(&asked.count()));
    assert_eq!(guard.release().await, Released::Held);
}
