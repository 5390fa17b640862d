//! No more than the limit at the same time, on all machines together.
//!
//! `cargo run --example semaphore [STORE]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fencelock::{Client, Error};

const GPUS: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = fencelock::connect(store).await?;
    example(&locks).await
}

/// Eight jobs that want one to three of four.
pub(crate) async fn example(locks: &Client) -> Result<(), Error> {
    let gpus = locks.semaphore("gpu", GPUS).ttl(Duration::from_secs(10));
    let in_use = Arc::new(AtomicU32::new(0));

    let jobs = (0..8_u32).map(|job| {
        let (gpus, in_use) = (gpus.clone(), Arc::clone(&in_use));
        tokio::spawn(async move {
            let permits = 1 + job % 3;
            let work = |held: fencelock::PermitHeld| async move {
                let now = in_use.fetch_add(held.permits(), Ordering::SeqCst) + held.permits();
                println!("job {job} has {permits}, {now} of {GPUS} are in use");
                assert!(now <= GPUS);
                tokio::time::sleep(Duration::from_millis(20)).await;
                in_use.fetch_sub(permits, Ordering::SeqCst);
            };
            gpus.run_many(permits, work).await
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.expect("no job panics")?;
    }

    // Who says another limit is told both.
    println!("{}", locks.semaphore("gpu", 8).acquire().await.expect_err("they disagree"));
    Ok(())
}
