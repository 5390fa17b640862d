//! Several locks as one, for threads.

use std::time::Duration;

use fencelock_core::LossReason;

use super::{Mutex, Reentrant, iter, scope, wrap::blocking};
use crate::{Error, HeldPart, Part, Released, Wait};

blocking! {
    /// Several locks as one: [`fencelock::Composite`](crate::Composite) for threads.
    ///
    /// # Examples
    /// ```
    /// use fencelock::Part;
    ///
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let job = locks.all_of([
    ///     Part::from(locks.mutex("job:42")),
    ///     Part::read(locks.rwlock("catalogue").as_async()),
    ///     Part::permits(locks.semaphore("gpu", 4).as_async(), 2),
    /// ]);
    /// assert!(job.run(|held| held.is_valid())?);
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct Composite of crate::Composite;
    settings {
        fn wait(wait: impl Into<Wait>);
    }
    grants {
        fn lock() -> CompositeGuard;
    }
    tries {
        fn try_lock() -> CompositeGuard;
    }
}

impl Composite {
    /// Waits for all parts, does the work in this thread, and gives them back: see
    /// [`Mutex::run`](super::Mutex::run).
    ///
    /// # Errors
    /// As [`fencelock::Composite::run`](crate::Composite::run).
    pub fn run<T>(&self, work: impl FnOnce(CompositeHeld) -> T) -> Result<T, Error> {
        scope::run_in(self.inner.running(), || self.lock(), work)
    }

    /// An iterator under all parts, from its first item to its end: see
    /// [`Mutex::run_iter`](super::Mutex::run_iter).
    ///
    /// # Errors
    /// In the last item, as [`Mutex::run_iter`](super::Mutex::run_iter).
    pub fn run_iter<F, I>(
        &self,
        work: F,
    ) -> impl Iterator<Item = Result<I::Item, Error>> + use<F, I>
    where
        F: FnOnce(CompositeHeld) -> I,
        I: IntoIterator,
    {
        let locks = self.clone();
        iter::items(move || locks.lock(), work)
    }
}

impl From<Mutex> for Part {
    fn from(mutex: Mutex) -> Self {
        Self::from(mutex.inner)
    }
}

impl From<Reentrant> for Part {
    fn from(mutex: Reentrant) -> Self {
        Self::from(mutex.inner)
    }
}

blocking! {
    /// Several locks that are held as one: [`fencelock::CompositeGuard`](crate::CompositeGuard) for
    /// threads. Dropping it gives all of them back.
    #[must_use = "dropping the guard releases the locks"]
    #[clippy::has_significant_drop]
    pub struct CompositeGuard of crate::CompositeGuard;
    gets {
        fn is_valid() -> bool;
        fn validity_left() -> Duration;
        fn is_revoked() -> bool;
    }
    calls {
        fn report_progress();
    }
    waits {
        fn renew(ttl: Duration) -> Result<(), Error>;
        fn lost() -> LossReason;
    }
    within {
        fn lost_within of lost -> LossReason;
    }
    ends {
        fn release() -> Released;
    }
}

impl CompositeGuard {
    /// As [`fencelock::CompositeGuard::parts`](crate::CompositeGuard::parts).
    pub fn parts(&self) -> impl Iterator<Item = HeldPart<'_>> {
        self.inner.parts()
    }
}

blocking! {
    /// What the work of [`Composite::run`] sees of its locks:
    /// [`fencelock::CompositeHeld`](crate::CompositeHeld) for threads.
    #[derive(Clone)]
    pub struct CompositeHeld of crate::CompositeHeld;
    gets {
        fn is_valid() -> bool;
        fn validity_left() -> Duration;
    }
    calls {
        fn report_progress();
    }
    within {
        fn lost_within of lost -> LossReason;
    }
}
