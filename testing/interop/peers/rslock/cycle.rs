//! Acquire + release of rslock 0.10 without contention, for `bench/src/bin/quorum_cycle.rs`.
//!
//! ```text
//!   started with TTL_MS URL ...; then, for each line `TASKS CYCLES` on standard input:
//!   so many tasks, each on a name of its own, do so many cycles in all  -> NANOSECONDS FAILED
//! ```
//! All tasks share one manager, as its documentation has it. A cycle that fails is made again.

use std::{
    io::BufRead as _,
    time::{Duration, Instant},
};

use rslock::LockManager;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let ttl = arguments.next().and_then(|ttl| ttl.parse().ok()).expect("TTL_MS URL ...");
    let (ttl, urls) = (Duration::from_millis(ttl), arguments.collect::<Vec<_>>());
    let manager = LockManager::new(urls);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let (tasks, cycles) = line.split_once(' ').expect("TASKS CYCLES");
        let (tasks, cycles): (u64, u64) =
            (tasks.parse().expect("a number"), cycles.parse().expect("a number"));
        let start = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|task| {
                let manager = manager.clone();
                tokio::spawn(async move {
                    let (name, mut failed) = (format!("bench:rslock:{task}"), 0_u64);
                    for _ in 0..cycles / tasks {
                        let lock = loop {
                            match manager.lock(name.as_str(), ttl).await {
                                Ok(lock) => break lock,
                                Err(_) => failed += 1,
                            }
                        };
                        lock.release().await;
                    }
                    failed
                })
            })
            .collect();
        let mut failed = 0;
        for task in running {
            failed += task.await.expect("no panic");
        }
        println!("{} {failed}", start.elapsed().as_nanos());
    }
}
