//! Why a request was not done, or not to its end.

use std::{error, fmt, time::Duration};

use http::StatusCode;

use crate::{Error, ErrorKind, RetryAdvice};

/// Why there is no response.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError<E> {
    /// What the request names can't be the name of a lock, and why.
    Name(String),
    /// The lock could not be had, or was lost while the request was done.
    Lock(Error),
    /// The inner service failed; the lock was given back.
    Inner(E),
}

impl<E> LockError<E> {
    /// What to answer with, unless it is the inner service that failed:
    ///
    /// | | |
    /// |---|---|
    /// | 400 | the name is none |
    /// | 423 | another request had the lock for as long as this one could wait |
    /// | 409 | the lock was lost: a part may be done, and somebody else may be at it |
    /// | 503 | the store can't be asked now |
    /// | 500 | anything else: settings, rights |
    pub fn status(&self) -> Option<StatusCode> {
        let error = match self {
            Self::Name(_) => return Some(StatusCode::BAD_REQUEST),
            Self::Lock(error) => error,
            Self::Inner(_) => return None,
        };
        Some(match (error.kind(), error.retry()) {
            (ErrorKind::WaitExpired, _) => StatusCode::LOCKED,
            (ErrorKind::Lost, _) => StatusCode::CONFLICT,
            (_, RetryAdvice::Later) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        })
    }

    /// For the header `Retry-After`, where the very same request may be done later. When a lock
    /// will be free nobody knows: this is only long enough to spread those who ask again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Lock(error) if error.retry() == RetryAdvice::Later => Some(RETRY_AFTER),
            _ => None,
        }
    }
}

const RETRY_AFTER: Duration = Duration::from_secs(1);

impl<E: fmt::Display> fmt::Display for LockError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(why) => write!(f, "the request names no lock: {why}"),
            Self::Lock(error) => fmt::Display::fmt(error, f),
            Self::Inner(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl<E: error::Error + 'static> error::Error for LockError<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Name(_) => None,
            Self::Lock(error) => error.source(),
            Self::Inner(error) => error.source(),
        }
    }
}
