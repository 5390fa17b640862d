//! What comes back for a question, or why nothing does.

use fencelock_store::StoreError;
use redis::Value;

use super::{greeting::Greeting, link::Link};
use crate::error::Failure;

/// What the server answered, errors among it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    pub(crate) greeting: Greeting,
    /// An earlier copy of the request may have been carried out before this one.
    pub(crate) resent: bool,
    /// The script was sent by its text.
    pub(crate) by_text: bool,
    /// The number of the connection that it came over.
    pub(crate) connection: u64,
}

impl Answer {
    pub(super) fn new(value: Value, greeting: Greeting, by_text: bool, link: &Link) -> Self {
        Self { value, greeting, resent: false, by_text, connection: link.number() }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// What the server or the connection said; on a cluster another server may be asked.
    Failed(Failure),
    /// The time of the call was over, or the store was closed.
    Ended(StoreError),
}

impl From<Failure> for NoAnswer {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<StoreError> for NoAnswer {
    fn from(error: StoreError) -> Self {
        Self::Ended(error)
    }
}

impl From<NoAnswer> for StoreError {
    fn from(refused: NoAnswer) -> Self {
        match refused {
            NoAnswer::Failed(failure) => failure.into(),
            NoAnswer::Ended(error) => error,
        }
    }
}
