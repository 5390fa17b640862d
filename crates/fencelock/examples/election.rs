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
    let address = words.next();
    let locks = fencelock::connect(store).await?;
    // A leader that dies is followed within the ttl; one that stops is followed at once.
    let election = locks.election("scheduler").ttl(Duration::from_secs(10));

    let Some(address) = address else {
        let mut leaders = election.observe();
        while let Some(observed) = leaders.next().await {
            match observed {
                Ok(Observed::Leader(leader)) => println!("term {:?}: {}", leader.term, leader.info),
                Ok(_) => println!("nobody leads"),
                Err(error) => println!("who leads is not known: {error}"),
            }
        }
        return Ok(());
    };
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
            () = tokio::time::sleep(Duration::from_secs(1)) => println!("tick {tick}"),
            // Somebody asked for it, with `fencelock revoke scheduler`: let others lead first.
            () = leading.revoked() => return ControlFlow::Continue(()),
        }
    }
    ControlFlow::Break(5)
}
