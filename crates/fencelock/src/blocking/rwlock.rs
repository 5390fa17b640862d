//! A read-write lock, for threads.

use fencelock_core::FencingToken;

use super::{
    Held, Queued,
    common::{guard_verbs, held_verbs, leak_beside_others, options},
    in_child::InChild as _,
    iter,
    scope::{self, scope},
    wrap::blocking,
};
use crate::{Error, SharedToken, Ticket};

blocking! {
    /// Many readers, or one writer: [`fencelock::RwLock`](crate::RwLock) for threads.
    ///
    /// # Examples
    /// ```
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let lock = locks.rwlock("catalogue");
    /// let (one, two) = (lock.read()?, lock.read()?);
    /// assert!(lock.try_write()?.granted().is_none());
    /// drop((one, two));
    /// let reader = lock.write()?.downgrade()?;
    /// assert_eq!(reader.release(), fencelock::Released::Held);
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct RwLock of crate::RwLock;
    grants {
        fn read() -> ReadGuard;
        fn write() -> WriteGuard;
    }
    tries {
        fn try_read() -> ReadGuard;
        fn try_write() -> WriteGuard;
    }
}

options!(RwLock of crate::RwLock: asking, waiting, holding, fencing);

impl RwLock {
    /// Blocks for what [`fencelock::RwLock::enqueue_read`](crate::RwLock::enqueue_read) does.
    ///
    /// # Errors
    /// As [`fencelock::RwLock::enqueue_read`](crate::RwLock::enqueue_read).
    pub fn enqueue_read(&self) -> Result<Queued<ReadGuard>, Error> {
        Queued::begin(&self.inner.reader(), &self.driver, |guard, driver| {
            ReadGuard::of(crate::ReadGuard::new(guard), driver)
        })
    }

    /// Blocks for what [`fencelock::RwLock::enqueue_write`](crate::RwLock::enqueue_write) does.
    ///
    /// # Errors
    /// As [`fencelock::RwLock::enqueue_write`](crate::RwLock::enqueue_write).
    pub fn enqueue_write(&self) -> Result<Queued<WriteGuard>, Error> {
        Queued::begin(&self.inner.writer(), &self.driver, |guard, driver| {
            WriteGuard::of(crate::WriteGuard::new(guard), driver)
        })
    }

    /// Waits, does the work in this thread as a reader, and gives the lock back: see
    /// [`Mutex::run`](super::Mutex::run).
    ///
    /// # Errors
    /// As [`fencelock::RwLock::run_read`](crate::RwLock::run_read).
    pub fn run_read<T>(&self, work: impl FnOnce(ReadHeld) -> T) -> Result<T, Error> {
        scope::run_under(&self.inner.reader(), || self.read(), work)
    }

    /// Waits, does the work in this thread as the writer, and gives the lock back: see
    /// [`Mutex::run`](super::Mutex::run).
    ///
    /// # Errors
    /// As [`fencelock::RwLock::run_write`](crate::RwLock::run_write).
    pub fn run_write<T>(&self, work: impl FnOnce(Held) -> T) -> Result<T, Error> {
        scope::run_under(&self.inner.writer(), || self.write(), work)
    }

    /// An iterator as a reader, from its first item to its end: see
    /// [`Mutex::run_iter`](super::Mutex::run_iter).
    ///
    /// # Errors
    /// In the last item, as [`Mutex::run_iter`](super::Mutex::run_iter).
    pub fn run_read_iter<F, I>(
        &self,
        work: F,
    ) -> impl Iterator<Item = Result<I::Item, Error>> + use<F, I>
    where
        F: FnOnce(ReadHeld) -> I,
        I: IntoIterator,
    {
        let lock = self.clone();
        iter::items(move || lock.read(), work)
    }

    /// An iterator as the writer, from its first item to its end: see
    /// [`Mutex::run_iter`](super::Mutex::run_iter).
    ///
    /// # Errors
    /// In the last item, as [`Mutex::run_iter`](super::Mutex::run_iter).
    pub fn run_write_iter<F, I>(
        &self,
        work: F,
    ) -> impl Iterator<Item = Result<I::Item, Error>> + use<F, I>
    where
        F: FnOnce(Held) -> I,
        I: IntoIterator,
    {
        let lock = self.clone();
        iter::items(move || lock.write(), work)
    }
}

blocking! {
    /// A reader, beside others: [`fencelock::ReadGuard`](crate::ReadGuard) for threads.
    #[must_use = "dropping the guard releases the lock"]
    #[clippy::has_significant_drop]
    pub struct ReadGuard of crate::ReadGuard;
    gets {
        fn shared_token() -> Option<SharedToken>;
    }
}

guard_verbs!(ReadGuard of crate::ReadGuard);
leak_beside_others!(ReadGuard);
scope!(ReadGuard: ReadHeld, |guard| crate::ReadHeld::new(guard.inner.as_guard().held()));

blocking! {
    /// The writer, alone: [`fencelock::WriteGuard`](crate::WriteGuard) for threads.
    #[must_use = "dropping the guard releases the lock"]
    #[clippy::has_significant_drop]
    pub struct WriteGuard of crate::WriteGuard;
    gets {
        fn fencing_token() -> Option<FencingToken>;
    }
    ends {
        fn leak() -> Result<Ticket, Error>;
        fn detach() -> Result<Ticket, Error>;
    }
}

guard_verbs!(WriteGuard of crate::WriteGuard);
scope!(WriteGuard: Held, |guard| guard.inner.as_guard().held());

impl WriteGuard {
    /// Becomes a reader, without letting any writer in between: see
    /// [`fencelock::WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    ///
    /// # Errors
    /// As [`fencelock::WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    pub fn downgrade(self) -> Result<ReadGuard, Error> {
        let Self { inner, driver } = self;
        let reader = driver.wait(inner.downgrade()).unwrap_or_else(Result::in_child)?;
        Ok(ReadGuard::of(reader, &driver))
    }
}

blocking! {
    /// What the work of a reader sees of its lock: [`fencelock::ReadHeld`](crate::ReadHeld) for
    /// threads.
    #[derive(Clone)]
    pub struct ReadHeld of crate::ReadHeld;
    gets {
        fn name() -> &crate::LockName;
        fn shared_token() -> Option<SharedToken>;
    }
}

held_verbs!(ReadHeld of crate::ReadHeld);
