//! Contenders for the lock of redis-lock 0.5, tasks that share one multiplexed connection.

#[path = "../../../../bench/src/contended/contender.rs"]
#[allow(dead_code, unreachable_pub)]
mod contender;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use contender::{Arguments, Record, Span, tell};
use redis_lock::{LockAcrossOptions, lock_across};

/// A critical section. Tokio's own timer counts whole milliseconds and would make one of 1 ms two.
async fn sleep(section: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(section));
    slept.await.expect("no panic");
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    let client = redis::Client::open(arguments.url.as_str()).expect("a URL");
    let connection = client.get_multiplexed_async_connection().await.expect("the server runs");
    let span = Span::agree();
    let tasks: Vec<_> = arguments
        .owners()
        .map(|owner| {
            // A mutex each: what it guards is multiplexed, so nobody waits for another's answer.
            let connections = [Arc::new(tokio::sync::Mutex::new(connection.clone()))];
            let arguments = arguments.clone();
            tokio::spawn(async move {
                // The section is a future that owns what it needs, so the record is shared with it.
                let record = Arc::new(Mutex::new(Record::new(owner, span)));
                let write = |what: fn(&mut Record)| what(&mut record.lock().expect("no panic"));
                tokio::time::sleep(span.until_start()).await;
                while record.lock().expect("no panic").call() {
                    loop {
                        let mut options =
                            LockAcrossOptions { ttl: arguments.ttl, ..Default::default() };
                        if arguments.setting == "fast" {
                            options.retry = Duration::from_millis(1);
                        }
                        let (inside, section) = (Arc::clone(&record), arguments.section);
                        let work = async move {
                            inside.lock().expect("no panic").acquired();
                            if !section.is_zero() {
                                sleep(section).await;
                            }
                            inside.lock().expect("no panic").releasing();
                        };
                        match lock_across(&connections, &arguments.name, work, options).await {
                            Ok(()) => break write(Record::released),
                            Err(_) => write(Record::failed),
                        }
                    }
                }
                drop(connections);
                Arc::try_unwrap(record).expect("nobody else has it").into_inner().expect("no panic")
            })
        })
        .collect();
    let mut records = Vec::new();
    for task in tasks {
        records.push(task.await.expect("no panic"));
    }
    tell(&records);
}
