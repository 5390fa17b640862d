//! Tasks that are dropped at random moments, on many threads.

use std::{
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use fencelock::{Clock, Guard, Moment};

use crate::stores::{SOON, Stores, TTL, is_free};

/// Goal: many threads, many tasks, dropped at random moments: no two hold, nobody is stalled, and
/// nothing is left. For three seconds; for thirty with `FENCELOCK_SOAK`.
#[test]
fn tasks_of_many_threads_that_are_dropped_at_any_moment_stall_nobody() {
    const TASKS: u64 = 24;
    let seconds = if std::env::var_os("FENCELOCK_SOAK").is_some() { 30 } else { 3 };
    let stores = Stores::new();
    let (own, other) = stores.pairs.last().unwrap();
    let workers =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let holds = Arc::new(Holds::default());
    workers.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                let client = if n % 8 == 7 { other.clone() } else { own.clone() };
                let holds = Arc::clone(&holds);
                tokio::spawn(async move {
                    let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(n + 1);
                    while Instant::now() < end {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let mutex = client.mutex("job").ttl(TTL);
                        let mutex = match random % 11 {
                            0 => mutex.strict_fifo(),
                            1 => mutex.barging(),
                            2 => mutex.wait(Duration::from_micros(random % 2_000)),
                            3 => mutex.ttl(2 * TTL),
                            _ => mutex,
                        };
                        let (clock, holds) = (client.clock(), Arc::clone(&holds));
                        let work = async move {
                            let Ok(guard) = mutex.lock().await else { return };
                            let mut inside = Inside::new(guard, clock, &holds);
                            tokio::task::yield_now().await;
                            let Some(guard) = inside.leave() else { return };
                            if random & 64 == 0 {
                                drop(guard);
                            } else {
                                guard.release().await;
                            }
                        };
                        let dropped_after = random >> 60;
                        if dropped_after < 8 {
                            let mut work = Box::pin(work);
                            for _ in 0..dropped_after {
                                let once = std::future::poll_fn(|context| {
                                    Poll::Ready(work.as_mut().poll(context).is_ready())
                                });
                                if once.await {
                                    break;
                                }
                                tokio::task::yield_now().await;
                            }
                        } else {
                            tokio::time::timeout(4 * SOON, work).await.expect("nobody is stalled");
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        is_free(own, other, &["job"], "after the stress").await;
    });
    let grants = holds.check();
    println!("{grants} grants in {seconds} s");
    assert!(grants > 100 * seconds, "{grants} grants in {seconds} s");
}

/// Every hold there was, as long as it was certainly valid.
#[derive(Default)]
struct Holds(std::sync::Mutex<Vec<(Moment, Moment, String)>>);

impl Holds {
    /// How many there were; no two at the same time.
    fn check(&self) -> u64 {
        let mut holds = self.0.lock().unwrap();
        holds.sort();
        for pair in holds.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two held it: {pair:#?}");
        }
        holds.len() as u64
    }
}

/// A guard that is in use.
struct Inside {
    guard: Option<Guard>,
    clock: Clock,
    since: Moment,
    holds: Arc<Holds>,
}

impl Inside {
    fn new(guard: Guard, clock: Clock, holds: &Arc<Holds>) -> Self {
        let since = clock.now();
        Self { guard: Some(guard), clock, since, holds: Arc::clone(holds) }
    }

    fn leave(&mut self) -> Option<Guard> {
        let guard = self.guard.take()?;
        let until = self.clock.now();
        // A machine that stands still for longer than a claim makes a hold that is over.
        if guard.is_valid() {
            let hold = (self.since, until, format!("{guard:?}"));
            self.holds.0.lock().unwrap().push(hold);
        } else {
            eprintln!(
                "over before it ended: {guard:?}, after {:?}",
                until.saturating_since(self.since)
            );
        }
        Some(guard)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        drop(self.leave());
    }
}
