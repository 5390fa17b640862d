//! The layout of the file, and how it comes to be.
//!
//! ```text
//!   nothing --flock on the folder--> PATH.new, complete --link--> PATH
//!   empty file ---------- one transaction -------------------> complete
//!   layout 1 or 2 ------- one transaction -------------------> this layout
//! ```
//!
//! A file that appears is complete, so that processes which open it for the first time at the same
//! instant never see half of one, and a process killed on the way leaves nothing at the path.

use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::FlockOperation;

use crate::{
    failure::Failure,
    path::{self, FileId, Present},
};

/// "FLCK": tells a lock file from other databases.
pub(crate) const APPLICATION_ID: i32 = 0x464c_434b;
/// The version of the layout, in `user_version`.
pub(crate) const LAYOUT: i32 = 3;
/// The first one, which had no lines: it is brought to this one where it is found.
const WITHOUT_LINES: i32 = 1;
/// The second one, in which nobody held a lock together with others: the same.
const ALONE: i32 = 2;

/// `end_us` counts on the monotonic clock of `boot_id` and `time_namespace`, the other times are
/// of the wall clock. `sweep_at_us` is when a sweep looks at the row: it is not written by the
/// steps of a lock that exists, so that they leave the index alone. `waiting` is how many places
/// the line of the name has: while it is zero, no step looks at the table of places.
const LOCKS: &str = "\
CREATE TABLE lock (
  name           BLOB    NOT NULL PRIMARY KEY,
  kind           TEXT    NOT NULL,
  held           INTEGER NOT NULL,
  token          BLOB,
  fencing_token  INTEGER,
  fence_by_token INTEGER NOT NULL,
  end_us         INTEGER NOT NULL,
  wall_end_us    INTEGER NOT NULL,
  boot_id        BLOB    NOT NULL,
  time_namespace INTEGER NOT NULL,
  forget_at_us   INTEGER NOT NULL,
  metadata       BLOB    NOT NULL,
  processes      BLOB,
  pid_namespace  INTEGER,
  sweep_at_us    INTEGER NOT NULL,
  first_fence    INTEGER,
  listener       INTEGER,
  revoked        INTEGER NOT NULL DEFAULT 0,
  unattended     INTEGER NOT NULL DEFAULT 0,
  waiting        INTEGER NOT NULL DEFAULT 0,
  crowd          BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX lock_sweep ON lock (sweep_at_us);";

/// From layout 1 to layout 2: the same columns in the same order.
const ADDED_TO_LOCKS: &str = "\
ALTER TABLE lock ADD COLUMN first_fence INTEGER;
ALTER TABLE lock ADD COLUMN listener    INTEGER;
ALTER TABLE lock ADD COLUMN revoked     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lock ADD COLUMN unattended  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lock ADD COLUMN waiting     INTEGER NOT NULL DEFAULT 0;";

/// A line is the places of a name in the order of `number`. `seen_us` counts as `end_us` of a lock
/// does, and is there a second time on the wall clock. The index over the names has the numbers in
/// it: a position is counted without looking at the places.
const PLACES: &str = "\
CREATE TABLE place (
  number         INTEGER PRIMARY KEY,
  name           BLOB    NOT NULL,
  token          BLOB    NOT NULL,
  is_set         INTEGER NOT NULL,
  barging        INTEGER NOT NULL,
  listener       INTEGER,
  seen_us        INTEGER NOT NULL,
  wall_seen_us   INTEGER NOT NULL,
  boot_id        BLOB    NOT NULL,
  time_namespace INTEGER NOT NULL,
  live_us        INTEGER NOT NULL,
  claim_ms       INTEGER NOT NULL,
  retain_ms      INTEGER NOT NULL,
  floor          INTEGER,
  reserve        INTEGER NOT NULL,
  metadata       BLOB    NOT NULL,
  processes      BLOB,
  pid_namespace  INTEGER,
  mode           BLOB
) STRICT;
CREATE INDEX place_line ON place (name);
CREATE INDEX place_token ON place (token);";

/// Those who hold a lock together, in the order of `number`: the grants. `crowd` of the lock has the
/// rest; while that is NULL, no step looks here.
const SHARES: &str = "\
CREATE TABLE share (
  number         INTEGER PRIMARY KEY,
  name           BLOB    NOT NULL,
  token          BLOB    NOT NULL,
  fencing_token  INTEGER,
  weight         INTEGER NOT NULL,
  end_us         INTEGER NOT NULL,
  wall_end_us    INTEGER NOT NULL,
  boot_id        BLOB    NOT NULL,
  time_namespace INTEGER NOT NULL,
  listener       INTEGER,
  revoked        INTEGER NOT NULL,
  unattended     INTEGER NOT NULL,
  metadata       BLOB    NOT NULL,
  processes      BLOB,
  pid_namespace  INTEGER
) STRICT;
CREATE UNIQUE INDEX share_holder ON share (name, token);";

/// From layout 2 to this one, besides `SHARES`.
const ADDED_FOR_SHARES: &str = "\
ALTER TABLE lock  ADD COLUMN crowd BLOB;";
const ADDED_TO_PLACES: &str = "\
ALTER TABLE place ADD COLUMN mode BLOB;";

/// What SQLite is asked for when a file is opened: it exists, and its path is a path, no URI.
pub(crate) fn open_flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE
}

/// Makes a complete file appear at the path, unless there is one.
pub(crate) fn create(at: &Path) -> Result<(), Failure> {
    path::create_folder(at)?;
    let failed = |what: &'static str| {
        move |error: io::Error| Failure::Store(path::io_failure(at, what, error))
    };
    // One creator at a time. The lock ends with the descriptor, so also with the process.
    let folder = fs::File::open(path::folder(at)).map_err(failed("its folder can't be opened"))?;
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(Failure::Busy),
        Err(error) => return Err(failed("its folder can't be locked")(error.into())),
    }
    if path::look(at)? != Present::Nothing {
        return Ok(());
    }
    let new = path::beside(at, NEW);
    let cannot_create = failed("the file can't be created");
    for suffix in ["", "-wal", "-shm", "-journal"] {
        remove(&path::beside(&new, suffix)).map_err(&cannot_create)?;
        // The log of a file that was deleted would be played into the new one.
        remove(&path::beside(at, suffix)).map_err(&cannot_create)?;
    }
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .map_err(&cannot_create)?;
    let made = initialise_new(&new);
    if made.is_ok() {
        match fs::hard_link(&new, at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cannot_create(error));
            }
            _ => {}
        }
    }
    remove(&new).map_err(&cannot_create)?;
    made
}

/// Where a file is laid out before it appears at its path.
const NEW: &str = ".new";

/// A creator that was killed after the link left the file with two names. The second one must not
/// be mistaken for a lock file: the log beside it would be another one.
pub(crate) fn remove_second_name(at: &Path, file: FileId) {
    let new = path::beside(at, NEW);
    if path::is_still(&new, file) {
        // If it can't be removed, it stays; nothing uses it.
        let _ = fs::remove_file(new);
    }
}

fn initialise_new(new: &Path) -> Result<(), Failure> {
    let sql = Connection::open_with_flags(new, open_flags())?;
    initialise(&sql)?;
    // Closing brings the log into the file and removes it.
    sql.close().map_err(|(_, error)| Failure::from(error))?;
    // Exactly this, whatever the umask of the process is.
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(new, private)
        .map_err(|error| Failure::Store(path::io_failure(new, "it can't be made private", error)))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Lays out an empty database, unless another process has done so meanwhile.
fn initialise(sql: &Connection) -> Result<(), Failure> {
    sql.execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = WAL"))?;
    sql.execute_batch("BEGIN IMMEDIATE")?;
    let done = (|| {
        if Identity::read(sql)?.is_empty() {
            sql.execute_batch(LOCKS)?;
            sql.execute_batch(PLACES)?;
            sql.execute_batch(SHARES)?;
            sql.execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT}"
            ))?;
        }
        sql.execute_batch("COMMIT")
    })();
    finish(sql, done)
}

/// Brings a file of an earlier layout to this one, unless another process has done so meanwhile.
fn migrate(sql: &Connection) -> Result<(), Failure> {
    sql.execute_batch("BEGIN IMMEDIATE")?;
    let done = (|| {
        let layout = Identity::read(sql)?.layout;
        if layout == WITHOUT_LINES {
            sql.execute_batch(ADDED_TO_LOCKS)?;
            sql.execute_batch(PLACES)?;
        }
        if layout == ALONE {
            sql.execute_batch(ADDED_TO_PLACES)?;
        }
        if layout == WITHOUT_LINES || layout == ALONE {
            sql.execute_batch(ADDED_FOR_SHARES)?;
            sql.execute_batch(SHARES)?;
            sql.execute_batch(&format!("PRAGMA user_version = {LAYOUT}"))?;
        }
        sql.execute_batch("COMMIT")
    })();
    finish(sql, done)
}

fn finish(sql: &Connection, done: rusqlite::Result<()>) -> Result<(), Failure> {
    if done.is_err() && !sql.is_autocommit() {
        sql.execute_batch("ROLLBACK")?;
    }
    Ok(done?)
}

/// Small pages: a step writes one or two, and writing them is most of what it costs (33 us instead
/// of 40 for an acquire and a release, measured).
const PAGE_BYTES: u32 = 1024;

/// Checks that the file is ours, of this layout, and in write-ahead mode.
pub(crate) fn claim(sql: &Connection, path: &Path) -> Result<(), Failure> {
    let mut identity = Identity::read_at_once(sql)?;
    if identity.is_empty() {
        initialise(sql)?;
        identity = Identity::read_at_once(sql)?;
    }
    if identity.application == APPLICATION_ID && matches!(identity.layout, WITHOUT_LINES | ALONE) {
        migrate(sql)?;
        identity = Identity::read_at_once(sql)?;
    }
    let path = path.display();
    if identity.application != APPLICATION_ID {
        return Err(Failure::Store(path::config(format!(
            "sqlite:{path}: this database belongs to another program; it was left alone: \
             name another path"
        ))));
    }
    if identity.layout != LAYOUT {
        return Err(Failure::Store(path::config(format!(
            "sqlite:{path}: the file has layout version {}, this program knows version {LAYOUT}: \
             use the newer fencelock for all that share the file",
            identity.layout
        ))));
    }
    let mode: String = sql.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        sql.execute_batch("PRAGMA journal_mode = WAL")?;
    }
    Ok(())
}

/// What a database says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    application: i32,
    layout: i32,
    objects: i64,
}

impl Identity {
    /// All parts as of one instant.
    fn read_at_once(sql: &Connection) -> rusqlite::Result<Self> {
        sql.execute_batch("BEGIN")?;
        let identity = Self::read(sql);
        sql.execute_batch("ROLLBACK")?;
        identity
    }

    fn read(sql: &Connection) -> rusqlite::Result<Self> {
        let ask = |question: &str| sql.query_row(question, [], |row| row.get(0));
        Ok(Self {
            application: ask("PRAGMA application_id")?,
            layout: ask("PRAGMA user_version")?,
            objects: sql.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        })
    }

    fn is_empty(self) -> bool {
        self == Self { application: 0, layout: 0, objects: 0 }
    }
}
