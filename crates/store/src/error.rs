//! That a store could not be asked, or that nobody knows what it did.

use std::{borrow::Cow, fmt};

/// Whether a request that failed may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It certainly was not, and will not be.
    NotDone,
    /// It may have been, or may still be.
    Unknown,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store can't be reached or can't serve now; it may later.
    Unavailable,
    /// Too few nodes of a quorum could be asked, or answered in time; it may work later.
    NoQuorum,
    /// The store has no room (memory, disk) for a new record; renewals and releases may work.
    Full,
    /// The store granted, but those whose acknowledgement was asked for (replicas, a disk) gave none
    /// in time.
    NotAcknowledged,
    /// The store refused who we are or what we may do. Trying again does not help.
    Denied,
    /// The store or dialect can't do this.
    Unsupported,
    /// A setting can't work.
    Config,
    /// Several names can't be taken in one step, because different servers keep them.
    CrossSlot,
    /// The store answered something that makes no sense.
    Protocol,
    /// The store was closed by this client.
    Closed,
}

/// The failure of one call to a store.
///
/// `Display` says what happened and what to try; the cause is behind
/// [`source`](std::error::Error::source). Neither ever contains a password.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    outcome: Outcome,
    message: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    is_of_a_part: bool,
}

impl StoreError {
    /// A failure.
    #[must_use]
    pub fn new(
        kind: StoreErrorKind,
        outcome: Outcome,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, outcome, message: message.into(), source: None, is_of_a_part: false }
    }

    /// The same with its cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// The same, where other servers of the store have answered: the address is right, and it may be
    /// worth waiting for the one that has not.
    #[must_use]
    pub fn of_a_part(self) -> Self {
        Self { is_of_a_part: true, ..self }
    }

    /// The store was not reached.
    #[must_use]
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unavailable, Outcome::NotDone, message)
    }

    /// The request was sent and its fate is not known.
    #[must_use]
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unavailable, Outcome::Unknown, message)
    }

    /// The store or dialect can't do this.
    #[must_use]
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unsupported, Outcome::NotDone, message)
    }

    /// What went wrong.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the request may have been carried out.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether other servers of the store have answered.
    #[must_use]
    pub const fn is_of_a_part(&self) -> bool {
        self.is_of_a_part
    }

    /// Whether the same request may succeed later without anybody changing a setting.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Unavailable
                | StoreErrorKind::NoQuorum
                | StoreErrorKind::Full
                | StoreErrorKind::NotAcknowledged
        )
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
