//! Contenders for the lock of rslock 0.10, tasks that share one manager.

#[path = "../../../../bench/src/contended/contender.rs"]
#[allow(dead_code, unreachable_pub)]
mod contender;

use std::time::Duration;

use contender::{Arguments, Record, Span, tell};
use rslock::LockManager;

/// A critical section. Tokio's own timer counts whole milliseconds and would make one of 1 ms two.
async fn sleep(section: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(section));
    slept.await.expect("no panic");
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    let mut manager = LockManager::new(vec![arguments.url.as_str()]);
    if arguments.setting == "fast" {
        manager.set_retry(u32::MAX, Duration::from_millis(2));
    }
    let span = Span::agree();
    let tasks: Vec<_> = arguments
        .owners()
        .map(|owner| {
            let (arguments, manager) = (arguments.clone(), manager.clone());
            tokio::spawn(async move {
                let mut record = Record::new(owner, span);
                tokio::time::sleep(span.until_start()).await;
                while record.call() {
                    let guard = loop {
                        match manager.acquire(arguments.name.as_str(), arguments.ttl).await {
                            Ok(guard) => break guard,
                            Err(_) => record.failed(),
                        }
                    };
                    record.acquired();
                    if !arguments.section.is_zero() {
                        sleep(arguments.section).await;
                    }
                    record.releasing();
                    guard.release().await;
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
