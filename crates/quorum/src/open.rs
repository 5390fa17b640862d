//! Which leases have requests under way that could still make them on some node, and whether they
//! are being given back meanwhile.
//!
//! ```text
//!   acquire, renew (may heal)  ---- open ------------------- answered or lost ----> closed
//!   release, lost ballot            ^ marks what is open     ^ looks at the mark: if it is set,
//!                                                              this node is released once more
//! ```
//! A release goes to all nodes at once, but a request that was late at one of them may be carried
//! out after it, on another connection. Whoever sent that request sees the mark when it ends.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use fencelock_core::Token;

/// The open requests of all leases. Has as many entries as leases are asked for at the moment.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    entries: Mutex<HashMap<Token, Entry>>,
}

#[derive(Debug)]
struct Entry {
    count: usize,
    taken_back: Arc<AtomicBool>,
}

impl Opens {
    /// A request that could make the lease begins.
    pub(crate) fn begin(self: &Arc<Self>, token: Token) -> Open {
        let mut entries = self.entries();
        let fresh = || Entry { count: 0, taken_back: Arc::default() };
        let entry = entries.entry(token).or_insert_with(fresh);
        entry.count += 1;
        Open { opens: Arc::clone(self), token, taken_back: Arc::clone(&entry.taken_back) }
    }

    /// The lease is given back from now on: to be called before the first release is sent.
    pub(crate) fn take_back(&self, token: Token) {
        if let Some(entry) = self.entries().get(&token) {
            entry.taken_back.store(true, Ordering::SeqCst);
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Token, Entry>> {
        // Nothing under this lock can panic half way.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }
}

/// One open request; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Open {
    opens: Arc<Opens>,
    token: Token,
    taken_back: Arc<AtomicBool>,
}

impl Open {
    /// Whether the lease is being given back.
    pub(crate) fn is_taken_back(&self) -> bool {
        self.taken_back.load(Ordering::SeqCst)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut entries = self.opens.entries();
        if let Some(entry) = entries.get_mut(&self.token) {
            entry.count -= 1;
            if entry.count == 0 {
                entries.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_seen_by_what_is_open_and_forgotten_with_it() {
        let opens = Arc::new(Opens::default());
        let token = Token::from_bytes([7; Token::BYTES]);
        opens.take_back(token);
        let first = opens.begin(token);
        assert!(!first.is_taken_back(), "what was given back before is over");
        let second = opens.begin(token);
        opens.take_back(token);
        assert!(first.is_taken_back() && second.is_taken_back());
        drop(first);
        assert!(opens.begin(token).is_taken_back(), "one of them is still open");
        drop(second);
        assert!(opens.is_empty());
        assert!(!opens.begin(token).is_taken_back());
    }
}
