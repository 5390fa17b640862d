//! A guard: for work that is not one future.
//!
//! `cargo run --example guard [STORE]`

use std::time::Duration;

use fencelock::{Attempt, Released};

#[tokio::main]
async fn main() -> Result<(), fencelock::Error> {
    example(&std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned())).await
}

pub(crate) async fn example(store: &str) -> Result<(), fencelock::Error> {
    let locks = fencelock::connect(store).await?;

    let guard = match locks.mutex("nightly-report").ttl(Duration::from_secs(10)).try_lock().await? {
        Attempt::Granted(guard) => guard,
        Attempt::Busy(busy) => {
            println!("not tonight: it is held by {}", busy.holder);
            return Ok(());
        }
    };

    for page in 1..=3 {
        // Between steps, and not only at the start: a lease can be lost.
        if !guard.is_valid() {
            println!("stopped at page {page}: {:?}", guard.state());
            break;
        }
        println!("page {page}, valid for {:?} if nobody renewed it", guard.validity_left());
    }

    match guard.release().await {
        Released::Held => println!("done"),
        other => println!("the lock was lost before the end: {other:?}"),
    }
    locks.close().await;
    Ok(())
}
