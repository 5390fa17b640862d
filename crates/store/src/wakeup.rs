//! What a store tells those who wait, and those who are waited for.

use std::fmt;

use fencelock_core::{ListenerId, Wakeup};

/// Whoever is told. Called by the task that reads from the store, which must go on: neither method
/// may block or take long.
///
/// A wakeup is a hint: it may be late, lost or doubled. Whoever waits for one also has a timer.
pub trait WakeupSink: Send + Sync + 'static {
    /// Something for one of the tokens of this process.
    fn wake(&self, wakeup: Wakeup);

    /// Messages may have been missed, and none will come any more: listen again, then ask once for
    /// each place. Called at most once; not after the subscription was dropped.
    fn broken(&self);
}

/// A confirmed subscription; dropping it ends it.
pub struct Subscription {
    /// What acquires and renewals name, so that their process is told.
    pub listener: ListenerId,
    _end: Box<dyn Send + Sync>,
}

impl Subscription {
    /// A subscription that ends when `end` is dropped.
    pub fn new(listener: ListenerId, end: impl Send + Sync + 'static) -> Self {
        Self { listener, _end: Box::new(end) }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("listener", &self.listener).finish_non_exhaustive()
    }
}
