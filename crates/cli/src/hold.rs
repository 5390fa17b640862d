//! How a name is held: alone, beside others that share it, or with some of its permits; and the grant
//! of each as one type, for what `run` and `acquire` do with all of them alike.
//!
//! Only who is alone has a fencing token: the number of a reader or of a permit must not reach what a
//! resource checks writes by, so it is not to be had here.

use std::fmt;
use std::time::Duration;

use fencelock::{
    Error, Guard, LossReason, Moment, Mutex, Names, Permit, ReadGuard, Released, RwLock, Semaphore,
    Token,
};

use crate::failure::Failure;
use crate::settings::{Settings, Sourced};

/// How a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Beside others that share it, and never beside one that does not.
    Shared,
    /// With some of the permits of a semaphore.
    Permits {
        /// How many.
        permits: u32,
        /// How many there are.
        limit: u32,
    },
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Manner::Shared => f.write_str("to share it with others"),
            Manner::Permits { permits, limit } => write!(f, "with {permits} of {limit} permits"),
        }
    }
}

/// A grant.
pub(crate) enum Hold {
    Alone(Guard),
    Shared(ReadGuard),
    Permits(Permit),
}

/// Takes the lock that a recipe describes, in the manner that is set; alone without one.
///
/// # Errors
/// What the library says.
pub(crate) async fn take(mutex: Mutex, manner: Option<Manner>) -> Result<Hold, Error> {
    Ok(match manner {
        None => Hold::Alone(mutex.lock().await?),
        Some(Manner::Shared) => Hold::Shared(RwLock::of_mutex(mutex).read().await?),
        Some(Manner::Permits { permits, limit }) => {
            let semaphore = Semaphore::of_mutex(mutex, limit);
            Hold::Permits(semaphore.acquire_many(permits).await?)
        }
    })
}

/// The manner in which these names shall be held.
///
/// # Errors
/// Several names are a set, which excludes everybody else.
pub(crate) fn manner_of(settings: &Settings, names: &Names) -> Result<Option<Manner>, Failure> {
    match &settings.manner {
        Some(Sourced { origin, .. }) if names.len() > 1 => Err(origin.fail(
            "is for one lock, and several were named: a set of locks is held by one alone; take one \
             inside the other, always in the same order, as in `run A -- fencelock run B -- COMMAND`",
        )),
        manner => Ok(manner.as_ref().map(|manner| manner.value)),
    }
}

/// One question to whichever guard it is.
macro_rules! each {
    ($hold:expr, $guard:ident => $answer:expr) => {
        match $hold {
            Hold::Alone($guard) => $answer,
            Hold::Shared($guard) => $answer,
            Hold::Permits($guard) => $answer,
        }
    };
}

impl Hold {
    pub(crate) async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        each!(self, guard => guard.renew(ttl).await)
    }

    /// Leaves it held for its ttl: the token that it is known by from then on.
    pub(crate) async fn leave(self) -> Result<Token, Error> {
        Ok(match self {
            Hold::Alone(guard) => guard.detach().await?.token(),
            Hold::Shared(guard) => guard.leak().await?.token(),
            Hold::Permits(permit) => permit.leak().await?.token(),
        })
    }

    pub(crate) async fn release(self) -> Released {
        each!(self, guard => guard.release().await)
    }

    pub(crate) async fn release_now(self) -> Released {
        each!(self, guard => guard.release_now().await)
    }

    /// The number for what the holder writes; nothing where it is not alone, or the store has none.
    pub(crate) fn fencing_token(&self) -> Option<u64> {
        match self {
            Hold::Alone(guard) => guard.fencing_token().map(|token| token.as_u64()),
            Hold::Shared(_) | Hold::Permits(_) => None,
        }
    }

    pub(crate) fn token(&self) -> Token {
        each!(self, guard => guard.token())
    }

    pub(crate) fn token_hash(&self) -> String {
        each!(self, guard => guard.token_hash())
    }

    pub(crate) fn validity_left(&self) -> Duration {
        each!(self, guard => guard.validity_left())
    }

    pub(crate) fn is_valid(&self) -> bool {
        each!(self, guard => guard.is_valid())
    }

    pub(crate) fn deadline(&self) -> Moment {
        each!(self, guard => guard.deadline())
    }

    pub(crate) async fn deadline_changed(&self, seen: Moment) -> Moment {
        each!(self, guard => guard.deadline_changed(seen).await)
    }

    pub(crate) fn hold_limit(&self) -> Option<Moment> {
        each!(self, guard => guard.hold_limit())
    }

    pub(crate) fn kept_until(&self) -> Option<Moment> {
        each!(self, guard => guard.kept_until())
    }

    pub(crate) async fn lost(&self) -> LossReason {
        each!(self, guard => guard.lost().await)
    }

    pub(crate) async fn revoked(&self) {
        each!(self, guard => guard.revoked().await);
    }
}
