//! What is held, and what is known of it, for threads.

use std::time::Duration;

use fencelock_core::{FencingToken, LeaseState, LockName, LossReason, Moment, Names, Token};
use fencelock_store::rt;

use super::{in_child::InChild as _, wrap::blocking};
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

impl Guard {
    /// Blocks until somebody asks for the lock back, for at most so long; false when nobody does, or
    /// the lock is lost first.
    #[must_use]
    pub fn revoked_within(&self, span: Duration) -> bool {
        let asked = before(self.inner.revoked(), self.inner.lost());
        self.driver.wait(rt::timeout(span, asked)).flatten().unwrap_or(false)
    }
}

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

impl Held {
    /// Blocks until somebody asks for the lock back, for at most so long; false when nobody does, or
    /// the lock is lost first.
    #[must_use]
    pub fn revoked_within(&self, span: Duration) -> bool {
        let asked = before(self.inner.revoked(), self.inner.lost());
        self.driver.wait(rt::timeout(span, asked)).flatten().unwrap_or(false)
    }
}

blocking! {
    /// A place in the line at the store: [`fencelock::Queued`](crate::Queued) for threads.
    #[must_use = "dropping it gives up the place"]
    pub struct Queued of crate::Queued;
    gets {
        fn position() -> Option<Position>;
    }
}

impl Queued {
    /// Blocks for what [`fencelock::Queued::granted`](crate::Queued::granted) does: a wait that ends
    /// keeps the place.
    ///
    /// # Errors
    /// As [`fencelock::Queued::granted`](crate::Queued::granted).
    pub fn granted(&mut self) -> Result<Guard, Error> {
        let granted = self.driver.wait(self.inner.granted());
        let granted = granted.unwrap_or_else(Result::in_child);
        granted.map(|inner| Guard::of(inner, &self.driver))
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

/// Whether the lock was asked back before it was lost.
async fn before(asked: impl Future<Output = ()>, lost: impl Future<Output = LossReason>) -> bool {
    let lost = async {
        lost.await;
    };
    rt::first(asked, lost).await.is_some()
}
