//! Work of a thread under a guard of any kind.
//!
//! The work runs outside of every runtime of ours: what it spawns goes where its thread belongs.

use fencelock_store::rt::Driver;

use super::{
    AcrossGuard, AcrossHeld, CompositeGuard, CompositeHeld, Guard, Held, in_child::InChild as _,
};
use crate::{
    Error, FencingToken,
    run::{self, Around},
    telemetry::Running,
};

/// A guard that work can be done under.
pub(super) trait Scope: Sized {
    /// What the work sees.
    type Held;

    fn held(&self) -> Self::Held;

    /// Its number, where that is a right to write.
    fn own_fence(&self) -> Option<FencingToken> {
        None
    }

    /// What is held around the work.
    fn around(&self) -> Vec<Around>;

    fn check_live(&self) -> Result<(), Error>;

    /// Gives it back, and says whether the work was done under it.
    fn finish<T>(self, output: T) -> Result<T, Error>;
}

/// Takes a lock by its recipe, does the work, and gives the lock back: one span around all of it.
pub(super) fn run_under<G: Scope, T>(
    recipe: &crate::Mutex,
    acquire: impl FnOnce() -> Result<G, Error>,
    work: impl FnOnce(G::Held) -> T,
) -> Result<T, Error> {
    run_in(Running::begin(recipe), acquire, work)
}

/// The same in a span that has begun.
pub(super) fn run_in<G: Scope, T>(
    running: Running,
    acquire: impl FnOnce() -> Result<G, Error>,
    work: impl FnOnce(G::Held) -> T,
) -> Result<T, Error> {
    let result = running.span().around(|| {
        let guard = acquire()?;
        running.granted(guard.own_fence());
        run(guard, work)
    });
    running.ended(result)
}

/// Does the work, and gives the lock back.
pub(super) fn run<G: Scope, T>(guard: G, work: impl FnOnce(G::Held) -> T) -> Result<T, Error> {
    let held = guard.held();
    let output = scoped(&guard, || work(held));
    guard.finish(output)
}

/// A step of the work.
pub(super) fn scoped<T>(guard: &impl Scope, step: impl FnOnce() -> T) -> T {
    run::scoped_blocking(guard.around(), step)
}

/// For a guard with one lease in it.
macro_rules! scope {
    ($guard:ident: $held:ident, $view:expr) => {
        impl $crate::blocking::scope::Scope for $guard {
            type Held = $held;

            fn held(&self) -> $held {
                let view: fn(&$guard) -> _ = $view;
                $held::of(view(self), &self.driver)
            }

            fn own_fence(&self) -> Option<$crate::FencingToken> {
                self.inner.as_guard().own_fence()
            }

            fn around(&self) -> Vec<$crate::run::Around> {
                vec![$crate::blocking::scope::around(self.inner.as_guard())]
            }

            fn check_live(&self) -> Result<(), $crate::Error> {
                self.inner.as_guard().check_live()
            }

            fn finish<T>(self, output: T) -> Result<T, $crate::Error> {
                $crate::blocking::scope::finish(self.inner.into_guard(), &self.driver, output)
            }
        }
    };
}
pub(super) use scope;

pub(super) fn around(guard: &crate::Guard) -> Around {
    Around::of(guard.context(), guard.names(), &guard.cell().fixed.mode)
}

pub(super) fn finish<T>(guard: crate::Guard, driver: &Driver, output: T) -> Result<T, Error> {
    driver.wait(run::finish(guard, output)).unwrap_or_else(Result::in_child)
}

impl crate::Guard {
    pub(crate) const fn as_guard(&self) -> &Self {
        self
    }

    pub(crate) const fn into_guard(self) -> Self {
        self
    }
}

scope!(Guard: Held, |guard| guard.inner.held());

impl Scope for CompositeGuard {
    type Held = CompositeHeld;

    fn held(&self) -> CompositeHeld {
        CompositeHeld::of(self.inner.held(), &self.driver)
    }

    fn around(&self) -> Vec<Around> {
        self.inner.around()
    }

    fn check_live(&self) -> Result<(), Error> {
        self.inner.check_live()
    }

    fn finish<T>(self, output: T) -> Result<T, Error> {
        let Self { inner, driver } = self;
        driver.wait(inner.finish(output)).unwrap_or_else(Result::in_child)
    }
}

impl Scope for AcrossGuard {
    type Held = AcrossHeld;

    fn held(&self) -> AcrossHeld {
        AcrossHeld::of(self.inner.held(), &self.driver)
    }

    fn own_fence(&self) -> Option<FencingToken> {
        self.inner.fencing_token()
    }

    fn around(&self) -> Vec<Around> {
        self.inner.around()
    }

    fn check_live(&self) -> Result<(), Error> {
        self.inner.check_live()
    }

    fn finish<T>(self, output: T) -> Result<T, Error> {
        let Self { inner, driver } = self;
        driver.wait(inner.finish(output)).unwrap_or_else(Result::in_child)
    }
}
