//! A waiter that goes just when the lock is handed to it.
//!
//! ```text
//!   holder    release ------------> server --- granted ---> waiter
//!   waiter          dropped ------> server                  (nobody reads it)
//! ```
//! Whichever is first at the server, the lock is free afterwards.

use std::{sync::Arc, time::Instant};

use fencelock::{Client, Released};
use tokio::sync::Notify;

use crate::stores::{Stores, TTL, is_drained, soon, take};

/// Names on which it happens at the same time.
const LANES: u64 = 20;
/// More yields than a release takes.
const FURTHEST: u64 = 100_000;

/// Goal: no orphan, whichever way a cancel and a release cross. Method: a task is aborted a random
/// number of yields after the release began, so many that about half of them have the lock by then.
/// When nothing is pending any more the lock has to be free: what was handed to a place that somebody
/// left would be held for a claim at least. Two thousand times at each store; ten thousand times
/// with `FENCELOCK_SOAK`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_and_a_release_that_cross_leave_no_orphan_on_every_store() {
    let is_soak = std::env::var_os("FENCELOCK_SOAK").is_some();
    let all = if is_soak { 10_000 } else { 2_000 };
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let (start, what) = (Instant::now(), own.store_display());
        let (mut random, mut aim, mut served) = (Random(0x9E37_79B9_7F4A_7C15), 16, 0);
        for round in 0..all / LANES {
            let what = format!("{what} round {round}");
            let lanes: Vec<_> = (0..LANES)
                .map(|lane| {
                    // Some are certainly too early or too late, most are about when it happens.
                    let (before, after) = (random.below(4), random.below(2 * aim));
                    let (own, other) = (own.clone(), other.clone());
                    tokio::spawn(async move { cross(&own, &other, lane, before, after).await })
                })
                .collect();
            let mut early = 0;
            for lane in lanes {
                early += u64::from(soon(&what, lane).await.expect("no lane panics"));
            }
            aim = if early > LANES / 2 { aim - aim / 8 } else { (aim + aim / 8 + 1).min(FURTHEST) };
            served += early;
            is_drained(own, &what).await;
            for lane in 0..LANES {
                let next = take(other.mutex(name(lane))).await;
                assert_eq!(next.release().await, Released::Held, "{what}");
            }
        }
        println!("{what}: {all} crossings in {:?}: {served} were served", start.elapsed());
        // Both sides of the crossing were seen.
        assert!(served > all / 50 && served < all - all / 50, "{what}: {served} of {all} served");
        own.clone().close().await;
        other.clone().close().await;
    }
}

fn name(lane: u64) -> String {
    format!("job:{lane}")
}

/// Releases the lock after some yields, and lets the waiter go after some others. Whether it had the
/// lock by then.
async fn cross(own: &Client, other: &Client, lane: u64, before: u64, after: u64) -> bool {
    let holder = take(other.mutex(name(lane))).await;
    let placed = Arc::new(Notify::new());
    let tell = Arc::clone(&placed);
    let mutex = own.mutex(name(lane)).ttl(TTL).on_busy(move |busy| {
        if busy.position.is_some() {
            tell.notify_one();
        }
    });
    let waiter = tokio::spawn(async move {
        let guard = mutex.lock().await.expect("the store works");
        guard.release().await
    });
    placed.notified().await;
    let release = tokio::spawn(async move {
        yields(before).await;
        holder.release().await
    });
    yields(after).await;
    waiter.abort();
    assert_eq!(release.await.expect("no panic"), Released::Held);
    match waiter.await {
        Ok(released) => {
            assert_eq!(released, Released::Held);
            true
        }
        Err(error) => {
            assert!(error.is_cancelled(), "{error}");
            false
        }
    }
}

async fn yields(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Reproducible choices: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
