//! Fencelock's driver for `--bin contended`, by its public API only. See `contended/contender.rs`.

use fencelock_bench::contended::contender::{Arguments, Record, Span, tell};

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    // `strict` and `barging` are named here when the library has them.
    assert_eq!(arguments.setting, "default", "the settings of this driver");
    let client = fencelock::connect(&arguments.url).await.expect("the server runs");
    let span = Span::agree();
    let tasks: Vec<_> = arguments
        .owners()
        .map(|owner| {
            let mutex = client.mutex(arguments.name.as_str()).ttl(arguments.ttl);
            let section = arguments.section;
            tokio::spawn(async move {
                let mut record = Record::new(owner, span);
                tokio::time::sleep(span.until_start()).await;
                while record.call() {
                    let Ok(guard) = mutex.lock().await else {
                        record.failed();
                        continue;
                    };
                    record.acquired();
                    if !section.is_zero() {
                        tokio::time::sleep(section).await;
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
