//! A lock of a registry, held.

use std::{sync::Arc, time::Duration};

use fencelock_core::{FencingToken, LockName, LossReason, Moment};
use fencelock_store::rt;

use super::lock::Shared;
use crate::{Error, Guard, Released};

/// A lock of a [`Registry`](super::Registry), held. Dropping it gives it back.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct RegistryGuard {
    guard: Guard,
    /// Behind the guard: the next of this registry asks when it is given back.
    _turn: Option<rt::sync::OwnedMutexGuard<()>>,
    /// An object that somebody holds is not idle.
    _shared: Held,
}

/// Keeps the object of the lock.
struct Held(#[allow(dead_code)] Arc<Shared>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl RegistryGuard {
    pub(super) fn new(
        guard: Guard,
        turn: Option<rt::sync::OwnedMutexGuard<()>>,
        shared: &Arc<Shared>,
    ) -> Self {
        Self { guard, _turn: turn, _shared: Held(Arc::clone(shared)) }
    }

    /// Its name, with the prefix of the registry.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.guard.name()
    }

    /// See [`Guard::fencing_token`].
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.guard.fencing_token()
    }

    /// See [`Guard::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guard.is_valid()
    }

    /// See [`Guard::validity_left`].
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.guard.validity_left()
    }

    /// See [`Guard::deadline`].
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.guard.deadline()
    }

    /// See [`Guard::lost`].
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        self.guard.lost().await
    }

    /// See [`Guard::renew`].
    ///
    /// # Errors
    /// As [`Guard::renew`].
    ///
    /// # Cancel safety
    /// As [`Guard::renew`].
    pub async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        self.guard.renew(ttl).await
    }

    /// Gives it back if it is still ours, and says whether it was: `Expired` when the lease had ended
    /// before, and then others may have had the lock meanwhile.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Released {
        self.guard.release().await
    }
}
