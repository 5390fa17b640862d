//! A process that takes the lock, works, gives it back, and begins again, until its standard input
//! ends.
//!
//! It stops working when it is told that the lock is lost. If validity was over when it left all
//! the same (the machine was starved), it says so: then an overlap is its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fencelock::{Client, Guard, Moment, Mutex, RestartGuard};
use fencelock_chaos::Random;
use fencelock_testkit::Witness;

use crate::record::{self, Notes};

/// The only ttl there is, so `max_ttl` too.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// How long an acquire may wait.
pub(crate) const WAIT: Duration = Duration::from_secs(15);

/// Longer than any section.
pub(crate) const LONGEST_WORK: Duration = Duration::from_secs(2);

/// What all workers of a run do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    /// How long a node that was restarted is not counted.
    pub(crate) quarantine: Duration,
    /// Whether nodes are asked how long they have been up, so that also a client that starts after
    /// a restart does not count them.
    pub(crate) guarded: bool,
    /// How many milliseconds a long section takes, at least and less than.
    pub(crate) long: (u64, u64),
    /// One in so many sections is long.
    pub(crate) long_in: u64,
}

impl Orders {
    /// A node counts as soon as it is back.
    pub(crate) const fn forgetting_nothing(self) -> Self {
        Self { quarantine: Duration::ZERO, guarded: false, ..self }
    }

    pub(crate) fn write(self, command: &mut Command, urls: &[String], folder: &Path, number: u64) {
        let (least, most) = self.long;
        command
            .env("FENCELOCK_TEST_URLS", urls.join(" "))
            .env("FENCELOCK_TEST_FOLDER", folder)
            .env("FENCELOCK_TEST_WORKER", number.to_string())
            .env("FENCELOCK_TEST_QUARANTINE_MS", self.quarantine.as_millis().to_string())
            .env("FENCELOCK_TEST_GUARDED", self.guarded.to_string())
            .env("FENCELOCK_TEST_WORK", format!("{least} {most} {}", self.long_in));
    }

    fn read() -> Self {
        let work: Vec<u64> = text("WORK").split(' ').map(|word| word.parse().unwrap()).collect();
        Self {
            quarantine: Duration::from_millis(number("QUARANTINE_MS")),
            guarded: number("GUARDED"),
            long: (work[0], work[1]),
            long_in: work[2],
        }
    }

    /// How long the next section takes.
    fn section(&self, random: &mut Random) -> Duration {
        let (least, most) = self.long;
        Duration::from_millis(match random.below(self.long_in) {
            0 => least + random.below(most - least),
            _ => random.below(30),
        })
    }
}

#[test]
#[ignore = "the other processes of these tests"]
fn worker() {
    if std::env::var_os("FENCELOCK_TEST_URLS").is_none() {
        return;
    }
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    std::thread::spawn(move || {
        // Nothing is ever written: it ends with the test.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        seen.store(true, Ordering::Relaxed);
    });
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(work(&over));
}

async fn work(over: &AtomicBool) {
    let (orders, folder) = (Orders::read(), PathBuf::from(text("FOLDER")));
    let mut random = Random::new(number("WORKER"));
    let mut builder = Client::quorum_builder(text("URLS").split(' '));
    builder = builder.max_ttl(TTL).quarantine(orders.quarantine);
    if !orders.guarded {
        builder = builder.restart_guard(RestartGuard::Off);
    }
    let client = builder.build().expect("the settings can work");
    let mutex = client.mutex("chaos").ttl(TTL).wait(WAIT);
    let (witness, notes) = (Witness::in_directory(&folder), Notes::of(&folder, number("WORKER")));
    while !over.load(Ordering::Relaxed) {
        let Some(guard) = acquire(&mutex, &notes).await else { continue };
        section(&witness, &notes, &guard, orders.section(&mut random)).await;
        // One in eight forgets to give it back: the keeper does.
        if random.below(8) == 0 {
            drop(guard);
        } else {
            notes.write("released", &format!("{:?}", guard.release().await));
        }
        // Who asks again at once always wins against those that pause between their tries.
        tokio::time::sleep(Duration::from_millis(random.below(80))).await;
    }
    client.close().await;
}

async fn acquire(mutex: &Mutex, notes: &Notes) -> Option<Guard> {
    let start = Instant::now();
    let outcome = mutex.lock().await;
    let took = start.elapsed().as_micros();
    match outcome {
        Ok(guard) => {
            notes.write("granted", &took.to_string());
            Some(guard)
        }
        Err(error) => {
            notes.write("failed", &format!("{took} {:?} {error}", error.kind()));
            None
        }
    }
}

async fn section(witness: &Witness, notes: &Notes, guard: &Guard, span: Duration) {
    if !guard.is_valid() {
        return;
    }
    let Ok(inside) = witness.enter(&format!("worker-{}", notes.worker)) else {
        // Its own fault, if that took until now.
        notes.left(guard.deadline());
        return;
    };
    let token = guard.fencing_token().expect("a quorum of native locks has one");
    record::note_token(witness.directory(), token.as_u64());
    notes.write("entered", "");
    let until = while_valid(notes, guard, span).await;
    notes.write("leaving", "");
    drop(inside);
    notes.left(until);
}

/// Works, until the work is done or the lock is lost; until when validity was known to last.
async fn while_valid(notes: &Notes, guard: &Guard, span: Duration) -> Moment {
    let mut done = std::pin::pin!(tokio::time::sleep(span));
    let mut until = guard.deadline();
    loop {
        tokio::select! {
            biased;
            reason = guard.lost() => {
                notes.write("lost", &format!("{reason:?}"));
                return until;
            }
            later = guard.deadline_changed(until) => {
                // A loss moves it to the start of the clock: what was known before counts.
                if later < until {
                    guard.lost().await;
                    continue;
                }
                until = later;
            }
            () = &mut done => return until,
        }
    }
}

fn text(name: &str) -> String {
    std::env::var(format!("FENCELOCK_TEST_{name}")).unwrap_or_else(|_| panic!("{name} is missing"))
}

fn number<N: FromStr>(name: &str) -> N {
    text(name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
}
