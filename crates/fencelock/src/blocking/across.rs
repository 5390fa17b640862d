//! Sets of names in different slots of a cluster, for threads.

use std::time::Duration;

use fencelock_core::{FencingToken, LossReason, Moment, Names};

use super::{Mutex, iter, scope, wrap::blocking};
use crate::{Error, Released};

impl Mutex {
    /// As [`fencelock::Mutex::across_slots`](crate::Mutex::across_slots).
    pub fn across_slots(self) -> AcrossSlots {
        AcrossSlots { inner: self.inner.across_slots(), driver: self.driver }
    }
}

blocking! {
    /// The recipe for a set of names in different slots:
    /// [`fencelock::AcrossSlots`](crate::AcrossSlots) for threads.
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct AcrossSlots of crate::AcrossSlots;
    grants {
        fn lock() -> AcrossGuard;
    }
    tries {
        fn try_lock() -> AcrossGuard;
    }
}

impl AcrossSlots {
    /// Waits for all names, does the work in this thread, and gives them back: see
    /// [`Mutex::run`](super::Mutex::run).
    ///
    /// # Errors
    /// As [`fencelock::AcrossSlots::run`](crate::AcrossSlots::run).
    pub fn run<T>(&self, work: impl FnOnce(AcrossHeld) -> T) -> Result<T, Error> {
        scope::run_under(self.inner.recipe(), || self.lock(), work)
    }

    /// An iterator under all names, from its first item to its end: see
    /// [`Mutex::run_iter`](super::Mutex::run_iter).
    ///
    /// # Errors
    /// In the last item, as [`Mutex::run_iter`](super::Mutex::run_iter).
    pub fn run_iter<F, I>(
        &self,
        work: F,
    ) -> impl Iterator<Item = Result<I::Item, Error>> + use<F, I>
    where
        F: FnOnce(AcrossHeld) -> I,
        I: IntoIterator,
    {
        let set = self.clone();
        iter::items(move || set.lock(), work)
    }
}

blocking! {
    /// A set of names in different slots, held: [`fencelock::AcrossGuard`](crate::AcrossGuard) for
    /// threads. Dropping it gives all of them back.
    #[must_use = "dropping the guard releases the lock"]
    #[clippy::has_significant_drop]
    pub struct AcrossGuard of crate::AcrossGuard;
    gets {
        fn names() -> &Names;
        fn fencing_token() -> Option<FencingToken>;
        fn validity_left() -> Duration;
        fn is_valid() -> bool;
        fn deadline() -> Moment;
        fn is_revoked() -> bool;
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

blocking! {
    /// What the work of [`AcrossSlots::run`] sees of its set:
    /// [`fencelock::AcrossHeld`](crate::AcrossHeld) for threads.
    #[derive(Clone)]
    pub struct AcrossHeld of crate::AcrossHeld;
    gets {
        fn names() -> &Names;
        fn fencing_token() -> Option<FencingToken>;
        fn validity_left() -> Duration;
        fn is_valid() -> bool;
    }
    within {
        fn lost_within of lost -> LossReason;
    }
}
