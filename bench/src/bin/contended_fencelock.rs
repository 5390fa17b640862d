//! Fencelock's driver for `--bin contended`, by its public API only. See `contended/contender.rs`.

use std::time::Duration;

use fencelock_bench::contended::contender::{Arguments, Record, Span, tell};

/// In which order the lock is given out.
#[derive(Clone, Copy)]
enum Mode {
    Default,
    Strict,
    Barging,
}

impl Mode {
    fn of(setting: &str) -> Self {
        match setting {
            "default" => Self::Default,
            "strict" => Self::Strict,
            "barging" => Self::Barging,
            other => panic!("this driver has no setting {other}"),
        }
    }
}

/// A critical section. Tokio's own timer counts whole milliseconds and would make one of 1 ms two.
async fn sleep(section: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(section));
    slept.await.expect("no panic");
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    let mode = Mode::of(&arguments.setting);
    let client = fencelock::connect(&arguments.url).await.expect("the server runs");
    let span = Span::agree();
    let tasks: Vec<_> = arguments
        .owners()
        .map(|owner| {
            let mutex = client.mutex(arguments.name.as_str()).ttl(arguments.ttl);
            let mutex = match mode {
                Mode::Default => mutex,
                Mode::Strict => mutex.strict_fifo(),
                Mode::Barging => mutex.barging(),
            };
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
                        sleep(section).await;
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
