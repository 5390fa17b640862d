//! Who waits for the first map of a cluster: in one line for each runtime, so that requests go out
//! in the order of their first polls.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use fencelock_store::rt;

/// The lines. One for each runtime: the end of one must not stop the others.
#[derive(Debug, Default)]
pub(super) struct Gates {
    lines: Mutex<Vec<(Option<rt::RuntimeId>, Line)>>,
    waiting: AtomicUsize,
}

type Line = Arc<rt::sync::Mutex<()>>;

/// Counts somebody in a line, for as long as it lives.
#[derive(Debug)]
pub(super) struct Pass<'a>(&'a AtomicUsize);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Gates {
    /// The most lines that are kept; one more begins anew.
    const LINES_MAX: usize = 256;

    /// Whether somebody waits: then nobody may go past.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::Acquire) != 0
    }

    /// Waits for the turn. The first poll is what decides about the place in the line.
    pub(super) async fn enter(&self) -> (Pass<'_>, rt::sync::OwnedMutexGuard<()>) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let pass = Pass(&self.waiting);
        let line = self.line();
        (pass, line.lock_owned().await)
    }

    fn line(&self) -> Line {
        let id = rt::runtime_id();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, line)) = lines.iter().find(|(known, _)| *known == id) {
            return Arc::clone(line);
        }
        if lines.len() >= Self::LINES_MAX {
            lines.clear();
        }
        let line = Arc::new(rt::sync::Mutex::new(()));
        lines.push((id, Arc::clone(&line)));
        line
    }
}
