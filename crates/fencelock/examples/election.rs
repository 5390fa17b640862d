//! A scheduler that runs on one machine at a time, and moves when that one stops.
//!
//! `cargo run --example election STORE ADDRESS`, in several terminals with a store that all can reach;
//! without an address it only watches who leads.

use std::{ops::ControlFlow, time::Duration};

use fencelock::{Leading, Observed};

#[tokio::main]
async fn main() -> Result<(), fencelock::Error> {
    let mut words = std::env::args().skip(1);
    let store = words.next().unwrap_or_else(|| "memory:".to_owned());
    match words.next() {
        Some(address) => example(&store, address).await,
        None => watch(&store).await,
    }
}

async fn watch(store: &str) -> Result<(), fencelock::Error> {
    let locks = fencelock::connect(store).await?;
    let mut leaders = locks.election("scheduler").observe();
    while let Some(observed) = leaders.next().await {
        match observed {
            Ok(Observed::Leader(leader)) => println!("term {:?}: {}", leader.term, leader.info),
            Ok(_) => println!("nobody leads"),
            Err(error) => println!("who leads is not known: {error}"),
        }
    }
    Ok(())
}

pub(crate) async fn example(store: &str, address: String) -> Result<(), fencelock::Error> {
    let locks = fencelock::connect(store).await?;
    // A leader that dies is followed within the ttl; one that stops is followed at once.
    let election = locks.election("scheduler").ttl(Duration::from_secs(10));
    // Campaigns, leads, and campaigns again after a loss. The work is dropped when the leadership is
    // lost, before anybody else is elected.
    let ticks = election.lead(address, schedule).await?;
    println!("resigned after {ticks} ticks");

    locks.close().await;
    Ok(())
}

/// Whatever is written checks the term: it refuses one that is smaller than the last it saw.
async fn schedule(leading: Leading) -> ControlFlow<u32> {
    println!("leading, {:?}", leading.term());
    for tick in 1..=5 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(300)) => println!("tick {tick}"),
            // Somebody asked for it, with `fencelock revoke scheduler`: let others lead first.
            () = leading.revoked() => return ControlFlow::Continue(()),
        }
    }
    ControlFlow::Break(5)
}
