//! The recipe for a lock, for threads.

use std::time::Duration;

use fencelock_core::{Binding, FencingToken, RetryStrategy};

use super::{Guard, Held, Queued, scope, wrap::blocking};
use crate::{BusyView, Error, Renew, Wait};

blocking! {
    /// A lock that excludes everybody else: [`fencelock::Mutex`](crate::Mutex) for threads.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let invoice = locks.mutex("invoice:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(3));
    /// let receipt = invoice.run(|held| format!("paid once, as {:?}", held.fencing_token()))?;
    /// assert!(receipt.starts_with("paid once"));
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    #[derive(Clone)]
    #[must_use = "a recipe does nothing until one of its verbs is called"]
    pub struct Mutex of crate::Mutex;
    settings {
        fn ttl(ttl: Duration);
        fn wait(wait: impl Into<Wait>);
        fn retry(retry: RetryStrategy);
        fn strict_fifo();
        fn barging();
        fn metadata(key: impl Into<String>, value: impl Into<String>);
        fn label(label: impl Into<String>);
        fn renewal(renewal: Renew);
        fn min_hold(min_hold: Duration);
        fn max_hold(max_hold: Duration);
        fn progress_within(span: Duration);
        fn unattended();
        fn bind(binding: Binding);
        fn floor(floor: FencingToken);
        fn require_fencing();
        fn class(class: &'static str);
        fn on_busy(on_busy: impl Fn(&BusyView) + Send + Sync + 'static);
    }
    grants {
        fn lock() -> Guard;
    }
    tries {
        fn try_lock() -> Guard;
    }
}

impl Mutex {
    /// The same recipe, for async code.
    pub fn as_async(&self) -> &crate::Mutex {
        &self.inner
    }

    /// Blocks for what [`fencelock::Mutex::enqueue`](crate::Mutex::enqueue) does.
    ///
    /// # Errors
    /// As [`fencelock::Mutex::enqueue`](crate::Mutex::enqueue).
    pub fn enqueue(&self) -> Result<Queued, Error> {
        Queued::begin(&self.inner, &self.driver, Guard::of)
    }

    /// Waits for the lock, does the work in this thread, and gives the lock back: also when the work
    /// panics.
    ///
    /// Nothing can stop work that blocks: when the lock is lost it goes on, so long work looks at
    /// [`Held::is_valid`] between its steps. When it returns, the result is an error of kind `Lost`.
    /// Inside, the same name can't be locked again (`AlreadyHeld`).
    ///
    /// # Errors
    /// As [`fencelock::Mutex::run`](crate::Mutex::run).
    pub fn run<T>(&self, work: impl FnOnce(Held) -> T) -> Result<T, Error> {
        scope::run_under(&self.inner, || self.lock(), work)
    }
}
