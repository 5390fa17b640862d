//! Keeps the write-ahead log short: brings it into the file now and then, so that it starts over.
//!
//! ```text
//!   frames   500                                    4 000
//!   --------|--------------------------------------|----------------------
//!            beside all work: the log starts over   the small rest too, holding writers
//!            if nobody wrote meanwhile              up while the disk is waited for
//! ```
//! A process that lives for one lock ends before work beside it is done. It leaves the log to the
//! next one, which has to read it from its beginning; so the log is also shortened at a clean close,
//! from 100 frames on.
//!
//! All of it happens on a thread that may block, never on the way of a caller. Writers are held up
//! as the last resort only: where the disk takes 5 ms, a renewal with little time came too late in
//! one case of five when that was done every 500 frames.
//!
//! Short matters for speed too: SQLite finds pages in the log by a table that a page written over
//! and over again fills with collisions, up to 4,096 frames.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use fencelock_store::rt;

use crate::{builder::Options, connection::Connection};

/// To read so many costs the next process a tenth of a millisecond or two.
const CLOSE_FRAMES: u32 = 100;
/// Half a megabyte of log. After work that left the log as it was, the next is due when it has
/// grown by as much.
const START_FRAMES: u32 = 500;
/// Short-lived processes may all end before their work is done: from here on a close waits for it.
const LONG_FRAMES: u32 = 2_000;
const FULL_FRAMES: u32 = 4_000;
/// Where nobody who stands still is inside, the first one does it.
const FULL_TRIES: u32 = 4;

/// Starts at most one piece of such work at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpointer {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    running: AtomicBool,
    is_long: AtomicBool,
    next: AtomicU32,
    /// How long the log was after the last commit.
    length: AtomicU32,
}

impl Checkpointer {
    /// Starts what the length of the log asks for, given how many frames it had after a commit.
    pub(crate) fn after_commit(&self, frames: u32, path: &Path, options: &Options) {
        let state = &self.state;
        state.length.store(frames, Ordering::Relaxed);
        if frames < START_FRAMES {
            state.next.store(START_FRAMES, Ordering::Relaxed);
            return;
        }
        if frames < state.next.load(Ordering::Relaxed) || state.running.swap(true, Ordering::AcqRel)
        {
            return;
        }
        state.next.store(frames.saturating_add(START_FRAMES), Ordering::Relaxed);
        state.is_long.store(frames >= LONG_FRAMES, Ordering::Relaxed);
        let running = Running(Arc::clone(state));
        let (path, options) = (path.to_owned(), options.clone());
        rt::try_spawn_blocking(move || {
            let _running = running;
            // A connection of its own: the store's is for the callers.
            if let Ok(mut connection) = Connection::open_existing(&path, &options) {
                report(shorten(&mut connection, frames));
            }
        });
    }

    /// Closes a connection, and leaves no long log behind where nobody else is in it. It waits for
    /// the disk: whoever does not wait for this leaves it to the next who closes.
    pub(crate) async fn close(&self, connection: Connection) {
        if self.state.length.load(Ordering::Relaxed) >= CLOSE_FRAMES {
            // Emptied, since only that is kept on the disk: how much of a log is in the file
            // already stands in shared memory, which the next process makes anew.
            rt::blocking(move || report(empty(&connection))).await;
        }
    }

    /// Whether work runs that should not end with the process.
    pub(crate) fn is_needed(&self) -> bool {
        self.state.running.load(Ordering::Acquire) && self.state.is_long.load(Ordering::Relaxed)
    }
}

fn shorten(connection: &mut Connection, frames: u32) -> rusqlite::Result<()> {
    // It can't see what was written meanwhile: that it moved all it saw says little.
    let _ = connection.checkpoint("PASSIVE")?;
    if frames >= FULL_FRAMES {
        connection.insist()?;
        for _ in 0..FULL_TRIES {
            if connection.checkpoint("FULL")? {
                break;
            }
        }
    }
    Ok(())
}

/// Empties the log where nobody else is inside. What waits for the disk comes first and holds
/// nobody up; what is left then is cutting the file, unless somebody wrote in between.
fn empty(connection: &Connection) -> rusqlite::Result<()> {
    if connection.checkpoint("PASSIVE")? {
        let _ = connection.checkpoint("TRUNCATE")?;
    }
    Ok(())
}

fn report(result: rusqlite::Result<()>) {
    if let Err(error) = result {
        // Nothing is lost: the log is longer until the next time.
        tracing::debug!(%error, "the log could not be brought into the lock file");
    }
}

/// Also when the work is dropped with its runtime before it began.
struct Running(Arc<State>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}
