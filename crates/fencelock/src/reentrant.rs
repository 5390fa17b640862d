//! A re-entrant mutex: whoever says the same owner enters again.

use std::{fmt, future::Future};

use fencelock_core::{FencingToken, Mode, Owner, Token};

use crate::{
    Attempt, Error, Guard, Held, Inspection, Mutex, Queued,
    recipe::{guard_verbs, options},
    stream::streams,
};

/// The recipe for a mutex that its owner may take again. It does no I/O; its verbs do.
///
/// The owner is a value that the caller chose (1 to 64 bytes), never a thread or a process by itself:
/// a job id, an order, a request. Whoever says the same one enters, in this process or another one,
/// without waiting in the line: who waits there waits for the owner. So it has to be unguessable
/// where the callers do not trust each other, and different where they are not the same.
///
/// Each hold has a lease of its own, and all have the *same fencing token*: the owner is one writer.
/// The lock goes to another owner when the hold count is zero; holds whose process died end with
/// their ttl.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let order = locks.reentrant("order:42", "job-7");
/// let outer = order.lock().await?;
/// let inner = order.lock().await?;
/// assert_eq!(inner.fencing_token(), outer.fencing_token());
/// assert_eq!(order.hold_count().await?, 2);
/// assert!(locks.reentrant("order:42", "job-8").try_lock().await?.granted().is_none());
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct Reentrant {
    base: Mutex,
    owner: Result<Owner, String>,
}

options!(Reentrant: asking, waiting, holding, fencing);
streams!(Reentrant: run(Held) as run_stream, run_try_stream);

impl Reentrant {
    pub(crate) fn new(base: Mutex, owner: Result<Owner, String>) -> Self {
        Self { base, owner }
    }

    /// Waits until no other owner holds it, and takes it (once more).
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Config` for an owner that is empty or too long; `Unsupported` where the
    /// store has no re-entrant mutexes, and `ForeignValue` while the name is another kind of lock.
    /// `FenceAhead` when this owner has it already with a fencing token below the
    /// [`floor`](Self::floor). Inside scoped work of *another* owner `AlreadyHeld`; inside that of the same owner it is
    /// granted.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn lock(&self) -> Result<ReentrantGuard, Error> {
        self.recipe().lock().await.map(ReentrantGuard::new)
    }

    /// Tries to take it, once.
    ///
    /// # Errors
    /// As [`Reentrant::lock`], but busy is an answer; `QueueFull` when the owner has as many holds as
    /// can be.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_lock(&self) -> Result<Attempt<ReentrantGuard>, Error> {
        Ok(self.recipe().try_lock().await?.map(ReentrantGuard::new))
    }

    /// Takes a place in the line at the store, which the caller keeps: see [`Mutex::enqueue`].
    ///
    /// # Errors
    /// As [`Reentrant::lock`]; `Unsupported` where the store has no line.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn enqueue(&self) -> Result<Queued<ReentrantGuard>, Error> {
        Queued::begin(&self.recipe(), ReentrantGuard::new).await
    }

    /// Waits for the lock, does the work, and gives this hold back: see [`Mutex::run`]. The work may
    /// lock the same name as the same owner.
    ///
    /// # Errors
    /// As [`Reentrant::lock`] and [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        self.recipe().run(work).await
    }

    /// How often this owner holds it, as the store says; zero when another owner does, or nobody.
    ///
    /// # Errors
    /// `Config` for a wrong name or owner, or that the store can't be asked.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn hold_count(&self) -> Result<u32, Error> {
        let owner = self.owner.clone().map_err(Error::config)?;
        let names = self.base.names.clone().map_err(Error::config)?;
        Ok(match self.base.client().inspect(names.first().clone()).await? {
            Inspection::Held(holder) => {
                let own = holder.sharing.filter(|sharing| sharing.owner == Some(owner));
                own.map_or(0, |sharing| sharing.holders)
            }
            _ => 0,
        })
    }

    pub(crate) fn recipe(&self) -> Mutex {
        self.base.in_mode(self.owner.clone().map(Mode::Owned))
    }
}

impl fmt::Debug for Reentrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reentrant").field("base", &self.base).field("owner", &self.owner).finish()
    }
}

/// One hold of a re-entrant mutex. Dropping it gives this hold back; the last one frees the lock.
///
/// It can't be left without a guard, as others can: where that makes a new grant of it, its number
/// would be above that of the owner's other holds.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct ReentrantGuard {
    guard: Guard,
}

guard_verbs!(ReentrantGuard);

impl ReentrantGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    /// The number of the owner's grant, the same for all its holds; it grows with each grant to
    /// another owner, and with each after the hold count was zero. Nothing where the dialect has none.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.guard.fencing_token()
    }

    /// The token of this hold: a secret, with which anybody can renew and release it.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard.token()
    }
}
