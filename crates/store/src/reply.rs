//! What comes with every answer.

use fencelock_core::{Incarnation, StoreTime};

/// An answer, and what the store said of itself with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Reply<A> {
    /// The answer.
    pub answer: A,
    /// What the store's lease clock showed when it executed the request, where it says so.
    pub at: Option<StoreTime>,
    /// Which life of the store answered, where it says so.
    pub incarnation: Option<Incarnation>,
}

impl<A> Reply<A> {
    /// A bare answer.
    pub const fn new(answer: A) -> Self {
        Self { answer, at: None, incarnation: None }
    }

    /// The same with the store's time.
    pub fn at(self, at: StoreTime) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The same with the store's life.
    pub fn of(self, incarnation: Option<Incarnation>) -> Self {
        Self { incarnation, ..self }
    }

    /// The same with another answer.
    pub fn map<B>(self, change: impl FnOnce(A) -> B) -> Reply<B> {
        Reply { answer: change(self.answer), at: self.at, incarnation: self.incarnation }
    }
}
