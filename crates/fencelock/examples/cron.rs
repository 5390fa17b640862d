//! A nightly job that two machines start by their own clocks, and that one of them does.
//!
//! `cargo run -p fencelock --example cron`; three nights pass in no time, on a clock that is moved.

use std::{sync::Arc, time::Duration};

use fencelock::{Attempt, Client, ManualClock, MemoryStore};

mod shown;

use shown::{Outcome, shown};

/// More than the clocks of the machines can differ by, and less than a day.
const MIN_HOLD: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Machine {
    locks: Client,
    reports: u32,
}

impl Machine {
    /// What its cron starts at three o'clock, by its own clock.
    async fn three_o_clock(&mut self, clock: &ManualClock) -> Result<(), fencelock::Error> {
        let job = self.locks.mutex("nightly-report").min_hold(MIN_HOLD).class("cron");
        if let Attempt::Granted(guard) = job.try_lock().await? {
            clock.advance(Duration::from_secs(1)); // The job takes a second.
            self.reports += 1;
            guard.release().await;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome {
    example().await
}

pub(crate) async fn example() -> Outcome {
    let clock = ManualClock::new();
    let store = MemoryStore::manual(clock.clone());
    let machine = || Machine { locks: Client::with_store(Arc::new(store.clone())), reports: 0 };
    let (mut early, mut late) = (machine(), machine());

    for night in 1..=3 {
        early.three_o_clock(&clock).await?;
        // The clock of the other is twenty seconds behind: the job is over, the lock still held.
        clock.advance(Duration::from_secs(20));
        late.three_o_clock(&clock).await?;
        shown(early.reports + late.reports == night, "one report in a night")?;
        clock.advance(DAY);
    }
    // Without the machine that was always first, the other does it.
    late.three_o_clock(&clock).await?;
    shown(late.reports == 1, "the other machine takes over when the first is gone")
}
