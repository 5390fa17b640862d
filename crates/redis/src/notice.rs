//! What whoever runs a program should know of its store, said once in the life of the process.
//!
//! It goes to `tracing` as a warning with the target of this module, by which the command line
//! finds it.

use std::sync::{Mutex, PoisonError};

/// Says something about a store that messages call `at`, unless it was said before.
pub(crate) fn once(at: &str, notice: &'static str) {
    static SAID: Mutex<Vec<(String, &'static str)>> = Mutex::new(Vec::new());
    {
        // Nothing under this lock can panic half way.
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= STORES_MAX || said.iter().any(|(a, n)| (a.as_str(), *n) == (at, notice)) {
            return;
        }
        said.push((at.to_owned(), notice));
    }
    tracing::warn!(store = at, "{notice}");
}

/// A program with more stores than this has heard it often enough.
const STORES_MAX: usize = 64;

/// Whoever is on the way can read what is sent.
pub(crate) const CLEAR_PASSWORD: &str =
    "the password goes over the network in the clear; use rediss:// if the server has TLS";

/// Messages are denied.
pub(crate) const NO_CHANNELS: &str = "this user may not use the channels of wakeups, so whoever waits asks from time to time; grant \
     +publish +subscribe and the channel pattern";
