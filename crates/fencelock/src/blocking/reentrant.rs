//! A re-entrant mutex, for threads.

use fencelock_core::FencingToken;

use super::{
    Held, Queued,
    common::{guard_verbs, options},
    iter,
    scope::{self, scope},
    wrap::blocking,
};
use crate::Error;

blocking! {
    /// A mutex that its owner may take again: [`fencelock::Reentrant`](crate::Reentrant) for threads.
    /// The owner is a value that the caller chose; a thread is none by itself.
    ///
    /// # Examples
    /// ```
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let order = locks.reentrant("order:42", "job-7");
    /// let holds = order.run(|_held| order.run(|_held| order.hold_count()))???;
    /// assert_eq!(holds, 2);
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct Reentrant of crate::Reentrant;
    waits {
        fn hold_count() -> Result<u32, Error>;
    }
    grants {
        fn lock() -> ReentrantGuard;
    }
    tries {
        fn try_lock() -> ReentrantGuard;
    }
}

options!(Reentrant of crate::Reentrant: asking, waiting, holding, fencing);

impl Reentrant {
    /// Blocks for what [`fencelock::Reentrant::enqueue`](crate::Reentrant::enqueue) does.
    ///
    /// # Errors
    /// As [`fencelock::Reentrant::enqueue`](crate::Reentrant::enqueue).
    pub fn enqueue(&self) -> Result<Queued<ReentrantGuard>, Error> {
        Queued::begin(&self.inner.recipe(), &self.driver, |guard, driver| {
            ReentrantGuard::of(crate::ReentrantGuard::new(guard), driver)
        })
    }

    /// Waits for the lock, does the work in this thread, and gives this hold back: see
    /// [`Mutex::run`](super::Mutex::run). The work may lock the same name as the same owner.
    ///
    /// # Errors
    /// As [`fencelock::Reentrant::run`](crate::Reentrant::run).
    pub fn run<T>(&self, work: impl FnOnce(Held) -> T) -> Result<T, Error> {
        scope::run_under(&self.inner.recipe(), || self.lock(), work)
    }

    /// An iterator under this hold, from its first item to its end: see
    /// [`Mutex::run_iter`](super::Mutex::run_iter).
    ///
    /// # Errors
    /// In the last item, as [`Mutex::run_iter`](super::Mutex::run_iter).
    pub fn run_iter<F, I>(
        &self,
        work: F,
    ) -> impl Iterator<Item = Result<I::Item, Error>> + use<F, I>
    where
        F: FnOnce(Held) -> I,
        I: IntoIterator,
    {
        let lock = self.clone();
        iter::items(move || lock.lock(), work)
    }
}

blocking! {
    /// One hold of a re-entrant mutex: [`fencelock::ReentrantGuard`](crate::ReentrantGuard) for
    /// threads. Dropping it gives this hold back.
    #[must_use = "dropping the guard releases the lock"]
    #[clippy::has_significant_drop]
    pub struct ReentrantGuard of crate::ReentrantGuard;
    gets {
        fn fencing_token() -> Option<FencingToken>;
    }
}

guard_verbs!(ReentrantGuard of crate::ReentrantGuard);
scope!(ReentrantGuard: Held, |guard| guard.inner.as_guard().held());
