//! The connection of one store to its file.
//!
//! One attempt is one transaction with no waiting in it: SQLite is never told to wait for other
//! processes, the caller does that without blocking a thread.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fencelock_core::{Incarnation, StoreNow, StoreTime};
use fencelock_store::{Clock, rt};
use rusqlite::{Connection as Sql, config::DbConfig, hooks::Wal};

use crate::{
    builder::{Durability, Options},
    failure::{Failure, Phase},
    mail::Letter,
    path::{self, FileId, Present},
    schema,
    surroundings::Surroundings,
    transaction::Transaction,
    wake_folder::WakeFolder,
};

/// An open file.
#[derive(Debug)]
pub(crate) struct Connection {
    sql: Sql,
    file: FileId,
    here: Surroundings,
    incarnation: Incarnation,
    /// How many frames the log had after our last commit.
    log_frames: Arc<AtomicU32>,
    opened_by: u32,
    folder: WakeFolder,
}

/// Whether a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It looks only, beside whoever writes.
    Read,
    /// It may write: nobody else does meanwhile.
    Write,
    /// The same, and the caller has little time.
    Renew,
}

/// An answer with what the store says of itself.
#[derive(Debug)]
pub(crate) struct Done<A> {
    pub(crate) answer: A,
    pub(crate) now: StoreNow,
    pub(crate) incarnation: Incarnation,
    /// What is to be told now that it is committed.
    pub(crate) mail: Vec<Letter>,
}

impl Connection {
    /// A hundred frames, as a clean close leaves them at most; read in a tenth of a millisecond.
    const SHORT_LOG_BYTES: u64 = 100 * 1_048 + 32;

    /// Opens the file, and makes it first where there is none. Blocks on the disk.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, Failure> {
        path::check_file_system(path)?;
        if path::look(path)? == Present::Nothing {
            schema::create(path)?;
        }
        match Self::open_existing(path, options) {
            // Somebody removed it in this very moment.
            Err(_) if path::look(path)? == Present::Nothing => Err(Failure::Busy),
            other => other,
        }
    }

    /// Whether opening means reading a few pages, so that it takes no longer than a transaction:
    /// the file is there, and its log is short.
    pub(crate) fn opens_at_once(path: &Path) -> bool {
        let log_bytes = path::beside(path, "-wal").metadata().map_or(0, |log| log.len());
        log_bytes <= Self::SHORT_LOG_BYTES && matches!(path::look(path), Ok(Present::File(_)))
    }

    /// Opens the file where there is one.
    pub(crate) fn open_existing(path: &Path, options: &Options) -> Result<Self, Failure> {
        let Present::File(file) = path::look(path)? else { return Err(Failure::NotOpen) };
        schema::remove_second_name(path, file);
        let here = match &options.surroundings {
            Some(given) => given.clone(),
            None => Surroundings::of_this_process().map_err(|error| {
                let message = "the boot id of the machine can't be read: is /proc mounted?";
                path::config(message).with_source(error)
            })?,
        };
        let mut sql = Sql::open_with_flags(path, schema::open_flags())?;
        sql.busy_timeout(Duration::ZERO)?;
        schema::claim(&sql, path)?;
        settle(&sql, options)?;
        let log_frames = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&log_frames);
        sql.wal_hook(Some(move |_: &mut Wal, frames| {
            counter.store(u32::try_from(frames).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        // SQLite may have opened a later file than the one that we looked at.
        if !path::is_still(path, file) {
            return Err(Failure::Busy);
        }
        let incarnation = Incarnation::new(&file.incarnation(path));
        let (opened_by, folder) = (rt::process_id(), WakeFolder::new(path));
        Ok(Self { sql, file, here, incarnation, log_frames, opened_by, folder })
    }

    /// Whether this process opened it, and the path still names the same file.
    pub(crate) fn is_usable(&self, path: &Path) -> bool {
        self.opened_by == rt::process_id() && path::is_still(path, self.file)
    }

    /// How many frames the log had after our last commit; told once, since others make it start
    /// over, and a step that changes nothing writes none.
    pub(crate) fn take_log_frames(&self) -> u32 {
        self.log_frames.swap(0, Ordering::Relaxed)
    }

    /// From here on, waits for others inside the file: as many looks as find a moment between two
    /// writers, about a millisecond, so that somebody who stands still inside holds nobody else up.
    pub(crate) fn insist(&mut self) -> rusqlite::Result<()> {
        const LOOKS: i32 = 1_000;
        self.sql.busy_handler(Some(|looks| {
            std::thread::yield_now();
            looks < LOOKS
        }))
    }

    /// Moves the log into the file. Whether all of it is there now, as far as could be seen:
    /// whoever is inside keeps it from coming further.
    pub(crate) fn checkpoint(&self, mode: &str) -> rusqlite::Result<bool> {
        self.move_log(mode).map(|moved| moved.all)
    }

    fn move_log(&self, mode: &str) -> rusqlite::Result<Moved> {
        let pragma = format!("PRAGMA wal_checkpoint({mode})");
        self.sql.query_row(&pragma, [], |row| {
            let (busy, frames, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Moved { by_another: busy != 0, all: busy == 0 && frames == moved })
        })
    }

    /// One attempt at one step.
    pub(crate) fn attempt<A>(
        &self,
        access: Access,
        clock: &Clock,
        step: &impl Fn(&Transaction<'_>) -> rusqlite::Result<A>,
    ) -> Result<Done<A>, Failure> {
        let first = self.once(access, clock, step);
        if !first.as_ref().is_err_and(Failure::is_full) {
            return first;
        }
        // A log that starts over writes where it has room already.
        let Ok(moved) = self.move_log("PASSIVE") else { return first };
        match self.once(access, clock, step) {
            // Somebody else is about to make room.
            Err(failure) if failure.is_full() && moved.by_another => Err(Failure::Busy),
            other => other,
        }
    }

    fn once<A>(
        &self,
        access: Access,
        clock: &Clock,
        step: &impl Fn(&Transaction<'_>) -> rusqlite::Result<A>,
    ) -> Result<Done<A>, Failure> {
        let now = self.begin(access, clock)?;
        let transaction = Transaction {
            sql: &self.sql,
            here: &self.here,
            now,
            made: Cell::new(0),
            folder: &self.folder,
            mail: RefCell::default(),
        };
        let result =
            step(&transaction).map_err(Failure::from).and_then(|answer| match self.run("COMMIT") {
                Ok(()) => Ok(answer),
                Err(error) => Err(Failure::sql(error, Phase::Committing)),
            });
        if let Err(failure) = &result
            && !self.sql.is_autocommit()
        {
            // A commit that may have happened stays one when this fails as well.
            let phase = failure.phase();
            self.run("ROLLBACK").map_err(|error| Failure::Sql { error, phase })?;
        }
        let (answer, mail) = (result?, transaction.mail.take());
        Ok(Done { answer, now, incarnation: self.incarnation.clone(), mail })
    }

    /// Begins a transaction and reads the clocks inside it: the order of the steps is the order of
    /// their instants.
    fn begin(&self, access: Access, clock: &Clock) -> rusqlite::Result<StoreNow> {
        match access {
            Access::Write | Access::Renew => self.run("BEGIN IMMEDIATE")?,
            Access::Read => {
                self.run("BEGIN")?;
                // What is read is settled by the first look, not by the BEGIN.
                let look = || self.sql.prepare_cached("SELECT 1 FROM lock LIMIT 0")?.exists([]);
                if let Err(error) = look() {
                    self.run("ROLLBACK")?;
                    return Err(error);
                }
            }
        }
        Ok(store_now(clock))
    }

    fn run(&self, statement: &str) -> rusqlite::Result<()> {
        self.sql.prepare_cached(statement)?.execute([]).map(|_| ())
    }
}

/// What came of moving the log into the file.
struct Moved {
    /// Somebody else is at it.
    by_another: bool,
    /// All of it is there.
    all: bool,
}

/// How the connection behaves from here on.
fn settle(sql: &Sql, options: &Options) -> rusqlite::Result<()> {
    // A short-lived command must not bring the whole log into the file when it ends.
    sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Otherwise SQLite plans a range again, parser and all, each time its bounds are bound.
    sql.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    sql.set_prepared_statement_cache_capacity(48);
    let synchronous = match options.durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    sql.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA temp_store = MEMORY; \
         PRAGMA trusted_schema = OFF"
    ))?;
    if let Some(pages) = options.pages_max {
        sql.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    Ok(())
}

/// What the clocks of the store show.
pub(crate) fn store_now(clock: &Clock) -> StoreNow {
    match clock {
        Clock::Manual(manual) => StoreNow::same(micros(manual.now().as_nanos())),
        _ => StoreNow { lease: micros(rt::monotonic_now().as_nanos()), wall: rt::wall_now() },
    }
}

const fn micros(nanos: u64) -> StoreTime {
    StoreTime::from_micros(nanos / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            durability: Durability::Process,
            pages_max: None,
            clock: Clock::Monotonic,
            surroundings: None,
        }
    }

    #[test]
    fn a_connection_of_another_process_or_to_another_file_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("locks.db");
        let mut connection = Connection::open(&path, &options()).expect("it opens");
        assert!(connection.is_usable(&path));
        // As a child sees it that was forked off.
        connection.opened_by += 1;
        assert!(!connection.is_usable(&path));
        connection.opened_by -= 1;
        std::fs::rename(&path, folder.path().join("moved.db")).expect("it moves");
        assert!(!connection.is_usable(&path));
        assert!(matches!(Connection::open_existing(&path, &options()), Err(Failure::NotOpen)));
        assert!(!path.exists());
    }

    #[test]
    fn the_length_of_the_log_is_told_once_for_each_commit() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection =
            Connection::open(&folder.path().join("locks.db"), &options()).expect("it opens");
        let insert = "INSERT INTO lock VALUES (x'00', 'mutex', 0, NULL, NULL, 0, 0, 0, x'', 0, 0, \
                      x'', NULL, NULL, 0, NULL, NULL, 0, 0, 0, NULL)";
        let steps: [(&str, bool); 3] = [("SELECT 1", false), (insert, true), ("SELECT 1", false)];
        for (sql, writes) in steps {
            let step = |transaction: &Transaction<'_>| transaction.sql.prepare(sql)?.exists([]);
            let done = connection.attempt(Access::Write, &Clock::Monotonic, &step);
            done.expect("it commits");
            assert_eq!(connection.take_log_frames() > 0, writes, "{sql}");
        }
    }

    #[test]
    fn statements_are_prepared_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection =
            Connection::open(&folder.path().join("locks.db"), &options()).expect("it opens");
        let planned_again = || {
            let again = rusqlite::StatementStatus::RePrepare;
            let sql = "SELECT name FROM lock WHERE sweep_at_us < ?1";
            let mut statement = connection.sql.prepare_cached(sql).expect("it is cached");
            assert!(!statement.exists([connection.take_log_frames()]).expect("it runs"));
            statement.get_status(again)
        };
        planned_again();
        assert_eq!(planned_again(), 0);
        assert_eq!(planned_again(), 0);
    }
}
