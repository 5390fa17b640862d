//! A read-write lock: many readers, or one writer.
//!
//! ```text
//!   line at the store   W1 | R2 R3 R4 | W5 | R6      W1 releases: R2 R3 R4 are granted in one step,
//!                                                    R6 waits for W5, and W5 for R2 R3 R4
//! ```
//! First come, first served, so neither writers nor readers starve: a reader that comes while a
//! writer waits is behind it, and all readers in a row come in together.

mod guards;
mod held;
mod shared_token;

use std::{fmt, future::Future};

use fencelock_core::Mode;

pub use self::{
    guards::{ReadGuard, WriteGuard},
    held::ReadHeld,
    shared_token::SharedToken,
};
use crate::{Attempt, Error, Held, Mutex, Queued, recipe::options, stream::streams};

/// The recipe for a read-write lock. It does no I/O; its verbs do.
///
/// Each reader has a lease of its own, which the keeper renews: one that dies blocks a writer for no
/// longer than its ttl, and takes nothing from the others. A [mutex](crate::Mutex) of the same name
/// is the same lock as its writer.
///
/// # Fencing
/// Each grant has its own number. A resource keeps the highest one of a *writer*: a reader shows its
/// [`SharedToken`] to [`fenced::check_read`](crate::fenced::check_read), is refused below that, and
/// never raises it.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let lock = locks.rwlock("catalogue");
/// let (one, two) = (lock.read().await?, lock.read().await?);
/// assert!(lock.try_write().await?.granted().is_none());
/// drop((one, two));
/// let writer = lock.write().await?;
/// let reader = writer.downgrade().await?;
/// assert_eq!(reader.release().await, fencelock::Released::Held);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until one of its verbs is called"]
pub struct RwLock {
    base: Mutex,
}

options!(RwLock: asking, waiting, holding, fencing);
streams!(RwLock: run_read(ReadHeld) as run_read_stream, run_read_try_stream);
streams!(RwLock: run_write(Held) as run_write_stream, run_write_try_stream);

impl RwLock {
    pub(crate) fn new(base: Mutex) -> Self {
        Self { base }
    }

    /// The read-write lock of the name of a mutex, with the options that were given to it: for
    /// callers who decide late how they hold a name.
    ///
    /// # Examples
    /// ```
    /// use fencelock::RwLock;
    /// # async fn example() -> Result<(), fencelock::Error> {
    /// let locks = fencelock::connect("memory:").await?;
    /// let job = locks.mutex("job").metadata("team", "ops");
    /// let reader = RwLock::of_mutex(job.clone()).read().await?;
    /// assert!(job.try_lock().await?.granted().is_none());
    /// # drop(reader); Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn of_mutex(recipe: Mutex) -> Self {
        Self::new(recipe.of_one_name("a read-write lock"))
    }

    /// Waits until nobody writes, and reads beside others.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Unsupported` where the store has no read-write locks, and `ForeignValue`
    /// while the name is another kind of lock. Inside a scoped read of the same name `AlreadyHeld`: a
    /// writer that waits in between would wait for the outer one, and the inner one for the writer.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn read(&self) -> Result<ReadGuard, Error> {
        self.reader().lock().await.map(ReadGuard::new)
    }

    /// Tries to read, once. Busy while somebody writes or waits to.
    ///
    /// # Errors
    /// As [`RwLock::read`], but busy is an answer; `QueueFull` when as many read as can.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_read(&self) -> Result<Attempt<ReadGuard>, Error> {
        Ok(self.reader().try_lock().await?.map(ReadGuard::new))
    }

    /// Waits until nobody reads or writes, and writes alone.
    ///
    /// # Errors
    /// As [`RwLock::read`]. Inside a scoped read of the same name `AlreadyHeld`: there is no way from
    /// reading to writing, since two that want to go it would wait for each other.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn write(&self) -> Result<WriteGuard, Error> {
        self.writer().lock().await.map(WriteGuard::new)
    }

    /// Tries to write, once.
    ///
    /// # Errors
    /// As [`RwLock::write`], but busy is an answer.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_write(&self) -> Result<Attempt<WriteGuard>, Error> {
        Ok(self.writer().try_lock().await?.map(WriteGuard::new))
    }

    /// Takes a place in the line at the store, which the caller keeps: see [`Mutex::enqueue`].
    ///
    /// # Errors
    /// As [`RwLock::read`]; `Unsupported` where the store has no line.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn enqueue_read(&self) -> Result<Queued<ReadGuard>, Error> {
        Queued::begin(&self.reader(), ReadGuard::new).await
    }

    /// Takes a place in the line at the store, which the caller keeps: see [`Mutex::enqueue`].
    ///
    /// # Errors
    /// As [`RwLock::write`]; `Unsupported` where the store has no line.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn enqueue_write(&self) -> Result<Queued<WriteGuard>, Error> {
        Queued::begin(&self.writer(), WriteGuard::new).await
    }

    /// Waits, does the work as a reader, and gives the lock back: see [`Mutex::run`].
    ///
    /// # Errors
    /// As [`RwLock::read`] and [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run_read<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(ReadHeld) -> Fut,
        Fut: Future<Output = T>,
    {
        self.reader().run(|held| work(ReadHeld::new(held))).await
    }

    /// Waits, does the work as the writer, and gives the lock back: see [`Mutex::run`].
    ///
    /// # Errors
    /// As [`RwLock::write`] and [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run_write<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        self.writer().run(work).await
    }

    pub(crate) fn reader(&self) -> Mutex {
        self.base.in_mode(Ok(Mode::Shared))
    }

    pub(crate) fn writer(&self) -> Mutex {
        self.base.in_mode(Ok(Mode::Exclusive))
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("base", &self.base).finish()
    }
}
