//! What whoever runs a program should know of its quorum, said once in the life of the process.
//!
//! It goes to `tracing` as a warning with the target of this module, by which the command line
//! finds it.

use std::{
    fmt::Display,
    sync::{Mutex, PoisonError},
};

/// Says of a quorum of two nodes what it is worth, unless it was said before.
pub(crate) fn no_spare(store: &impl Display) {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let at = store.to_string();
    {
        // Nothing under this lock can panic half way.
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= STORES_MAX || said.contains(&at) {
            return;
        }
        said.push(at.clone());
    }
    tracing::warn!(store = at, "{NO_SPARE}");
}

/// A program with more stores than this has heard it often enough.
const STORES_MAX: usize = 64;

const NO_SPARE: &str =
    "a quorum of two needs both, and survives the loss of none; three survive the loss of one";
