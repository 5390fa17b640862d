//! A semaphore, for threads.

use super::{
    Queued,
    common::{guard_verbs, held_verbs, leak_beside_others, options},
    iter,
    scope::{self, scope},
    wrap::blocking,
};
use crate::{Error, LimitChange};

blocking! {
    /// As many permits as its limit: [`fencelock::Semaphore`](crate::Semaphore) for threads.
    ///
    /// # Examples
    /// ```
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let gpus = locks.semaphore("gpu", 4);
    /// let three = gpus.acquire_many(3)?;
    /// assert!(gpus.try_acquire_many(2)?.granted().is_none());
    /// assert_eq!(gpus.run(|held| held.permits() + three.permits())?, 4);
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct Semaphore of crate::Semaphore;
    gets {
        fn limit() -> u32;
    }
    waits {
        fn set_limit(limit: u32) -> Result<LimitChange, Error>;
    }
    grants {
        fn acquire() -> Permit;
        fn acquire_many(permits: u32) -> Permit;
    }
    tries {
        fn try_acquire() -> Permit;
        fn try_acquire_many(permits: u32) -> Permit;
    }
}

options!(Semaphore of crate::Semaphore: asking, waiting, holding);

impl Semaphore {
    /// Blocks for what [`fencelock::Semaphore::enqueue_many`](crate::Semaphore::enqueue_many) does.
    ///
    /// # Errors
    /// As [`fencelock::Semaphore::enqueue_many`](crate::Semaphore::enqueue_many).
    pub fn enqueue_many(&self, permits: u32) -> Result<Queued<Permit>, Error> {
        Queued::begin(&self.inner.permits(permits), &self.driver, move |guard, driver| {
            Permit::of(crate::Permit::new(guard, permits), driver)
        })
    }

    /// Waits for a permit, does the work in this thread, and gives the permit back: see
    /// [`Mutex::run`](super::Mutex::run).
    ///
    /// # Errors
    /// As [`fencelock::Semaphore::run`](crate::Semaphore::run).
    pub fn run<T>(&self, work: impl FnOnce(PermitHeld) -> T) -> Result<T, Error> {
        self.run_many(1, work)
    }

    /// The same with several permits.
    ///
    /// # Errors
    /// As [`fencelock::Semaphore::run_many`](crate::Semaphore::run_many).
    pub fn run_many<T>(
        &self,
        permits: u32,
        work: impl FnOnce(PermitHeld) -> T,
    ) -> Result<T, Error> {
        let recipe = self.inner.permits(permits);
        scope::run_under(&recipe, || self.acquire_many(permits), work)
    }

    /// An iterator under several permits, from its first item to its end: see
    /// [`Mutex::run_iter`](super::Mutex::run_iter).
    ///
    /// # Errors
    /// In the last item, as [`Mutex::run_iter`](super::Mutex::run_iter).
    pub fn run_many_iter<F, I>(
        &self,
        permits: u32,
        work: F,
    ) -> impl Iterator<Item = Result<I::Item, Error>> + use<F, I>
    where
        F: FnOnce(PermitHeld) -> I,
        I: IntoIterator,
    {
        let semaphore = self.clone();
        iter::items(move || semaphore.acquire_many(permits), work)
    }
}

blocking! {
    /// Permits that are held: [`fencelock::Permit`](crate::Permit) for threads. Dropping it gives them
    /// back.
    #[must_use = "dropping the permit gives it back"]
    #[clippy::has_significant_drop]
    pub struct Permit of crate::Permit;
    gets {
        fn permits() -> u32;
        fn number() -> Option<u64>;
    }
}

guard_verbs!(Permit of crate::Permit);
leak_beside_others!(Permit);
scope!(Permit: PermitHeld, |permit| {
    crate::PermitHeld::new(permit.inner.as_guard().held(), permit.permits())
});

blocking! {
    /// What the work of a [`run`](Semaphore::run) sees of its permits:
    /// [`fencelock::PermitHeld`](crate::PermitHeld) for threads.
    #[derive(Clone)]
    pub struct PermitHeld of crate::PermitHeld;
    gets {
        fn name() -> &crate::LockName;
        fn permits() -> u32;
        fn number() -> Option<u64>;
    }
}

held_verbs!(PermitHeld of crate::PermitHeld);
