//! What can go wrong inside one attempt, and what of it the caller is told.
//!
//! This is the one place that reads SQLite's codes.

use std::path::Path;

use fencelock_store::{Outcome, StoreError, StoreErrorKind};
use rusqlite::ffi;

/// Why one attempt came to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another process or task is inside the file: try again soon. Nothing was done.
    Busy,
    /// There is no connection (any more): open, then try again. Nothing was done.
    NotOpen,
    /// SQLite failed.
    Sql {
        /// How.
        error: rusqlite::Error,
        /// How far the attempt had come.
        phase: Phase,
    },
    /// Anything else.
    Store(StoreError),
}

/// How far an attempt had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was committed: certainly not done.
    Working,
    /// The commit itself failed.
    Committing,
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::sql(error, Phase::Working)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// SQLite's failure, or that the file is busy.
    pub(crate) fn sql(error: rusqlite::Error, phase: Phase) -> Self {
        match primary(&error) {
            // PROTOCOL is how the log says that it lost a race with others many times over.
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL
                if phase == Phase::Working =>
            {
                Self::Busy
            }
            _ => Self::Sql { error, phase },
        }
    }

    /// How far the attempt had come.
    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::Sql { phase, .. } => *phase,
            Self::Busy | Self::NotOpen | Self::Store(_) => Phase::Working,
        }
    }

    /// Whether the disk, or the size that is allowed, is used up.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Sql { error, .. } if primary(error) == ffi::SQLITE_FULL)
    }

    /// Whether the connection must not be used again.
    pub(crate) fn breaks_connection(&self) -> bool {
        match self {
            Self::Busy | Self::NotOpen => false,
            Self::Sql { .. } => !self.is_full(),
            Self::Store(_) => true,
        }
    }

    /// What the caller is told.
    pub(crate) fn into_store_error(self, path: &Path) -> StoreError {
        let path = path.display();
        match self {
            Self::Store(error) => error,
            Self::Busy | Self::NotOpen => StoreError::unavailable(format!(
                "sqlite:{path}: the file is busy: other processes were inside it all the time \
                 (is one of them stopped?)"
            )),
            Self::Sql { error, phase } => {
                let (kind, what) = describe(&error);
                let outcome = match (phase, kind) {
                    // A commit without room leaves no complete frame in the log.
                    (Phase::Working, _) | (Phase::Committing, StoreErrorKind::Full) => {
                        Outcome::NotDone
                    }
                    (Phase::Committing, _) => Outcome::Unknown,
                };
                StoreError::new(kind, outcome, format!("sqlite:{path}: {what}")).with_source(error)
            }
        }
    }
}

fn primary(error: &rusqlite::Error) -> i32 {
    extended(error) & 0xff
}

fn extended(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().map_or(ffi::SQLITE_ERROR, |error| error.extended_code)
}

fn describe(error: &rusqlite::Error) -> (StoreErrorKind, &'static str) {
    match extended(error) {
        ffi::SQLITE_IOERR_SHMSIZE => {
            return (StoreErrorKind::Full, "no room for the shared index: free some disk space");
        }
        ffi::SQLITE_IOERR_NOMEM => {
            return (StoreErrorKind::Unavailable, "there is not enough memory");
        }
        _ => {}
    }
    match primary(error) {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => {
            (StoreErrorKind::Unavailable, "the file is busy")
        }
        ffi::SQLITE_FULL => (
            StoreErrorKind::Full,
            "no room for a new record: the disk is full, or the file has the size that is allowed",
        ),
        ffi::SQLITE_PERM | ffi::SQLITE_AUTH | ffi::SQLITE_READONLY => (
            StoreErrorKind::Denied,
            "the file can't be written: check who owns it, its permissions and its folder's",
        ),
        ffi::SQLITE_CANTOPEN => (
            StoreErrorKind::Denied,
            "the file, or the log beside it, can't be opened: check permissions and open files",
        ),
        ffi::SQLITE_NOTADB => (
            StoreErrorKind::Config,
            "this is not a lock file of fencelock; it was left alone: name another path",
        ),
        ffi::SQLITE_CORRUPT => (
            StoreErrorKind::Protocol,
            "the file is damaged: stop all that use it, then move it away",
        ),
        ffi::SQLITE_IOERR => {
            (StoreErrorKind::Unavailable, "reading or writing failed: check the disk")
        }
        ffi::SQLITE_NOMEM => (StoreErrorKind::Unavailable, "there is not enough memory"),
        _ => (StoreErrorKind::Protocol, "sqlite failed in a way that it should not"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: i32, phase: Phase) -> StoreError {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        Failure::sql(error, phase).into_store_error(Path::new("/locks"))
    }

    #[test]
    fn each_code_becomes_the_kind_that_says_what_to_do() {
        use StoreErrorKind::{Config, Denied, Full, Protocol, Unavailable};
        for (code, kind) in [
            (ffi::SQLITE_BUSY, Unavailable),
            (ffi::SQLITE_BUSY_RECOVERY, Unavailable),
            (ffi::SQLITE_BUSY_SNAPSHOT, Unavailable),
            (ffi::SQLITE_PROTOCOL, Unavailable),
            (ffi::SQLITE_FULL, Full),
            (ffi::SQLITE_IOERR_SHMSIZE, Full),
            (ffi::SQLITE_READONLY_DIRECTORY, Denied),
            (ffi::SQLITE_CANTOPEN, Denied),
            (ffi::SQLITE_NOTADB, Config),
            (ffi::SQLITE_CORRUPT, Protocol),
            (ffi::SQLITE_IOERR_WRITE, Unavailable),
            (ffi::SQLITE_NOMEM, Unavailable),
            (ffi::SQLITE_MISUSE, Protocol),
        ] {
            let error = failed(code, Phase::Working);
            assert_eq!(error.kind(), kind, "{code}: {error}");
            assert_eq!(error.outcome(), Outcome::NotDone, "{code}");
            assert!(error.to_string().starts_with("sqlite:/locks: "), "{error}");
        }
    }

    #[test]
    fn a_failed_commit_is_unknown_unless_there_was_no_room() {
        assert_eq!(failed(ffi::SQLITE_IOERR_WRITE, Phase::Committing).outcome(), Outcome::Unknown);
        assert_eq!(failed(ffi::SQLITE_IOERR_FSYNC, Phase::Committing).outcome(), Outcome::Unknown);
        assert_eq!(failed(ffi::SQLITE_BUSY, Phase::Committing).outcome(), Outcome::Unknown);
        assert_eq!(failed(ffi::SQLITE_FULL, Phase::Committing).outcome(), Outcome::NotDone);
    }
}
