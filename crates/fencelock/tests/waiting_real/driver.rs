//! What the other processes of these tests do: they read commands, and write down what happens.
//!
//! ```text
//!   lock ID NAME MODE TTL_MS   -> @granted ID NS TOKEN, and @lost ID NS REASON
//!   release ID                 -> @releasing ID NS, @released ID NS WHAT
//!   valid N ID                 -> @valid N NS true|false
//!   questions N                -> @questions N NS COUNT
//!   waiting N NAME             -> @waiting N NS COUNT           in the line at the store
//!   remaining N NAME           -> @remaining N NS MICROSECONDS  of the lease
//!   many ID COUNT NAME MODE    -> @served ID NS COUNT           each of many tasks has had the lock
//!   park ID COUNT NAMES        -> @parked ID NS FUTURE_BYTES    before they call `lock`
//!   begin N                    -> @begin N NS                   when all of them have called it
//!   rss N                      -> @rss N NS BYTES
//!   bounce ID ROUNDS NAME MS   -> @bounced ID NS TOKEN:ACQUIRED:RELEASING ...
//!   contend COUNT NAME TTL DIR -> see `chaos`
//! ```
//! The end of standard input is the end of the process.

use std::{
    collections::HashMap,
    io::BufRead as _,
    path::Path,
    str::FromStr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fencelock::{
    Client, Guard, Inspection, Store,
    store::{FaultyStore, Verb},
};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{oneshot, watch};

use crate::chaos::Contention;

/// Nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).expect("it counts from the start");
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Writes an event, in one piece.
pub(crate) fn tell(kind: &str, id: &str, rest: impl std::fmt::Display) {
    tell_at(now(), kind, id, rest);
}

fn tell_at(at: u64, kind: &str, id: &str, rest: impl std::fmt::Display) {
    eprintln!("@{kind} {id} {at} {rest}");
}

#[test]
#[ignore = "the other processes of these tests"]
fn driver() {
    let Ok(url) = std::env::var("FENCELOCK_TEST_DRIVER") else { return };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    let _entered = runtime.enter();
    let driver =
        Driver::new(&url, std::env::var("FENCELOCK_TEST_MANNER").as_deref() == Ok("plain"));
    tell("ready", "driver", "");
    for line in std::io::stdin().lock().lines() {
        driver.carry_out(&line.expect("text"));
    }
    // At once: nothing is given back.
    std::process::exit(0);
}

type Calls = Arc<dyn Fn() -> u64 + Send + Sync>;

struct Driver {
    client: Client,
    calls: Calls,
    guards: Arc<Mutex<HashMap<String, Held>>>,
    gate: watch::Sender<bool>,
    called: Arc<AtomicU64>,
    parked: AtomicU64,
    contention: Contention,
}

/// A guard, in the hands of the task that looks whether it is lost.
struct Held {
    release: oneshot::Sender<()>,
    is_valid: Box<dyn Fn(oneshot::Sender<bool>) + Send>,
}

impl Driver {
    fn new(url: &str, plain: bool) -> Self {
        let (client, calls) = if plain {
            let client = Client::builder(url).build().expect("the url is right");
            (client, Arc::new(|| 0_u64) as Calls)
        } else {
            counted(url)
        };
        Self {
            client,
            calls,
            guards: Arc::default(),
            gate: watch::channel(false).0,
            called: Arc::default(),
            parked: AtomicU64::new(0),
            contention: Contention::default(),
        }
    }

    fn carry_out(&self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["lock", id, name, mode, ttl] => self.lock(id, name, mode, millis(ttl)),
            ["release", id] => {
                let held = self.guards.lock().unwrap().remove(id).expect("it is held");
                let _ = held.release.send(());
            }
            ["valid", n, id] => {
                let (send, receive) = oneshot::channel();
                (self.guards.lock().unwrap().get(id).expect("it was held").is_valid)(send);
                let n = n.to_owned();
                tokio::spawn(async move { tell("valid", &n, receive.await.unwrap()) });
            }
            ["questions", n] => tell("questions", n, (self.calls)()),
            ["waiting" | "remaining", n, name] => self.inspect(words[0], n, name),
            ["many", id, count, name, mode] => self.many(id, number(count), name, mode),
            ["park", id, count, names] => self.park(id, number(count), number(names)),
            ["begin", n] => self.begin(n),
            ["rss", n] => tell("rss", n, rss()),
            ["bounce", id, rounds, name, hold] => {
                self.bounce(id, number(rounds), name, millis(hold));
            }
            ["contend", count, name, ttl, folder] => {
                let ttl = millis(ttl);
                self.contention.begin(&self.client, number(count), name, ttl, Path::new(folder));
            }
            ["pause", n] => self.contention.pause(n),
            ["resume", n] => self.contention.resume(n),
            ["stop", n] => self.contention.stop(n),
            _ => panic!("no such command: {line}"),
        }
    }

    fn inspect(&self, what: &str, n: &str, name: &str) {
        let (client, what) = (self.client.clone(), what.to_owned());
        let (n, name) = (n.to_owned(), name.to_owned());
        tokio::spawn(async move {
            let found = client.inspect(name.as_str()).await.expect("the store answers");
            let Inspection::Held(holder) = found else { return tell(&what, &n, 0) };
            if what == "waiting" {
                return tell(&what, &n, holder.waiting);
            }
            tell(&what, &n, holder.remaining.expect("a lease that ends").as_micros());
        });
    }

    fn lock(&self, id: &str, name: &str, mode: &str, ttl: Duration) {
        let mutex = ordered(self.client.mutex(name).ttl(ttl), mode);
        let (id, guards) = (id.to_owned(), Arc::clone(&self.guards));
        tokio::spawn(async move {
            let guard = match mutex.lock().await {
                Ok(guard) => guard,
                Err(error) => return tell("failed", &id, error),
            };
            let at = now();
            keep(&id, at, guard, &guards);
        });
    }

    /// Each of many tasks takes the lock once.
    fn many(&self, id: &str, count: u64, name: &str, mode: &str) {
        let served = Arc::new(AtomicU64::new(0));
        for _ in 0..count {
            let mutex = ordered(self.client.mutex(name), mode);
            let (id, served) = (id.to_owned(), Arc::clone(&served));
            tokio::spawn(async move {
                let guard = match mutex.lock().await {
                    Ok(guard) => guard,
                    Err(error) => return tell("failed", &id, error),
                };
                guard.release().await;
                let before = served.fetch_add(1, Ordering::Relaxed);
                if before + 1 == count {
                    tell("served", &id, count);
                }
            });
        }
    }

    /// Tasks that are about to wait.
    fn park(&self, id: &str, count: u64, names: u64) {
        self.parked.store(count, Ordering::Relaxed);
        let served = Arc::new(AtomicU64::new(0));
        let mut bytes = 0;
        for task in 0..count {
            let mutex = self.client.mutex(format!("job:{}", task % names));
            let (id, served) = (id.to_owned(), Arc::clone(&served));
            let (mut gate, called) = (self.gate.subscribe(), Arc::clone(&self.called));
            let future = async move {
                gate.wait_for(|open| *open).await.expect("the driver lives");
                drop(gate);
                called.fetch_add(1, Ordering::Relaxed);
                let guard = match mutex.lock().await {
                    Ok(guard) => guard,
                    Err(error) => return tell("failed", &id, error),
                };
                guard.release().await;
                let before = served.fetch_add(1, Ordering::Relaxed);
                if before + 1 == count {
                    tell("served", &id, count);
                }
            };
            bytes = size_of_val(&future);
            tokio::spawn(future);
        }
        tell("parked", id, bytes);
    }

    fn begin(&self, n: &str) {
        self.gate.send_replace(true);
        let (n, called, parked) = (n.to_owned(), Arc::clone(&self.called), &self.parked);
        let parked = parked.load(Ordering::Relaxed);
        tokio::spawn(async move {
            while called.load(Ordering::Relaxed) < parked {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tell("begin", &n, "");
        });
    }

    /// Takes the lock again and again, and holds it for a while each time.
    fn bounce(&self, id: &str, rounds: u64, name: &str, hold: Duration) {
        let (mutex, id) = (self.client.mutex(name), id.to_owned());
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..rounds {
                let guard = mutex.lock().await.expect("the store works");
                let acquired = now();
                tokio::time::sleep(hold).await;
                let token = guard.fencing_token().expect("native locks have one");
                let releasing = now();
                guard.release().await;
                times.push(format!("{token}:{acquired}:{releasing}"));
            }
            tell("bounced", &id, times.join(" "));
        });
    }
}

/// Keeps a guard in a task that says when it is lost.
fn keep(id: &str, at: u64, guard: Guard, guards: &Mutex<HashMap<String, Held>>) {
    let (release, mut released) = oneshot::channel();
    let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel::<oneshot::Sender<bool>>();
    let is_valid = Box::new(move |answer| ask.send(answer).expect("the guard is kept"));
    guards.lock().unwrap().insert(id.to_owned(), Held { release, is_valid });
    let token = guard.fencing_token().map_or(0, |token| token.as_u64());
    tell_at(at, "granted", id, token);
    let id = id.to_owned();
    tokio::spawn(async move {
        let mut told = false;
        loop {
            tokio::select! {
                _ = &mut released => break,
                Some(answer) = asked.recv() => {
                    let _ = answer.send(guard.is_valid());
                }
                reason = guard.lost(), if !told => {
                    told = true;
                    tell("lost", &id, format!("{reason:?}"));
                }
            }
        }
        tell("releasing", &id, "");
        let what = guard.release().await;
        tell("released", &id, format!("{what:?}"));
    });
}

pub(crate) fn ordered(mutex: fencelock::Mutex, mode: &str) -> fencelock::Mutex {
    match mode {
        "default" => mutex,
        "strict" => mutex.strict_fifo(),
        "barging" => mutex.barging(),
        other => panic!("no such order: {other}"),
    }
}

/// A client that counts what it asks.
fn counted(url: &str) -> (Client, Calls) {
    if let Some(path) = url.strip_prefix("sqlite:") {
        return count(fencelock_sqlite::SqliteStore::open(path).expect("the path is right"));
    }
    let url = url.parse().expect("the url is right");
    count(fencelock_redis::RedisStore::builder(url).build().expect("the settings are right"))
}

fn count<S: Store + Clone + 'static>(store: S) -> (Client, Calls) {
    let faulty = FaultyStore::new(store);
    let client = Client::with_store(Arc::new(faulty.clone()) as Arc<dyn Store>);
    (client, Arc::new(move || faulty.calls(Verb::Acquire)))
}

fn number<N: FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(number(text))
}

/// How much memory this process has now.
fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    number::<u64>(line.and_then(|line| line.split_whitespace().next()).expect("kilobytes")) * 1024
}
