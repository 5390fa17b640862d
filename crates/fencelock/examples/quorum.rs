//! A lock on five independent servers, of which any two may be away.
//!
//! `cargo run --example quorum --features quorum [STORE...]`; new Redis servers count after
//! `fencelock init`.
//!
//! What Redisson writes as `redLock.tryLock(500, 10_000, MILLISECONDS)`: wait for at most half a
//! second, and have the lock for ten seconds.

use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), fencelock::Error> {
    let mut stores: Vec<String> = std::env::args().skip(1).collect();
    if stores.is_empty() {
        stores = vec!["memory:".to_owned(); 5];
    }
    example(&stores).await
}

pub(crate) async fn example(stores: &[String]) -> Result<(), fencelock::Error> {
    let locks = fencelock::connect_quorum(stores).await?;

    let mutex =
        locks.mutex("invoice:42").ttl(Duration::from_secs(10)).wait(Duration::from_millis(500));
    match mutex.lock().await {
        Ok(guard) => {
            println!(
                "held on a majority of {} stores, for {:?}",
                stores.len(),
                guard.validity_left()
            );
            println!("fencing token {:?}", guard.fencing_token());
            println!("released: {:?}", guard.release().await);
        }
        Err(error) if error.is_wait_expired() => println!("somebody else has it: {error}"),
        Err(error) if error.is_no_quorum() => println!("too few stores answered: {error}"),
        Err(error) => return Err(error),
    }
    locks.close().await;
    Ok(())
}
