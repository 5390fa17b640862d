//! Threads without a runtime: four of them, and an account that is changed by one at a time.
//!
//! `cargo run --example blocking --features blocking [STORE]`

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use fencelock::blocking;

const THREADS: u32 = 4;
const DEPOSITS: u32 = 5;

fn main() -> Result<(), fencelock::Error> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    example(&store)
}

pub(crate) fn example(store: &str) -> Result<(), fencelock::Error> {
    let locks = blocking::connect(store)?;
    // Reading and writing are two steps: without the lock, deposits would be lost.
    let account = AtomicU32::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(|| deposits(&locks, &account))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let balance = account.load(Ordering::Relaxed);
    assert_eq!(balance, THREADS * DEPOSITS);
    println!("{balance} deposits, none lost");

    // A guard, for work that is not one closure.
    let guard = locks.mutex("account").lock()?;
    println!("closing, with fencing token {:?}", guard.fencing_token());
    assert_eq!(guard.release(), fencelock::Released::Held);
    locks.close();
    Ok(())
}

fn deposits(locks: &blocking::Client, account: &AtomicU32) -> Result<(), fencelock::Error> {
    let lock = locks.mutex("account").ttl(Duration::from_secs(10)).wait(Duration::from_secs(60));
    for _ in 0..DEPOSITS {
        lock.run(|held| {
            let balance = account.load(Ordering::Relaxed);
            thread::yield_now();
            // Nothing can stop a thread: it looks itself, between its steps.
            if held.is_valid() {
                account.store(balance + 1, Ordering::Relaxed);
            }
        })?;
    }
    Ok(())
}
