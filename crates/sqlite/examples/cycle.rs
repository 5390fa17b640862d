//! Times an uncontended acquire and release in one process: `cycle [FILE] [CYCLES]`.
//!
//! Prints the median and the 99th percentile, next to two bare commits of SQLite, cycle by cycle in
//! turns; what the first call costs on a file that exists; and how long it takes from the call of a
//! release until the next in line, another thread with a store of its own, is told.

use std::{
    error::Error,
    path::Path,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use fencelock_core::{AcquireRequest, LockName, Moment, PlaceRequest, ReleaseRequest, Ttl, Wakeup};
use fencelock_sqlite::SqliteStore;
use fencelock_store::{Store, WakeupSink, rt};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = tempfile::tempdir()?;
    let file = arguments.next().map_or_else(|| folder.path().join("locks.db"), Into::into);
    let cycles: usize = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sql = bare(&folder.path().join("bare.db"))?;
    let (mut spans, mut bare, first) = runtime.block_on(async {
        let name = LockName::new("cycle")?;
        let _ = SqliteStore::open(&file)?.connect(Moment::NEVER).await?;
        let store = SqliteStore::open(&file)?;
        let start = Instant::now();
        let _ = store.connect(Moment::NEVER).await?;
        let first = start.elapsed();
        let mut spans = Vec::with_capacity(cycles);
        let mut bare = Vec::with_capacity(cycles);
        for _ in 0..cycles {
            let token = rt::fresh_token();
            let acquire = AcquireRequest::new(name.clone(), token, Ttl::from_millis(10_000)?);
            let release = ReleaseRequest::new(name.clone(), token);
            let start = Instant::now();
            let _ = store.acquire(&acquire, Moment::NEVER).await?;
            let _ = store.release(&release, Moment::NEVER).await?;
            spans.push(start.elapsed());
            let start = Instant::now();
            commit_twice(&sql)?;
            bare.push(start.elapsed());
        }
        Ok::<_, Box<dyn Error>>((spans, bare, first))
    })?;
    spans.sort();
    bare.sort();
    println!(
        "acquire + release: median {:?}, p99 {:?}",
        spans[cycles / 2],
        spans[cycles * 99 / 100]
    );
    println!("two bare commits:  median {:?}, p99 {:?}", bare[cycles / 2], bare[cycles * 99 / 100]);
    println!("first call:        {first:?}");
    let mut spans = hand_overs(&file, cycles.min(5_000))?;
    spans.sort();
    println!(
        "release -> told:   median {:?}, p99 {:?}",
        spans[spans.len() / 2],
        spans[spans.len() * 99 / 100]
    );
    Ok(())
}

/// Says when it was told.
struct Ear(mpsc::Sender<Instant>);

impl WakeupSink for Ear {
    fn wake(&self, wakeup: Wakeup) {
        if matches!(wakeup, Wakeup::Granted(_)) {
            let _ = self.0.send(Instant::now());
        }
    }

    fn broken(&self) {}
}

/// One waits in a thread of its own, one holds and releases.
fn hand_overs(file: &Path, count: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    let (told, hears) = mpsc::channel();
    let (listener, address) = mpsc::channel();
    let listening = SqliteStore::open(file)?;
    let (stop, stopped) = rt::sync::oneshot::channel::<()>();
    let ear = std::thread::spawn(move || {
        rt::block_on(async {
            let subscription = listening.listen(Arc::new(Ear(told)), Moment::NEVER).await;
            let subscription = subscription.expect("it listens");
            listener.send(subscription.listener).expect("somebody wants it");
            let _ = stopped.await;
        });
    });
    let listener = address.recv()?;
    let name = LockName::new("hand-over")?;
    let ttl = Ttl::from_millis(10_000)?;
    let spans = rt::block_on(async {
        let store = SqliteStore::open(file)?;
        let mut holder = rt::fresh_token();
        let _ =
            store.acquire(&AcquireRequest::new(name.clone(), holder, ttl), Moment::NEVER).await?;
        let mut spans = Vec::with_capacity(count);
        for _ in 0..count {
            let mut waiter = AcquireRequest::new(name.clone(), rt::fresh_token(), ttl);
            waiter.listener = Some(listener);
            waiter.place = Some(PlaceRequest::new(ttl, PlaceRequest::LIVE));
            let _ = store.acquire(&waiter, Moment::NEVER).await?;
            // The other thread goes to sleep.
            rt::sleep(Duration::from_millis(1)).await;
            let release = ReleaseRequest::new(name.clone(), holder);
            let start = Instant::now();
            let _ = store.release(&release, Moment::NEVER).await?;
            spans.push(hears.recv()?.duration_since(start));
            holder = waiter.token;
        }
        Ok::<_, Box<dyn Error>>(spans)
    })?;
    let _ = stop.send(());
    let _ = ear.join();
    Ok(spans)
}

fn bare(file: &Path) -> rusqlite::Result<rusqlite::Connection> {
    let sql = rusqlite::Connection::open(file)?;
    sql.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE t (a PRIMARY KEY, b)
         WITHOUT ROWID; INSERT INTO t VALUES (1, 0)",
    )?;
    Ok(sql)
}

fn commit_twice(sql: &rusqlite::Connection) -> rusqlite::Result<()> {
    for _ in 0..2 {
        sql.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        sql.prepare_cached("UPDATE t SET b = b + 1 WHERE a = 1")?.execute([])?;
        sql.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(())
}
