//! Keeps the write-ahead log short: brings it into the file now and then, so that it starts over.
//!
//! ```text
//!   frames   500                                    16 000
//!   --------|--------------------------------------|----------------------
//!            on a thread: beside all work first,    on the way of the caller,
//!            then the small rest, holding           when nobody else got to it
//!            writers up for a moment
//! ```
//!
//! Short matters for speed too: SQLite finds pages in the log by a table that a page written over
//! and over again fills with collisions, so that each commit costs more the longer the log is.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fencelock_store::rt;

use crate::{builder::Options, connection::Connection};

/// 2 MB of log, a millisecond or two of work.
const START_FRAMES: u32 = 500;
/// Short-lived processes may all end before their work beside is done.
const INLINE_FRAMES: u32 = 16_000;

/// Starts at most one piece of such work at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpointer {
    running: Arc<AtomicBool>,
}

impl Checkpointer {
    /// Does what the length of the log asks for after a commit on this connection.
    pub(crate) fn after_commit(&self, connection: &Connection, path: &Path, options: &Options) {
        let frames = connection.log_frames();
        if frames < START_FRAMES {
            return;
        }
        if frames >= INLINE_FRAMES {
            report(connection.checkpoint("FULL"));
            return;
        }
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let running = Running(Arc::clone(&self.running));
        let (path, options) = (path.to_owned(), options.clone());
        rt::try_spawn(async move {
            rt::blocking(move || {
                let _running = running;
                // A connection of its own: the store's is for the callers.
                if let Ok(connection) = Connection::open_existing(&path, &options) {
                    report(connection.checkpoint("PASSIVE"));
                    report(connection.checkpoint("FULL"));
                }
            })
            .await;
        });
    }
}

/// Also when the work is dropped with its runtime before it began.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn report(result: rusqlite::Result<()>) {
    if let Err(error) = result {
        // Nothing is lost: the log is longer until the next time.
        tracing::debug!(%error, "the log could not be brought into the lock file");
    }
}
