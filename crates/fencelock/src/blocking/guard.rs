//! What is held, and what is known of it, for threads.

use std::{fmt, time::Duration};

use fencelock_core::{FencingToken, LeaseState, LockName, LossReason, Moment, Names, Token};
use fencelock_store::rt::Driver;

use super::{common::revoked_within, in_child::InChild as _, wrap::blocking};
use crate::{Error, Position, Released, Ticket};

blocking! {
    /// A lock that is held: [`fencelock::Guard`](crate::Guard) for threads.
    ///
    /// Dropping it hands the release to the keeper and waits for nothing.
    ///
    /// # Examples
    /// ```
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let guard = locks.mutex("invoice:42").lock()?;
    /// assert!(guard.is_valid());
    /// assert_eq!(guard.release(), fencelock::Released::Held);
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[must_use = "dropping the guard releases the lock"]
    #[clippy::has_significant_drop]
    pub struct Guard of crate::Guard;
    gets {
        fn name() -> &LockName;
        fn names() -> &Names;
        fn fencing_token() -> Option<FencingToken>;
        fn token() -> Token;
        fn token_hash() -> String;
        fn validity_left() -> Duration;
        fn is_valid() -> bool;
        fn state() -> LeaseState;
        fn deadline() -> Moment;
        fn hold_limit() -> Option<Moment>;
        fn kept_until() -> Option<Moment>;
        fn is_revoked() -> bool;
    }
    calls {
        fn report_progress();
    }
    waits {
        fn renew(ttl: Duration) -> Result<(), Error>;
        fn lost() -> LossReason;
        fn deadline_changed(seen: Moment) -> Moment;
    }
    within {
        fn lost_within of lost -> LossReason;
    }
    ends {
        fn release() -> Released;
        fn release_now() -> Released;
        fn leak() -> Result<Ticket, Error>;
        fn detach() -> Result<Ticket, Error>;
    }
}

revoked_within!(Guard);

impl From<Guard> for crate::Guard {
    /// The same hold, for async code.
    fn from(guard: Guard) -> Self {
        guard.inner
    }
}

blocking! {
    /// What the work of a [`run`](super::Mutex::run) sees of its lock:
    /// [`fencelock::Held`](crate::Held) for threads. Clones see the same; none of them keeps the lock.
    #[derive(Clone)]
    pub struct Held of crate::Held;
    gets {
        fn names() -> &Names;
        fn fencing_token() -> Option<FencingToken>;
        fn validity_left() -> Duration;
        fn is_valid() -> bool;
        fn state() -> LeaseState;
        fn deadline() -> Moment;
        fn is_revoked() -> bool;
    }
    calls {
        fn report_progress();
    }
    within {
        fn lost_within of lost -> LossReason;
    }
}

revoked_within!(Held);

/// A place in the line at the store: [`fencelock::Queued`](crate::Queued) for threads.
#[must_use = "dropping it gives up the place"]
pub struct Queued<G = Guard> {
    // In this order: the drop of the first may still need the second.
    inner: crate::Queued<G>,
    driver: Driver,
}

impl<G> Queued<G> {
    /// Takes a place for the recipe of a mutex, whose guard becomes that of another primitive.
    pub(super) fn begin(
        mutex: &crate::Mutex,
        driver: &Driver,
        wrap: impl Fn(crate::Guard, &Driver) -> G + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let wrap = {
            let driver = driver.clone();
            move |guard| wrap(guard, &driver)
        };
        let queued = driver.wait(crate::Queued::begin(mutex, wrap));
        let inner = queued.unwrap_or_else(Result::in_child)?;
        Ok(Self { inner, driver: driver.clone() })
    }

    /// As [`fencelock::Queued::position`](crate::Queued::position).
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.inner.position()
    }

    /// Blocks for what [`fencelock::Queued::granted`](crate::Queued::granted) does: a wait that ends
    /// keeps the place.
    ///
    /// # Errors
    /// As [`fencelock::Queued::granted`](crate::Queued::granted).
    pub fn granted(&mut self) -> Result<G, Error> {
        self.driver.wait(self.inner.granted()).unwrap_or_else(Result::in_child)
    }
}

impl<G> fmt::Debug for Queued<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

blocking! {
    /// A lease that is known by its token: [`fencelock::TokenLease`](crate::TokenLease) for threads.
    #[derive(Clone)]
    pub struct TokenLease of crate::TokenLease;
    gets {
        fn names() -> &Names;
        fn token_hash() -> String;
    }
    waits {
        fn renew(ttl: Duration) -> Result<Duration, Error>;
        fn release() -> Result<Released, Error>;
    }
}

impl TokenLease {
    /// As [`fencelock::TokenLease::adopt`](crate::TokenLease::adopt).
    ///
    /// # Errors
    /// As [`fencelock::TokenLease::adopt`](crate::TokenLease::adopt).
    pub fn adopt(&self, ttl: Duration) -> Result<Guard, Error> {
        let adopted = self.driver.wait(self.inner.adopt(ttl)).unwrap_or_else(Result::in_child);
        adopted.map(|guard| Guard::of(guard, &self.driver))
    }
}
