//! Being the leader: the guard of a term, and what the work of a term sees of it.

use std::{fmt, sync::Arc, time::Duration};

use fencelock_core::{FencingToken, LockName, LossReason};

use crate::{Guard, Held, Released};

/// One term of a leader. It is a value, as the [`Guard`] in it: it can be moved to any task or
/// thread, it is renewed while it lives, and dropping it resigns through the keeper.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let leadership = locks.election("scheduler").campaign("10.0.0.7:8080").await?;
/// while leadership.is_leader() {
///     // ... one step, which takes the term with it
/// #   break;
/// }
/// assert_eq!(leadership.resign().await, fencelock::Released::Held);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "dropping the leadership resigns"]
#[clippy::has_significant_drop]
pub struct Leadership {
    guard: Guard,
    info: String,
}

impl Leadership {
    pub(crate) fn new(guard: Guard, info: String) -> Self {
        Self { guard, info }
    }

    /// Gives the leadership back and says what the store found. End the work before: whoever is next
    /// may be elected before this returns.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn resign(self) -> Released {
        self.guard.release().await
    }

    /// What is elected.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.guard.name()
    }

    /// The number of the term, which grows with each leader: the fencing token of the lock. Nothing
    /// where the dialect has none.
    #[must_use]
    pub fn term(&self) -> Option<FencingToken> {
        self.guard.fencing_token()
    }

    /// What is published of this leader.
    #[must_use]
    pub fn info(&self) -> &str {
        &self.info
    }

    /// Whether it may act as the leader now. Cheap: it asks the clock, not the store.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_valid()
    }

    /// How long it may still act, unless it is renewed; zero when the leadership is lost.
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.guard.validity_left()
    }

    /// Waits until the leadership is lost, and says why.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        self.guard.lost().await
    }

    /// Waits until somebody [asks](crate::Client::revoke) the leader to step down; for ever, when
    /// nobody does.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn revoked(&self) {
        self.guard.revoked().await;
    }

    /// The guard of the term, for the rest of what it can tell.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("guard", &self.guard).field("info", &self.info).finish()
    }
}

/// What the work of a term sees of it, in [`Election::lead`](crate::Election::lead). Clones see the
/// same; none of them keeps the leadership.
#[derive(Clone, Debug)]
pub struct Leading {
    held: Held,
    info: Arc<str>,
}

impl Leading {
    pub(crate) fn new(held: Held, info: Arc<str>) -> Self {
        Self { held, info }
    }

    /// As [`Leadership::term`].
    #[must_use]
    pub fn term(&self) -> Option<FencingToken> {
        self.held.fencing_token()
    }

    /// As [`Leadership::info`].
    #[must_use]
    pub fn info(&self) -> &str {
        &self.info
    }

    /// Whether the work may go on. Work that blocks or was spawned elsewhere must look at this
    /// itself: only a future that is polled can be dropped.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.held.is_valid()
    }

    /// As [`Leadership::validity_left`].
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.held.validity_left()
    }

    /// Waits until the leadership is lost; for ever, when it is resigned instead.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        self.held.lost().await
    }

    /// As [`Leadership::revoked`]. Work that can stop early waits for this beside what it does, and
    /// returns [`Continue`](std::ops::ControlFlow::Continue).
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn revoked(&self) {
        self.held.revoked().await;
    }

    /// The lock of the term, for the rest of what it can tell.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }
}
