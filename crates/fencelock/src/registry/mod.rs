//! Locks by name with the same settings, as the lock registries of Spring and of reactive applications
//! have them.
//!
//! ```text
//!   Registry --obtain(name)--> RegistryLock --turn of this registry--> the store, each 100 ms
//!      |  one object for each name, for as long as it is used
//!      `-- a task that owns nothing of it: drops objects that were idle for long, and ends with it
//! ```
//! A [`RegistryLock`] does no more than a [`Mutex`](crate::Mutex) could: the registry gives it its prefix,
//! its lease and its wait, and lets the tasks that want one name ask one after the other.

mod guard;
mod idle;
mod lock;
mod settings;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fencelock_core::{LockName, Moment};
use fencelock_store::rt;

pub use self::{guard::RegistryGuard, lock::RegistryLock, settings::RegistrySettings};
use self::{idle::Idle, lock::Shared};
use crate::{Client, Error};

/// Locks by name with the same settings. Clones are the same registry.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let orders = locks.registry("orders");
/// let lock = orders.obtain("42");
/// assert_eq!(lock.run(|_held| async { "done" }).await?, "done");
/// let guard = lock.lock_within(Duration::from_secs(1)).await?;
/// assert!(orders.obtain("42").try_lock().await?.granted().is_none());
/// assert_eq!(guard.release().await, fencelock::Released::Held);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    prefix: String,
    settings: RegistrySettings,
    locks: Mutex<Idle<Shared>>,
    /// Its drop ends the task that looks for idle locks.
    alive: rt::sync::watch::Sender<()>,
}

impl Client {
    /// A registry of locks whose names begin with `prefix` and a colon, or with nothing where that is
    /// empty. No I/O.
    ///
    /// In the dialect `spring` the registry key is the key prefix of the client, so the prefix here is
    /// empty; in the dialect `plain` with the prefix `REDIS_REACTIVE_LOCK` these are the locks of the
    /// library reactive-lock.
    #[must_use]
    pub fn registry(&self, prefix: impl Into<String>) -> Registry {
        Registry::new(self.clone(), prefix, RegistrySettings::default())
    }
}

impl Registry {
    /// A registry with settings of its own: see [`Client::registry`]. No I/O.
    #[must_use]
    pub fn new(client: Client, prefix: impl Into<String>, settings: RegistrySettings) -> Self {
        let settings = settings.expire_evict_idle(settings.expire_evict_idle);
        let (alive, _) = rt::sync::watch::channel(());
        let locks = Mutex::default();
        let prefix = prefix.into();
        Self { inner: Arc::new(Inner { client, prefix, settings, locks, alive }) }
    }

    /// The lock of a name: the same object for everybody, while it is used. No I/O; a wrong name is
    /// told by its first verb.
    #[doc(alias = "getLock")]
    pub fn obtain(&self, name: impl AsRef<[u8]>) -> RegistryLock {
        let inner = &self.inner;
        let key = name.as_ref();
        let name = inner.name(key);
        let now = inner.client.clock().now();
        let fresh = || Shared::new(&inner.client, name, &inner.settings);
        let (shared, looker) = {
            let mut locks = inner.locks();
            let shared = locks.entry(key, now, fresh);
            (shared, locks.begin_to_look(now, inner.settings.expire_evict_idle))
        };
        if let Some(looker) = looker {
            inner.evict(now);
            self.look_for_idle(looker);
        }
        RegistryLock::new(shared, inner.settings)
    }

    /// Drops the objects of all locks that nobody has and that were not used for
    /// [`RegistrySettings::expire_evict_idle`], and says how many these were. It happens by itself, in
    /// the background or with the next [`Registry::obtain`].
    #[doc(alias = "expireUnusedOlderThan")]
    #[allow(clippy::must_use_candidate)] // The number is for whoever wants it.
    pub fn evict_idle(&self) -> usize {
        self.inner.evict(self.inner.client.clock().now())
    }

    /// How many locks have an object.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.locks().len()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> RegistrySettings {
        self.inner.settings
    }

    /// Has a task of this runtime drop idle objects. It owns nothing of the registry, and ends with it.
    fn look_for_idle(&self, looker: u64) {
        let inner = Arc::downgrade(&self.inner);
        let mut alive = self.inner.alive.subscribe();
        let (clock, every) = (self.inner.client.clock(), self.inner.settings.expire_evict_idle);
        let mut next = clock.now().saturating_add(every);
        // Outside of a runtime `obtain` does it.
        rt::try_spawn(async move {
            loop {
                // The end of the registry is an error here, and nothing is ever sent.
                let ended = async { drop(alive.changed().await) };
                if rt::first(clock.sleep_until(next), ended).await.is_none() {
                    return;
                }
                let Some(inner) = inner.upgrade() else { return };
                if inner.locks().is_relieved(looker) {
                    return;
                }
                inner.evict(clock.now());
                next = clock.now().saturating_add(every);
            }
        });
    }
}

impl Inner {
    fn locks(&self) -> MutexGuard<'_, Idle<Shared>> {
        // Nothing under this lock can panic half way.
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, name: &[u8]) -> Result<LockName, String> {
        if self.prefix.is_empty() {
            return LockName::new(name).map_err(|error| error.to_string());
        }
        if self.client.capabilities().dialect == "spring" {
            let what = "in the dialect spring the registry key is the client's key prefix: leave the \
                        prefix of the registry empty";
            return Err(what.to_owned());
        }
        let name = [self.prefix.as_bytes(), b":", name].concat();
        LockName::new(name).map_err(|error| error.to_string())
    }

    fn evict(&self, now: Moment) -> usize {
        let gone = self.locks().evict(now, self.settings.expire_evict_idle);
        // Dropped outside of the lock.
        gone.len()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("prefix", &self.inner.prefix)
            .field("settings", &self.inner.settings)
            .field("locks", &self.len())
            .finish_non_exhaustive()
    }
}

/// A name that is none.
fn wrong(what: &str) -> Error {
    Error::config(what.to_owned())
}
