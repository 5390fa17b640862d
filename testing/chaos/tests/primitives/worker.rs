//! A process that does random things with locks of all kinds, a few at a time, until its standard
//! input ends.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock::{Client, ClientBuilder};
use fencelock_chaos::Random;

use crate::{
    deeds::Task,
    notes::{Notebook, first_id},
};

/// What each task does at the moment, by its first ID.
pub(crate) type Doing = Arc<Mutex<BTreeMap<u64, String>>>;

/// How often a worker that was told to end says what keeps it from that, and for how long.
const REPORT_EACH: Duration = Duration::from_secs(30);
const MOST_REPORTS: usize = 10;

/// How many things a process does at a time.
const TASKS: u64 = 6;

/// Whether the workers do as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// They do.
    Good,
    /// Planted: now and then one frees a name by force, whoever holds it.
    Forcing,
}

/// What is told to a worker.
pub(crate) fn order(
    command: &mut Command,
    url: &str,
    folder: &Path,
    number: u64,
    seed: u64,
    conduct: Conduct,
) {
    command
        .env("FENCELOCK_TEST_URL", url)
        .env("FENCELOCK_TEST_FOLDER", folder)
        .env("FENCELOCK_TEST_WORKER", number.to_string())
        .env("FENCELOCK_TEST_SEED", seed.to_string())
        .env("FENCELOCK_TEST_FORCING", (conduct == Conduct::Forcing).to_string());
}

/// A client of the store, as all of this test make theirs.
pub(crate) fn client(url: &str) -> Client {
    let builder: ClientBuilder = Client::builder(url);
    builder.build().expect("the settings can work")
}

#[test]
#[ignore = "the other processes of these tests"]
fn worker() {
    let Ok(url) = std::env::var("FENCELOCK_TEST_URL") else { return };
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let doing: Doing = Arc::default();
    let done = Arc::clone(&doing);
    std::thread::spawn(move || {
        // Nothing is ever written: it ends with the test.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        seen.store(true, Ordering::Relaxed);
        // Only seen when it does not come to an end.
        for _ in 0..MOST_REPORTS {
            std::thread::sleep(REPORT_EACH);
            eprintln!("it still does: {:#?}", done.lock().expect("no task panics"));
        }
    });
    let number = value("WORKER");
    // Tasks that take turns at one thread, and tasks that run beside each other.
    let mut builder = if number.is_multiple_of(2) {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(work(&url, number, over, doing));
}

async fn work(url: &str, number: u64, over: Arc<AtomicBool>, doing: Doing) {
    let client = client(url);
    let notes = Arc::new(Notebook::open(&PathBuf::from(text("FOLDER"))));
    let forces = text("FORCING") == "true";
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let id = first_id(number, task);
            let mut task = Task {
                client: client.clone(),
                notes: Arc::clone(&notes),
                random: Random::new(value("SEED").wrapping_mul(31).wrapping_add(id)),
                next_id: id,
                doing: Arc::clone(&doing),
                forces,
            };
            let over = Arc::clone(&over);
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    task.act().await;
                    task.rest();
                    // So that others come to their turn, and the notes do not grow without end.
                    tokio::time::sleep(Duration::from_millis(task.random.below(8))).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
    notes.closed(number);
    client.close().await;
}

fn text(name: &str) -> String {
    std::env::var(format!("FENCELOCK_TEST_{name}")).unwrap_or_else(|_| panic!("{name} is missing"))
}

fn value(name: &str) -> u64 {
    text(name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
}
