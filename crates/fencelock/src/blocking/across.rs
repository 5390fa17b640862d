//! Sets of names in different slots of a cluster, for threads.

use std::time::Duration;

use fencelock_core::{FencingToken, LossReason, Mode, Moment, Names};

use super::{Mutex, in_child::InChild as _, wrap::blocking};
use crate::{
    Error, Released,
    run::{self, Around},
};

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
        let AcrossGuard { inner: guard, driver } = self.lock()?;
        let held = AcrossHeld::of(guard.held(), &driver);
        let context = self.inner.context();
        let around = vec![Around::of(context, guard.names(), &Mode::Exclusive)];
        let output = run::scoped_blocking(around, || work(held));
        driver.wait(guard.finish(context, output)).unwrap_or_else(Result::in_child)
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
