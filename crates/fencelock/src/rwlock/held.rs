//! What the work of a reader sees of its lock.

use super::SharedToken;
use crate::{Held, recipe::held_verbs};

/// A lock that is read for the time of a [`run_read`](crate::RwLock::run_read). Clones see the same;
/// none of them keeps the lock.
#[derive(Clone, Debug)]
pub struct ReadHeld {
    held: Held,
}

held_verbs!(ReadHeld);

impl ReadHeld {
    pub(crate) fn new(held: Held) -> Self {
        Self { held }
    }

    /// The number of this reader's grant. Nothing where the dialect has none.
    #[must_use]
    pub fn shared_token(&self) -> Option<SharedToken> {
        self.held.fencing_token().map(SharedToken::new)
    }
}
