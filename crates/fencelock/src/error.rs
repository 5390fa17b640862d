//! The one error of this crate: opaque, with a kind, predicates and advice.
//!
//! It names the lock, the store, what happened and what to try; the cause is behind `source()`.
//! Busy is an answer and never an error, except where a limit on waiting ended.

use std::{error, fmt, sync::Arc, time::Duration};

use fencelock_core::{ForeignKind, LockName, LossReason, Mode, Names};
use fencelock_store::{Outcome, StoreError, StoreErrorKind};

use crate::HolderView;

/// What went wrong, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else held the lock for as long as the caller was willing to wait.
    WaitExpired,
    /// The lock was lost, or the token does not hold it (any more).
    Lost,
    /// The lock is held by the very task that asks for it: waiting would never end.
    AlreadyHeld,
    /// The store can't be reached or can't serve now.
    Unavailable,
    /// Too few nodes of a quorum answered; the message says what each of them said.
    NoQuorum,
    /// The store has no room for a new record.
    Full,
    /// The lock was granted, but the replicas (or the disk) that were to acknowledge it did not; it
    /// was given back.
    NotAcknowledged,
    /// Too many wait for the lock already, or hold it together.
    QueueFull,
    /// The store refused who we are or what we may do.
    Denied,
    /// Something that is not a lock of this format sits at the key, or another kind of lock; it was
    /// left alone.
    ForeignValue,
    /// The fencing token floor is too far ahead of the store's clock; or ahead of the fencing token
    /// that a re-entrant mutex has already.
    FenceAhead,
    /// The lock was granted, but so late that its validity was nearly over; it was given back.
    TooLate,
    /// The store or dialect can't do this.
    Unsupported,
    /// Several names can't be taken in one step, because different servers of a cluster keep them.
    /// Nothing was sent: see [`across_slots`](crate::Mutex::across_slots).
    CrossSlot,
    /// A name, a ttl, a url or another setting is wrong, and nothing was sent; or the limit of a
    /// semaphore (latch, barrier) is another than the one that the store keeps, and nothing was done.
    Config,
    /// The request was sent and its fate is not known; what it may have taken is being given back.
    Unknown,
    /// The client was closed, or belongs to the process that was forked.
    Closed,
    /// The store answered something that makes no sense, or the system gave no thread.
    Internal,
}

/// Whether trying again helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryAdvice {
    /// The same call may succeed later.
    Later,
    /// Acquire the lock anew: this lease is over.
    Acquire,
    /// Somebody has to change something first.
    Never,
}

/// Why a call failed.
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    what: String,
    /// What to try, where that is not the same for the whole kind.
    hint: Option<&'static str>,
    names: Option<Names>,
    store: Option<Arc<str>>,
    loss: Option<LossReason>,
    holder: Option<HolderView>,
    kept_limit: Option<u32>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            what: what.into(),
            hint: None,
            names: None,
            store: None,
            loss: None,
            holder: None,
            kept_limit: None,
            source: None,
        }))
    }

    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, what)
    }

    /// The one place where failures of stores become errors of this crate.
    pub(crate) fn from_store(error: StoreError) -> Self {
        let kind = match (error.kind(), error.outcome()) {
            (StoreErrorKind::Unavailable, Outcome::NotDone) => ErrorKind::Unavailable,
            (StoreErrorKind::Unavailable, Outcome::Unknown) => ErrorKind::Unknown,
            (StoreErrorKind::NoQuorum, Outcome::NotDone) => ErrorKind::NoQuorum,
            (StoreErrorKind::NoQuorum, Outcome::Unknown) => ErrorKind::Unknown,
            (StoreErrorKind::Full, _) => ErrorKind::Full,
            (StoreErrorKind::NotAcknowledged, _) => ErrorKind::NotAcknowledged,
            (StoreErrorKind::Denied, _) => ErrorKind::Denied,
            (StoreErrorKind::Unsupported, _) => ErrorKind::Unsupported,
            (StoreErrorKind::Config, _) => ErrorKind::Config,
            (StoreErrorKind::CrossSlot, _) => ErrorKind::CrossSlot,
            (StoreErrorKind::Closed, _) => ErrorKind::Closed,
            (_, Outcome::Unknown) => ErrorKind::Unknown,
            (_, Outcome::NotDone) => ErrorKind::Internal,
        };
        let mut mapped = Self::new(kind, error.to_string());
        mapped.0.source = Some(Box::new(error));
        mapped
    }

    pub(crate) fn lost(reason: LossReason, held: Option<Duration>) -> Self {
        let what = match held {
            Some(held) => format!("it was lost after {}: {reason}", rounded(held)),
            None => format!("it is not held by this token: {reason}"),
        };
        let mut error = Self::new(ErrorKind::Lost, what);
        error.0.loss = Some(reason);
        error
    }

    /// Something else than what was asked for is at a name: another kind of lock, or no lock.
    pub(crate) fn foreign(name: &LockName, there: &ForeignKind, asked: &Mode) -> Self {
        match there {
            ForeignKind::Kind(kind) => {
                let what = format!("`{name}` is a {kind} at the moment, and no {}", asked.kind());
                Self::new(ErrorKind::ForeignValue, what)
                    .with_hint("choose another name, or wait until nobody holds it")
            }
            other => {
                let what = format!("{other} sits at the key of `{name}`");
                Self::new(ErrorKind::ForeignValue, what)
            }
        }
    }

    /// The store keeps another limit than the one that was said.
    pub(crate) fn limit_differs(asked: &Mode, kept: u32) -> Self {
        let (of, hint) = match asked {
            Mode::Permits { .. } => ("permits", "agree on one, or change it with `set_limit`"),
            Mode::Meeting { .. } => ("parties", "agree on one, or choose another name"),
            _ => ("steps", "agree on one, or choose another name"),
        };
        let own = asked.limit().unwrap_or_default();
        let what = format!("it was said to have {own} {of}, and the store keeps {kept}");
        let mut error = Self::config(what).with_hint(hint);
        error.0.kept_limit = Some(kept);
        error
    }

    pub(crate) fn with_names(mut self, names: &Names) -> Self {
        self.0.names = Some(names.clone());
        self
    }

    pub(crate) fn with_store(mut self, store: &Arc<str>) -> Self {
        self.0.store = Some(Arc::clone(store));
        self
    }

    pub(crate) fn with_hint(mut self, hint: &'static str) -> Self {
        self.0.hint = Some(hint);
        self
    }

    pub(crate) fn with_holder(mut self, holder: HolderView) -> Self {
        self.0.holder = Some(holder);
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether trying again helps.
    #[must_use]
    pub fn retry(&self) -> RetryAdvice {
        match self.0.kind {
            ErrorKind::WaitExpired
            | ErrorKind::Unavailable
            | ErrorKind::NoQuorum
            | ErrorKind::Full
            | ErrorKind::NotAcknowledged
            | ErrorKind::QueueFull
            | ErrorKind::TooLate
            | ErrorKind::Unknown => RetryAdvice::Later,
            ErrorKind::Lost => RetryAdvice::Acquire,
            _ => RetryAdvice::Never,
        }
    }

    /// The names of the lock, where the call was about one.
    #[must_use]
    pub fn names(&self) -> Option<&Names> {
        self.0.names.as_ref()
    }

    /// The store, without its password.
    #[must_use]
    pub fn store(&self) -> Option<&str> {
        self.0.store.as_deref()
    }

    /// Why the lock was lost, when it was.
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.0.loss
    }

    /// Who held the lock when the wait ended.
    #[must_use]
    pub fn holder(&self) -> Option<&HolderView> {
        self.0.holder.as_ref()
    }

    /// The limit of a semaphore (latch, barrier) that the store keeps, when it is another than the one
    /// that was said.
    #[must_use]
    pub fn kept_limit(&self) -> Option<u32> {
        self.0.kept_limit
    }

    /// Somebody else held the lock for as long as the caller was willing to wait.
    #[must_use]
    pub fn is_wait_expired(&self) -> bool {
        self.kind() == ErrorKind::WaitExpired
    }

    /// The lock was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.kind() == ErrorKind::Lost
    }

    /// The same task holds the lock already.
    #[must_use]
    pub fn is_already_held(&self) -> bool {
        self.kind() == ErrorKind::AlreadyHeld
    }

    /// The store can't be reached or can't serve now.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }

    /// Too few nodes of a quorum answered.
    #[must_use]
    pub fn is_no_quorum(&self) -> bool {
        self.kind() == ErrorKind::NoQuorum
    }

    /// Nobody knows whether the request was carried out.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.kind() == ErrorKind::Unknown
    }

    /// A setting, a name or a url is wrong.
    #[must_use]
    pub fn is_config(&self) -> bool {
        self.kind() == ErrorKind::Config
    }

    /// The client was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind() == ErrorKind::Closed
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        // What a store says of itself begins with its address: once is enough.
        let address = |store: &str| store.split(' ').next().unwrap_or_default().to_owned();
        let store = inner.store.as_ref().filter(|store| !inner.what.contains(&address(store)));
        match (&inner.names, store) {
            (Some(names), Some(store)) => write!(f, "{} in {store}: ", shown(names))?,
            (Some(names), None) => write!(f, "{}: ", shown(names))?,
            (None, Some(store)) => write!(f, "{store}: ")?,
            (None, None) => {}
        }
        f.write_str(&inner.what)?;
        if let Some(hint) = inner.hint.or_else(|| hint(inner.kind)) {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// What to try, where the message itself does not say it.
fn hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::WaitExpired => Some("wait longer, or look who holds it with `inspect`"),
        ErrorKind::Lost => Some("stop what it guarded, and acquire it anew"),
        ErrorKind::AlreadyHeld => Some("pass the guard on instead of locking again"),
        ErrorKind::Full => Some("make room in the store"),
        ErrorKind::QueueFull => Some("come back later, or share the work in another way"),
        ErrorKind::ForeignValue => Some("choose another name, or remove that value yourself"),
        ErrorKind::TooLate => Some("use a longer ttl, or look why the store is slow"),
        ErrorKind::Unknown => Some("what may have been granted is being given back"),
        _ => None,
    }
}

/// The names as messages call them: quoted, since a name may have spaces and commas in it.
pub(crate) fn shown(names: &Names) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let plural = if names.len() == 1 { "lock" } else { "locks" };
    format!("{plural} {}", quoted.join(", "))
}

/// A span as a person reads it: whole milliseconds, no more.
pub(crate) fn rounded(span: Duration) -> String {
    if span < Duration::from_secs(10) {
        format!("{:?}", Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    } else {
        format!("{}s", span.as_secs())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.to_string())
            .field("source", &self.0.source)
            .finish()
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}
