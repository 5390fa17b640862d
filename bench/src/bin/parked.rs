//! One waiter that has slept for a while, and how long after the release it has the lock; beside a bare PUBLISH
//! to a subscriber that has slept as long, in turn.
//!
//! ```console
//! cargo run --release -p fencelock-bench --bin parked -- --rounds 100 --millis 300
//! ```
//! Holder and waiter are two clients in two threads with a runtime each. A round of either kind: the one that waits
//! sleeps for so many milliseconds; then the clock is read, the lock given back or the message sent, and the clock is
//! read again where it arrived. Redis, the embedded file beside it. Goal: 0.25 ms.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use fencelock::Client;
use fencelock_bench::option;
use fencelock_testkit::RedisServer;
use redis::{AsyncConnectionConfig, PushKind};
use tokio::sync::mpsc::unbounded_channel;

const GOAL: Duration = Duration::from_micros(250);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Waits for the lock as often as it is told to, and tells when it had it.
fn waiter(url: &str, go: &Receiver<()>, told: &Sender<Instant>) {
    runtime().block_on(async {
        let client = Client::builder(url).build().expect("a client");
        while go.recv().is_ok() {
            let guard = client.mutex("job").lock().await.expect("it is given back");
            let at = Instant::now();
            guard.release().await;
            told.send(at).expect("somebody counts");
        }
    });
}

/// How long each hand-over took.
fn handovers(url: &str, rounds: u32, pause: Duration) -> Vec<Duration> {
    let (go, next) = channel();
    let (told, arrived) = channel();
    let theirs = url.to_owned();
    let thread = thread::spawn(move || waiter(&theirs, &next, &told));
    let client = Client::builder(url).build().expect("a client");
    let took = runtime().block_on(async {
        let mut took = Vec::new();
        for _ in 0..rounds {
            let guard = client.mutex("job").lock().await.expect("it is free");
            go.send(()).expect("the waiter lives");
            tokio::time::sleep(pause).await;
            let from = Instant::now();
            guard.release().await;
            took.push(arrived.recv().expect("it has it").saturating_duration_since(from));
        }
        took
    });
    drop(go);
    thread.join().expect("the waiter ends");
    took
}

/// How long each message took.
fn messages(url: &str, rounds: u32, pause: Duration) -> Vec<Duration> {
    let (told, arrived) = channel();
    let client = redis::Client::open(format!("{url}?protocol=resp3")).expect("a url");
    let (listening, listens) = channel();
    let theirs = client.clone();
    thread::spawn(move || {
        runtime().block_on(async {
            let (sender, mut pushed) = unbounded_channel();
            let config = AsyncConnectionConfig::new().set_push_sender(sender);
            let connected = theirs.get_multiplexed_async_connection_with_config(&config).await;
            let mut connection = connected.expect("it runs");
            connection.subscribe("job").await.expect("SUBSCRIBE");
            listening.send(()).expect("somebody asks");
            while let Some(push) = pushed.recv().await {
                if push.kind == PushKind::Message && told.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
    });
    listens.recv().expect("it listens");
    runtime().block_on(async {
        let mut connection = client.get_multiplexed_async_connection().await.expect("it runs");
        let mut took = Vec::new();
        for _ in 0..rounds {
            tokio::time::sleep(pause).await;
            let from = Instant::now();
            let mut publish = redis::cmd("PUBLISH");
            let sent = publish.arg("job").arg(1).query_async(&mut connection).await;
            let _: i64 = sent.expect("PUBLISH");
            took.push(arrived.recv().expect("it came").saturating_duration_since(from));
        }
        took
    })
}

fn report(what: &str, mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let at = |share: usize| took[(took.len() - 1) * share / 100].as_secs_f64() * 1e6;
    let within = took.iter().filter(|span| **span <= GOAL).count() * 100 / took.len();
    println!("| {what} | {:.0} | {:.0} | {:.0} | {within} % |", at(50), at(90), at(99));
    at(50)
}

fn main() {
    let rounds = u32::try_from(option("--rounds", 100)).expect("not so many");
    let pause = Duration::from_millis(option("--millis", 300) as u64);
    let server = RedisServer::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("sqlite:{}", folder.path().join("locks.db").display());
    let (mut bare, mut ours, mut embedded) = (Vec::new(), Vec::new(), Vec::new());
    // In turn, so that what disturbs the machine disturbs all.
    for _ in 0..10 {
        bare.extend(messages(&server.url(), rounds.div_ceil(10), pause));
        ours.extend(handovers(&server.url(), rounds.div_ceil(10), pause));
        embedded.extend(handovers(&file, rounds.div_ceil(10), pause));
    }
    println!("parked for {pause:?}, us from the release to the next owner's return\n");
    println!("| what | median | 90 % | 99 % | within {GOAL:?} |\n|---|---|---|---|---|");
    let floor = report("a bare PUBLISH", bare);
    let redis = report("Redis", ours);
    let _ = report("the embedded file", embedded);
    println!("\nRedis is {:.2} times the bare message", redis / floor);
}
