//! A subscription, its confirmation or a message that is late or never comes, over a real network.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fencelock::{Client, ErrorKind, Guard, Inspection, Released};
use fencelock_testkit::{Proxy, RedisServer, eventually};

use crate::{child::LIMIT, place::subscriptions};

const TTL: Duration = Duration::from_secs(60);
/// No heart-beat comes sooner.
const HEART_BEAT: Duration = Duration::from_secs(8);
const NAME: &str = "job";

fn client(url: &str) -> Client {
    Client::builder(url).build().expect("the url is right")
}

/// A server and a proxy before it; who holds the lock does not go through the proxy.
struct Behind {
    _server: RedisServer,
    proxy: Proxy,
    direct: Client,
    /// Reached already, by way of the proxy.
    own: Client,
}

impl Behind {
    async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::before(&server);
        let (direct, own) = (client(&server.url()), client(&proxy.url()));
        for client in [&direct, &own] {
            client.connect_now().await.expect("the server answers");
        }
        Self { _server: server, proxy, direct, own }
    }

    async fn hold(&self) -> Guard {
        let attempt = self.direct.mutex(NAME).ttl(TTL).try_lock().await;
        attempt.expect("the server answers").granted().expect("nobody holds it")
    }

    /// How many wait.
    async fn waiting(&self) -> u32 {
        match self.direct.inspect(NAME).await.expect("the server answers") {
            Inspection::Held(holder) => holder.waiting,
            other => panic!("it is held: {other:?}"),
        }
    }

    /// Waits, with a limit, until so many wait.
    async fn until_waiting(&self, count: u32, what: &str) {
        let end = Instant::now() + LIMIT;
        while self.waiting().await != count {
            assert!(Instant::now() < end, "{count} wait: {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Goal: a wait ends when it should, though the server says nothing to `SUBSCRIBE`, and its place
/// goes. Method: the command is kept from the server, or its answer and all that follow are swallowed;
/// a second wait, with less time, has its question behind that. The bound is far below the time of
/// the first. (What is only a hanging subscription, without the rest, is in `it/lines.rs`.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_in_time_while_subscribe_is_not_answered() {
    for executed in [false, true] {
        let what = if executed { "no confirmation" } else { "no SUBSCRIBE" };
        let behind = Behind::new().await;
        let guard = behind.hold().await;
        behind.proxy.aim(&["SUBSCRIBE"]);
        behind.proxy.hold_requests();
        let wait = |wait: Duration| {
            let mutex = behind.own.mutex(NAME).ttl(TTL).strict_fifo().wait(wait);
            tokio::spawn(async move {
                let start = Instant::now();
                let error = mutex.lock().await.map(drop).expect_err("it is held");
                (error, start.elapsed())
            })
        };
        let long = wait(Duration::from_secs(600));
        let proxy = &behind.proxy;
        tokio::task::block_in_place(|| proxy.wait_for_held_requests(1));
        if executed {
            behind.proxy.drop_replies();
            behind.proxy.release_requests();
        }
        let (error, took) = wait(Duration::from_millis(300)).await.expect("no panic");
        println!("{what}: the wait of 300 ms took {took:?}: {error}");
        // Whose question for a place is lost, too, does not know that the lock is held.
        let kinds = [ErrorKind::WaitExpired, ErrorKind::Unavailable, ErrorKind::Unknown];
        assert!(kinds.contains(&error.kind()), "{what}: {error}");
        assert!(took < LIMIT / 2, "{what}: {took:?}");
        long.abort();
        assert!(long.await.is_err_and(|error| error.is_cancelled()), "{what}");
        behind.proxy.heal();
        behind.until_waiting(0, what).await;
        assert_eq!(guard.release().await, Released::Held, "{what}");
        let next = behind.hold().await;
        assert_eq!(next.release().await, Released::Held, "{what}");
    }
}

/// Goal: a place that its waiter never heard of goes with it. Method: the answer to the question is
/// swallowed on the way; the waiter gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_whose_answer_is_lost_on_the_way_goes_with_its_waiter() {
    let behind = Behind::new().await;
    for round in 0..5 {
        let what = format!("round {round}");
        let guard = behind.hold().await;
        behind.proxy.aim(&["EVALSHA", "EVAL"]);
        behind.proxy.swallow_next_replies(1);
        let mutex = behind.own.mutex(NAME).ttl(TTL).wait(Duration::from_millis(200));
        let waiter = tokio::spawn(async move { mutex.lock().await.map(drop) });
        behind.until_waiting(1, &what).await;
        let error = waiter.await.expect("no panic").expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{what}: {error}");
        behind.proxy.heal();
        behind.until_waiting(0, &what).await;
        assert_eq!(guard.release().await, Released::Held, "{what}");
        // Free at once: nobody was handed it.
        let next = behind.hold().await;
        assert_eq!(next.release().await, Released::Held, "{what}");
    }
}

/// Goal: nobody is forgotten, however late `SUBSCRIBE`, its confirmation and the message are, and no
/// two hold the lock. Method: each wait is that of a new client, whose network is slow by a time that
/// changes all the while; the lock is released at any moment of its beginning. Two hundred waits;
/// two thousand with `FENCELOCK_SOAK`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_forgotten_whose_subscription_and_messages_are_late() {
    const LANES: u64 = 20;
    let is_soak = std::env::var_os("FENCELOCK_SOAK").is_some();
    let waits = if is_soak { 2_000 } else { 200 };
    let server = RedisServer::start();
    let proxy = Arc::new(Proxy::before(&server));
    let direct = client(&server.url());
    let weather = Weather::begin(&proxy);
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let (direct, url) = (direct.clone(), proxy.url());
            tokio::spawn(async move {
                let mut random = Random(lane + 1);
                let mut longest = Duration::ZERO;
                for _ in 0..waits / LANES {
                    longest = longest.max(late(&direct, &url, lane, &mut random).await);
                }
                longest
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for lane in lanes {
        longest = longest.max(lane.await.expect("no lane panics"));
    }
    drop(weather);
    println!("{waits} waits: each was served within {longest:?} of the release");
    eventually(LIMIT, "nobody listens", || subscriptions(&server) == 0);
    let keys: u64 = redis::cmd("DBSIZE").query(&mut server.connect()).expect("a number");
    assert!(keys <= LANES, "{keys} keys");
}

/// One wait. How long after the release it ended.
async fn late(direct: &Client, url: &str, lane: u64, random: &mut Random) -> Duration {
    let name = format!("job:{lane}");
    let mutex = direct.mutex(name.as_str()).ttl(TTL);
    let holder = mutex.try_lock().await.expect("the server answers").granted().expect("it is free");
    let token = holder.fencing_token();
    let own = client(url);
    let mutex = own.mutex(name.as_str()).ttl(TTL);
    let waiter = tokio::spawn(async move {
        let guard = mutex.lock().await.expect("the server answers");
        (guard, Instant::now())
    });
    tokio::time::sleep(Duration::from_millis(random.below(160))).await;
    assert!(!waiter.is_finished() && holder.is_valid(), "two hold it");
    let start = Instant::now();
    assert_eq!(holder.release().await, Released::Held);
    let waited = tokio::time::timeout(HEART_BEAT, waiter).await.expect("it is not forgotten");
    let (guard, at) = waited.expect("no panic");
    assert!(guard.fencing_token() > token && guard.is_valid(), "{guard:?}");
    assert_eq!(guard.release().await, Released::Held);
    own.close().await;
    at.saturating_duration_since(start)
}

/// Changes how slow a network is, in each direction, until it is dropped.
struct Weather {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Weather {
    fn begin(proxy: &Arc<Proxy>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (proxy, ended) = (Arc::clone(proxy), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            let mut random = Random(4_711);
            while !ended.load(Ordering::Relaxed) {
                proxy.delay_requests(Duration::from_millis(random.below(30)));
                proxy.delay_replies(Duration::from_millis(random.below(60)));
                std::thread::sleep(Duration::from_millis(5));
            }
            proxy.heal();
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Weather {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Reproducible choices: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
