//! One lock of a registry.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use fencelock_core::{LockName, Names, RetryStrategy};
use fencelock_store::rt;

use super::{RegistryGuard, RegistrySettings, wrong};
use crate::{Attempt, Client, Error, Held, Mutex, Wait, stream::streams};

/// Between two tries, whatever the store could tell: as the registries do that this one follows.
const BACK_OFF: Duration = Duration::from_millis(100);

/// What all handles of one lock share.
pub(super) struct Shared {
    mutex: Result<Mutex, String>,
    /// Whoever asks the store: the tasks of a registry do so one after the other, in their order.
    turn: Arc<rt::sync::Mutex<()>>,
}

impl Shared {
    pub(super) fn new(
        client: &Client,
        name: Result<LockName, String>,
        settings: &RegistrySettings,
    ) -> Self {
        let mutex = name.map(|name| {
            client
                .mutexes(Names::one(name).iter().cloned())
                .ttl(settings.expire_after)
                .renewal(settings.renewal)
                .retry(RetryStrategy::fixed(BACK_OFF))
        });
        Self { mutex, turn: Arc::default() }
    }
}

/// One lock of a [`Registry`](super::Registry). Clones are handles of the same. It is not re-entrant.
#[derive(Clone)]
#[must_use = "a lock does nothing until one of its verbs is called"]
pub struct RegistryLock {
    shared: Arc<Shared>,
    settings: RegistrySettings,
}

streams!(RegistryLock: run(Held) as run_stream, run_try_stream);

impl RegistryLock {
    pub(super) fn new(shared: Arc<Shared>, settings: RegistrySettings) -> Self {
        Self { shared, settings }
    }

    /// Tries once.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`].
    ///
    /// # Cancel safety
    /// As [`Mutex::try_lock`].
    #[doc(alias = "acquireOnce")]
    pub async fn try_lock(&self) -> Result<Attempt<RegistryGuard>, Error> {
        Ok(match self.mutex()?.try_lock().await? {
            Attempt::Granted(guard) => {
                Attempt::Granted(RegistryGuard::new(guard, None, &self.shared))
            }
            Attempt::Busy(busy) => Attempt::Busy(busy),
        })
    }

    /// Waits for as long as a lease is, [`RegistrySettings::expire_after`], and asks each 100 ms.
    ///
    /// # Errors
    /// As [`Mutex::lock`]: `WaitExpired` when somebody else has it for all that time.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    #[doc(alias = "acquire")]
    pub async fn lock(&self) -> Result<RegistryGuard, Error> {
        self.lock_within(self.settings.expire_after).await
    }

    /// The same, for so long.
    ///
    /// # Errors
    /// As [`RegistryLock::lock`].
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    #[doc(alias = "acquire")]
    pub async fn lock_within(&self, wait: Duration) -> Result<RegistryGuard, Error> {
        let (mutex, turn) = self.turn_within(wait).await?;
        let guard = mutex.lock().await?;
        Ok(RegistryGuard::new(guard, turn, &self.shared))
    }

    /// Waits as [`RegistryLock::lock`] does, does the work, and gives the lock back, whatever the work
    /// comes to: see [`Mutex::run`].
    ///
    /// # Errors
    /// As [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    #[doc(alias = "acquireAndExecute")]
    pub async fn run<F, Fut, T>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        self.run_within(self.settings.expire_after, work).await
    }

    /// The same with another wait.
    ///
    /// # Errors
    /// As [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    pub async fn run_within<F, Fut, T>(&self, wait: Duration, work: F) -> Result<T, Error>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        let (mutex, _turn) = self.turn_within(wait).await?;
        mutex.run(work).await
    }

    /// Tries once, and does the work if the lock is free; nothing else.
    ///
    /// # Errors
    /// As [`Mutex::run`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run`].
    #[doc(alias = "acquireOnceAndExecute")]
    pub async fn try_run<F, Fut, T>(&self, work: F) -> Result<Option<T>, Error>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        match self.mutex()?.clone().wait(Wait::Never).run(work).await {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.is_wait_expired() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn mutex(&self) -> Result<&Mutex, Error> {
        self.shared.mutex.as_ref().map_err(|what| wrong(what))
    }

    /// Waits for the turn of this task, and says how to wait for the rest.
    async fn turn_within(
        &self,
        wait: Duration,
    ) -> Result<(Mutex, Option<rt::sync::OwnedMutexGuard<()>>), Error> {
        let mutex = self.mutex()?;
        let clock = mutex.context().clock.clone();
        let end = clock.now().saturating_add(wait);
        let turn = clock.until(end, Arc::clone(&self.shared.turn).lock_owned()).await;
        // Whose turn does not come tries once all the same: that says who has the lock.
        let left = end.saturating_since(clock.now());
        Ok((mutex.clone().wait(Wait::For(left)), turn))
    }
}

impl fmt::Debug for RegistryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.shared.mutex.as_ref().map(|mutex| &mutex.names);
        f.debug_struct("RegistryLock").field("names", &names).finish_non_exhaustive()
    }
}
