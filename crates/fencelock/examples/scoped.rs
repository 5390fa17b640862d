//! Scoped work: the shortest way to be the only one.
//!
//! `cargo run --example scoped [STORE]`, in two terminals with a store that both can reach.

use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), fencelock::Error> {
    example(&std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned())).await
}

pub(crate) async fn example(store: &str) -> Result<(), fencelock::Error> {
    let locks = fencelock::connect(store).await?;

    let lock = locks
        .mutex("invoice:42")
        .ttl(Duration::from_secs(10))
        .wait(Duration::from_secs(30))
        .on_busy(|busy| println!("{} is held by {}", busy.name, busy.holder));

    // The work is dropped when the lock is lost, and the lock is given back when the work ends.
    let receipt = lock.run(|held| async move { charge(held.fencing_token()).await }).await?;
    println!("{receipt}");

    locks.close().await;
    Ok(())
}

/// Whatever is charged checks the number: it refuses one that is smaller than the last it saw.
async fn charge(fencing_token: Option<fencelock::FencingToken>) -> String {
    tokio::time::sleep(Duration::from_millis(100)).await;
    match fencing_token {
        Some(number) => format!("charged once, with fencing token {number}"),
        None => "charged, without a fencing token".to_owned(),
    }
}
