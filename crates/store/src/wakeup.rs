//! Hints that trying again may succeed.

use fencelock_core::LockName;

use crate::{BoxFuture, StoreError};

/// A subscription to the releases of some names.
///
/// A wakeup is a hint, no more: it may be late, lost, doubled, or for a lock that somebody else has
/// taken since. Whoever waits for one also has a timer.
pub trait WakeupStream: Send {
    /// The next name that was released.
    ///
    /// # Errors
    /// When the subscription is broken; subscribe again, and then try once, since a release may
    /// have been missed in between.
    ///
    /// # Cancel safety
    /// A dropped future loses no wakeup.
    fn next(&mut self) -> BoxFuture<'_, Result<LockName, StoreError>>;
}

/// A boxed [`WakeupStream`].
pub type Wakeups = Box<dyn WakeupStream>;
