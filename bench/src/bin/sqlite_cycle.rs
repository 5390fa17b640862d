//! Acquire + release on the embedded file in one process, against SQLite's own two commits.
//!
//! ```console
//! cargo run --release -p fencelock-bench --bin sqlite_cycle -- --pairs 30
//! ```

use std::time::{Duration, Instant};

use fencelock::Client;
use fencelock_bench::{Pairs, median, micros, option};

/// Two commits of one changed row each: what any lock in a SQLite file costs at least.
fn two_commits(connection: &rusqlite::Connection) {
    for state in 0..2 {
        connection.execute_batch("BEGIN IMMEDIATE").expect("begin");
        connection
            .prepare_cached("INSERT OR REPLACE INTO locks VALUES (?1, ?2)")
            .expect("prepare")
            .execute((b"bench".as_slice(), state))
            .expect("insert");
        connection.execute_batch("COMMIT").expect("commit");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let pairs = option("--pairs", 30);
    let cycles = option("--cycles", 500);
    let folder = tempfile::tempdir().expect("a folder");
    let raw = rusqlite::Connection::open(folder.path().join("raw.db")).expect("open");
    raw.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         CREATE TABLE locks (name BLOB PRIMARY KEY, state INTEGER) WITHOUT ROWID",
    )
    .expect("schema");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let client = Client::builder(url).build().expect("a URL");

    let mut figures = Pairs::default();
    let mut each = Vec::new();
    for _ in 0..=pairs {
        let start = Instant::now();
        (0..cycles).for_each(|_| two_commits(&raw));
        let other =
            micros(start.elapsed()) / f64::from(u32::try_from(cycles).expect("not that many"));
        let mut sum = Duration::ZERO;
        for _ in 0..cycles {
            let start = Instant::now();
            let guard = client.mutex("bench").lock().await.expect("nobody contends");
            assert_eq!(guard.release().await, fencelock::Released::Held);
            sum += start.elapsed();
            each.push(micros(start.elapsed()));
        }
        figures.push(micros(sum) / f64::from(u32::try_from(cycles).expect("not that many")), other);
    }
    println!("medians of {pairs} interleaved pairs of {cycles} cycles");
    println!("acquire + release: {:.1} us (median of single cycles)", median(&each));
    println!(
        "mean of a block: {:.1} us, {:.2} x two bare commits",
        figures.ours(),
        figures.ratio()
    );
}
