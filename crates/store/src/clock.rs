//! The clocks that validity is counted on.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fencelock_core::Moment;

use crate::rt;

/// A clock of this process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Clock {
    /// It runs while the machine is suspended: for stores on other machines, whose leases go on
    /// ending meanwhile. (`std::time::Instant` stands still then on Linux.)
    Boottime,
    /// It stands still while the machine is suspended: for stores on this machine, where holder
    /// and contenders are suspended together.
    Monotonic,
    /// It moves when a test says so.
    Manual(ManualClock),
}

impl Clock {
    /// The longest that a sleep goes without looking at the clock: timers do not count suspended
    /// time, so after a resume this is how late one can be.
    const LONGEST_NAP: Duration = Duration::from_secs(1);

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        match self {
            Self::Boottime => rt::boottime_now(),
            Self::Monotonic => rt::monotonic_now(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// Sleeps until a moment; for ever, when that is never.
    ///
    /// # Cancel safety
    /// Safe: nothing happens when it is dropped.
    pub async fn sleep_until(&self, moment: Moment) {
        match self {
            Self::Manual(clock) => clock.wait_until(moment).await,
            Self::Boottime | Self::Monotonic => loop {
                let left = moment.saturating_since(self.now());
                if left.is_zero() {
                    return;
                }
                rt::sleep(left.min(Self::LONGEST_NAP)).await;
            },
        }
    }

    /// Runs a future until a moment.
    ///
    /// # Errors
    /// `None` when the moment came first; the future is dropped.
    pub async fn until<F: Future>(&self, moment: Moment, future: F) -> Option<F::Output> {
        match self {
            Self::Manual(clock) => rt::first(future, clock.wait_until(moment)).await,
            Self::Boottime | Self::Monotonic => {
                let left = moment.saturating_since(self.now());
                if left <= Self::LONGEST_NAP {
                    // One timer, no more: this is the way of every request.
                    return rt::timeout(left, future).await;
                }
                rt::first(future, self.sleep_until(moment)).await
            }
        }
    }
}

/// A clock that stands still until a test moves it. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    inner: Arc<ManualInner>,
}

#[derive(Debug, Default)]
struct ManualInner {
    now: Mutex<Moment>,
    moved: rt::sync::Notify,
}

impl ManualClock {
    /// A clock that shows one hour, so that moments before the present exist.
    #[must_use]
    pub fn new() -> Self {
        let clock = Self::default();
        clock.advance(Duration::from_secs(3_600));
        clock
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        *self.inner.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the clock and wakes everybody whose moment has come.
    pub fn advance(&self, by: Duration) {
        let mut now = self.inner.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(by);
        drop(now);
        self.inner.moved.notify_waiters();
    }

    async fn wait_until(&self, moment: Moment) {
        loop {
            // Registered before the look, so that a move in between is not missed.
            let mut moved = std::pin::pin!(self.inner.moved.notified());
            moved.as_mut().enable();
            if self.now() >= moment {
                return;
            }
            moved.await;
        }
    }
}
