//! A semaphore: as many permits as its limit, each grant with a lease of its own.

use std::{fmt, future::Future};

use fencelock_core::{LimitSet, Mode, Moment, SetLimitRequest, Token};

use crate::{
    Attempt, Error, ErrorKind, Guard, Held, Mutex, Queued, possible,
    recipe::{guard_verbs, held_verbs, leak_beside_others, options},
    stream::streams,
};

/// The recipe for permits of a semaphore. It does no I/O; its verbs do.
///
/// First come, first served: who wants many permits keeps its place before those who want few, so it
/// does not starve; permits that are free meanwhile wait with it. One who dies gives its permits
/// back with the end of its ttl.
///
/// # The limit
/// Everybody says it, and the store keeps it for as long as it remembers the name. Who says another
/// one is told both (`Config`), and nothing is done: two deployments that disagree would each be
/// right by its own count. [`Semaphore::set_limit`] changes it.
///
/// # No fencing
/// A permit is no right to write: several have one at the same time, and their numbers say nothing of
/// who may write what. So [`Permit::number`] is a plain number, which the helpers in
/// [`fenced`](crate::fenced) do not take.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let gpus = locks.semaphore("gpu", 4);
/// let three = gpus.acquire_many(3).await?;
/// assert!(gpus.try_acquire_many(2).await?.granted().is_none());
/// let one = gpus.acquire().await?;
/// assert_eq!((three.permits(), one.permits()), (3, 1));
/// assert_eq!(three.release().await, fencelock::Released::Held);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct Semaphore {
    base: Mutex,
    limit: u32,
}

options!(Semaphore: asking, waiting, holding);
streams!(Semaphore: run(PermitHeld) as run_stream, run_try_stream);
streams!(Semaphore: run_many(PermitHeld, permits: u32) as run_many_stream, run_many_try_stream);

impl Semaphore {
    /// The most permits.
    pub const MAX_LIMIT: u32 = Mode::MAX_LIMIT;

    pub(crate) fn new(base: Mutex, limit: u32) -> Self {
        Self { base, limit }
    }

    /// The semaphore of the name of a mutex, with the options that were given to it: for callers who
    /// decide late how they hold a name. One that wants fencing tokens is refused only where a mutex
    /// would be; permits have none.
    pub fn of_mutex(recipe: Mutex, limit: u32) -> Self {
        Self::new(recipe.of_one_name("a semaphore"), limit)
    }

    /// Waits for one permit.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Config` for a limit out of range or another one than the store keeps;
    /// `Unsupported` where the store has no semaphores, and `ForeignValue` while the name is another
    /// kind of lock. Inside scoped work with permits of the same name `AlreadyHeld`: who waits for
    /// permits while it has some may wait for somebody who does the same.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1).await
    }

    /// Waits for several permits at once: all or none.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`]; `Config` for no permits, or more than there are.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn acquire_many(&self, permits: u32) -> Result<Permit, Error> {
        let guard = self.permits(permits).lock().await?;
        Ok(Permit::new(guard, permits))
    }

    /// Tries for one permit, once.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`], but busy is an answer; `QueueFull` when as many hold permits as
    /// can.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_acquire(&self) -> Result<Attempt<Permit>, Error> {
        self.try_acquire_many(1).await
    }

    /// Tries for several permits at once, once. Busy also while they are free and somebody waits for
    /// more.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`] and [`Semaphore::acquire_many`].
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Attempt<Permit>, Error> {
        Ok(self.permits(permits).try_lock().await?.map(|guard| Permit::new(guard, permits)))
    }

    /// Takes a place in the line at the store, which the caller keeps: see [`Mutex::enqueue`].
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`]; `Unsupported` where the store has no line.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn enqueue_many(&self, permits: u32) -> Result<Queued<Permit>, Error> {
        Queued::begin(&self.permits(permits), move |guard| Permit::new(guard, permits)).await
    }

    /// Waits for a permit, does the work, and gives the permit back: see [`Mutex::run`].
    ///
    /// # Errors
    /// As [`Semaphore::acquire`] and [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(PermitHeld) -> Fut,
        Fut: Future<Output = T>,
    {
        self.run_many(1, work).await
    }

    /// The same with several permits.
    ///
    /// # Errors
    /// As [`Semaphore::acquire_many`] and [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run_many<F, Fut, T>(&self, permits: u32, work: F) -> Result<T, Error>
    where
        F: FnOnce(PermitHeld) -> Fut,
        Fut: Future<Output = T>,
    {
        self.permits(permits).run(|held| work(PermitHeld::new(held, permits))).await
    }

    /// Changes the limit at the store, for everybody: what this recipe says does not matter. Permits
    /// that are held stay; with fewer than that, nobody is granted any until enough came back. Whoever
    /// waits with the old limit is told of the new one by an error.
    ///
    /// Later callers have to say the new one, so make another recipe with it. Before anybody used the
    /// name, this sets it.
    ///
    /// # Errors
    /// `Config` for a limit out of range; `Unsupported` where the store has no semaphores,
    /// `ForeignValue` while the name is another kind of lock; or that the store can't be asked. The
    /// same call again is harmless.
    ///
    /// # Cancel safety
    /// A request that was sent may be carried out.
    pub async fn set_limit(&self, limit: u32) -> Result<LimitChange, Error> {
        let context = self.base.context();
        context.check_open()?;
        let names = self.base.names.clone().map_err(Error::config)?;
        let named = |error: Error| error.with_names(&names).with_store(&context.display);
        let mode = possible::checked(Mode::Permits { permits: 1, limit });
        let mode = mode.map_err(|what| named(Error::config(what)))?;
        if !context.store.capabilities().modes.set_limit {
            let what = "this store has no semaphores whose limit can be changed";
            return Err(named(Error::new(ErrorKind::Unsupported, what)));
        }
        let mut request = SetLimitRequest::new(names.first().clone(), limit);
        request.retain = context.settings.retain;
        let by = context.call_limit(Moment::NEVER);
        let asked = context.ask(context.store.set_limit(&request, by)).await;
        let failed = |error| match Error::from_store(error) {
            error if error.is_unknown() => {
                named(error).with_hint("ask again: it is harmless twice")
            }
            error => named(error),
        };
        match asked.result.map_err(failed)?.answer {
            LimitSet::Set { before, used } => Ok(LimitChange { before, used }),
            LimitSet::Foreign(kind) => Err(named(Error::foreign(names.first(), &kind, &mode))),
            _ => Err(named(Error::new(ErrorKind::Internal, "an answer of an unknown kind"))),
        }
    }

    /// How many permits there are, as this recipe says.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    pub(crate) fn permits(&self, permits: u32) -> Mutex {
        let limit = self.limit;
        self.base.in_mode(possible::checked(Mode::Permits { permits, limit }))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("base", &self.base).field("limit", &self.limit).finish()
    }
}

/// What a change of the limit found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitChange {
    /// The limit before; nothing when the store kept none.
    pub before: Option<u32>,
    /// How many permits are held: after a change to fewer, perhaps more than there are.
    pub used: u32,
}

/// Permits that are held. Dropping it gives them back.
///
/// While [`Permit::is_valid`] no more than the limit are held by everybody together, under the same
/// assumptions as for a [`Guard`](crate::Guard).
#[derive(Debug)]
#[must_use = "dropping the permit gives it back"]
#[clippy::has_significant_drop]
pub struct Permit {
    guard: Guard,
    permits: u32,
}

guard_verbs!(Permit);
leak_beside_others!(Permit);

impl Permit {
    pub(crate) const fn new(guard: Guard, permits: u32) -> Self {
        Self { guard, permits }
    }

    /// How many permits it is.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// A number that is larger for each later grant of the name: to tell grants apart. It is no
    /// fencing token, since others hold permits at the same time. Nothing where the dialect has none.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.guard.fencing_token().map(u64::from)
    }

    /// The token of this lease: a secret, with which anybody can renew and release it.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard.token()
    }
}

/// Permits that are held for the time of a [`run`](Semaphore::run). Clones see the same; none of them
/// keeps the permits.
#[derive(Clone, Debug)]
pub struct PermitHeld {
    held: Held,
    permits: u32,
}

held_verbs!(PermitHeld);

impl PermitHeld {
    pub(crate) const fn new(held: Held, permits: u32) -> Self {
        Self { held, permits }
    }

    /// How many permits it is.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// As [`Permit::number`].
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.held.fencing_token().map(u64::from)
    }
}
