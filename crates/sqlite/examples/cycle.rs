//! Times an uncontended acquire and release in one process: `cycle [FILE] [CYCLES]`.
//!
//! Prints the median and the 99th percentile, next to two bare commits of SQLite, cycle by cycle in
//! turns; and what the first call costs on a file that exists.

use std::{error::Error, path::Path, time::Instant};

use fencelock_core::{AcquireRequest, LockName, Moment, ReleaseRequest, Ttl};
use fencelock_sqlite::SqliteStore;
use fencelock_store::{Store, rt};

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
    Ok(())
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
