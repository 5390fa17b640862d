//! Contenders for the lock of distributed-lock 0.2, tasks that share one provider.
//!
//! Its `acquire` answers at once when the lock is held, whatever time it is given, so the waiting
//! is done here.

#[path = "../../../../bench/src/contended/contender.rs"]
#[allow(dead_code, unreachable_pub)]
mod contender;

use std::time::Duration;

use contender::{Arguments, Record, Span, tell};
use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::RedisLockProvider;

/// A critical section. Tokio's own timer counts whole milliseconds and would make one of 1 ms two.
async fn sleep(section: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(section));
    slept.await.expect("no panic");
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    let provider = RedisLockProvider::builder()
        .url(&arguments.url)
        .expiry(arguments.ttl)
        .min_validity(arguments.ttl * 9 / 10)
        .extension_cadence(arguments.ttl / 3)
        .build()
        .await
        .expect("the server runs");
    let pause = Duration::from_millis(if arguments.setting == "fast" { 1 } else { 100 });
    let span = Span::agree();
    let tasks: Vec<_> = arguments
        .owners()
        .map(|owner| {
            let lock = provider.create_lock(&arguments.name);
            let section = arguments.section;
            tokio::spawn(async move {
                let mut record = Record::new(owner, span);
                tokio::time::sleep(span.until_start()).await;
                while record.call() {
                    let handle = loop {
                        match lock.try_acquire().await {
                            Ok(Some(handle)) => break handle,
                            Ok(None) => {}
                            Err(_) => record.failed(),
                        }
                        tokio::time::sleep(pause).await;
                    };
                    record.acquired();
                    if !section.is_zero() {
                        sleep(section).await;
                    }
                    record.releasing();
                    if handle.release().await.is_err() {
                        record.failed();
                    }
                    record.released();
                }
                record
            })
        })
        .collect();
    let mut records = Vec::new();
    for task in tasks {
        records.push(task.await.expect("no panic"));
    }
    tell(&records);
}
