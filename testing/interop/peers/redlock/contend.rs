//! Contenders for the lock of redlock 2.0, a thread each: its calls block.

#[path = "../../../../bench/src/contended/contender.rs"]
#[allow(dead_code, unreachable_pub)]
mod contender;

use contender::{Arguments, Record, Span, tell};
use redlock::RedLock;

fn main() {
    let arguments = Arguments::read();
    let mut locks = RedLock::new(vec![arguments.url.as_str()]);
    if arguments.setting == "fast" {
        locks.set_retry(u32::MAX, 2);
    }
    let ttl = usize::try_from(arguments.ttl.as_millis()).expect("a lease fits");
    let span = Span::agree();
    let contend = &|owner| {
        let mut record = Record::new(owner, span);
        std::thread::sleep(span.until_start());
        while record.call() {
            let guard = loop {
                match locks.acquire(arguments.name.as_bytes(), ttl) {
                    Ok(guard) => break guard,
                    Err(_) => record.failed(),
                }
            };
            record.acquired();
            if !arguments.section.is_zero() {
                std::thread::sleep(arguments.section);
            }
            record.releasing();
            drop(guard);
            record.released();
        }
        record
    };
    let records: Vec<Record> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            arguments.owners().map(|owner| scope.spawn(move || contend(owner))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    tell(&records);
}
