//! A client of several independent stores, of which a majority holds each lock (Redlock).

use std::{
    fmt,
    future::{IntoFuture, Ready, ready},
    sync::Arc,
    time::Duration,
};

use fencelock_core::{Drift, Jitter, RetryStrategy};
use fencelock_quorum::{QuorumStore, QuorumStoreBuilder};
use fencelock_store::Store;

use crate::{Client, ClientBuilder, Error, RestartGuard, url::Address};

/// A client of a quorum: of as many independent stores as there are urls, with default settings.
///
/// Each url has its own password and database. Nothing is sent: the first call connects.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect_quorum(["memory:", "memory:", "memory:"]).await?;
/// let guard = locks.mutex("invoice:42").lock().await?;
/// assert!(guard.fencing_token().is_some());
/// assert_eq!(guard.release().await, fencelock::Released::Held);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn connect_quorum(urls: impl IntoIterator<Item = impl AsRef<str>>) -> ConnectQuorum {
    ConnectQuorum { builder: QuorumBuilder::new(urls) }
}

/// A connect on its way; `await` it.
#[derive(Debug)]
#[must_use = "nothing happens until it is awaited"]
pub struct ConnectQuorum {
    builder: QuorumBuilder,
}

impl IntoFuture for ConnectQuorum {
    type Output = Result<Client, Error>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(self.builder.build())
    }
}

impl Client {
    /// Settings for a client of a quorum of stores.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), fencelock::Error> {
    /// use std::time::Duration;
    ///
    /// let locks = fencelock::Client::quorum_builder([
    ///     "redis://:secret@a.example/",
    ///     "redis://:other@b.example/",
    ///     "redis://c.example/1",
    /// ])
    /// .node_timeout(Duration::from_millis(100))
    /// .build()?;
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    pub fn quorum_builder(urls: impl IntoIterator<Item = impl AsRef<str>>) -> QuorumBuilder {
        QuorumBuilder::new(urls)
    }
}

/// Settings of a client of a quorum.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct QuorumBuilder {
    urls: Vec<String>,
    /// What a client of one store has, too.
    each: ClientBuilder,
    quorum: Option<usize>,
    node_timeout: Duration,
    max_ttl: Duration,
    quarantine: Option<Duration>,
    guard: Option<RestartGuard>,
}

impl QuorumBuilder {
    /// The longest ttl of any lock, unless [`max_ttl`](Self::max_ttl) says otherwise: 60 s.
    pub const MAX_TTL: Duration = QuorumStoreBuilder::MAX_TTL;

    fn new(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut each = ClientBuilder::new("");
        each.settings.retry = RetryStrategy::exponential(FIRST_PAUSE, LONGEST_PAUSE);
        each.settings.retry = each.settings.retry.jitter(Jitter::Full);
        Self {
            urls: urls.into_iter().map(|url| url.as_ref().to_owned()).collect(),
            each,
            quorum: None,
            node_timeout: QuorumStoreBuilder::NODE_TIMEOUT,
            max_ttl: Self::MAX_TTL,
            quarantine: None,
            guard: None,
        }
    }

    /// How many stores must hold a lock; a majority of all unless said otherwise, and never fewer.
    pub fn quorum(self, quorum: usize) -> Self {
        Self { quorum: Some(quorum), ..self }
    }

    /// How long one store may take for a request; 250 ms by default. The others decide without it
    /// as soon as they can.
    pub fn node_timeout(self, node_timeout: Duration) -> Self {
        Self { node_timeout, ..self }
    }

    /// The longest ttl; 60 s by default. A store that forgot its leases has to be kept out for as
    /// long.
    pub fn max_ttl(self, max_ttl: Duration) -> Self {
        Self { max_ttl, ..self }
    }

    /// How long a store that was restarted is granted nothing new on, once this client has seen
    /// it; a second more than `max_ttl` by default, or its drift if that is more. Zero, where no
    /// store forgets a lease when it is restarted (on Redis: `appendfsync always`).
    pub fn quarantine(self, quarantine: Duration) -> Self {
        Self { quarantine: Some(quarantine), ..self }
    }

    /// What keeps a Redis server that restarted from voting for what it may have forgotten, also for
    /// clients that did not see the restart: by its uptime and for `max_ttl`, unless said otherwise;
    /// strictly behind sentinels, since a server that they promote is old; nothing where the
    /// quarantine is zero, and in all dialects but the native, which have none.
    pub fn restart_guard(self, guard: RestartGuard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// The password, for each url that has none. It is never shown.
    pub fn password(self, password: impl Into<String>) -> Self {
        Self { each: self.each.password(password), ..self }
    }

    /// As [`ClientBuilder::dialect`], for all of them.
    pub fn dialect(self, dialect: impl Into<String>) -> Self {
        Self { each: self.each.dialect(dialect), ..self }
    }

    /// As [`ClientBuilder::key_prefix`], for all of them.
    pub fn key_prefix(self, prefix: impl Into<String>) -> Self {
        Self { each: self.each.key_prefix(prefix), ..self }
    }

    /// As [`ClientBuilder::drift`].
    pub fn drift(self, drift: Drift) -> Self {
        Self { each: self.each.drift(drift), ..self }
    }

    /// As [`ClientBuilder::request_timeout`]: the limit of a call to the whole quorum.
    pub fn request_timeout(self, request_timeout: Duration) -> Self {
        Self { each: self.each.request_timeout(request_timeout), ..self }
    }

    /// As [`ClientBuilder::retain`].
    pub fn retain(self, retain: Duration) -> Self {
        Self { each: self.each.retain(retain), ..self }
    }

    /// As [`ClientBuilder::label`].
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { each: self.each.label(label), ..self }
    }

    /// What guards the server of a url.
    fn guard_of(&self, url: &str) -> RestartGuard {
        match self.guard() {
            // One that was promoted has been running for long, and may not have every lease.
            RestartGuard::Uptime(span) if self.guard.is_none() && is_sentinel(url) => {
                RestartGuard::Strict(span)
            }
            guard => guard,
        }
    }

    fn guard(&self) -> RestartGuard {
        let usual = match self.quarantine {
            Some(Duration::ZERO) => RestartGuard::Off,
            _ if !self.each.has_marker() => RestartGuard::Off,
            _ => RestartGuard::Uptime(self.max_ttl),
        };
        self.guard.unwrap_or(usual)
    }

    /// Checks everything and makes the client. Nothing is sent.
    ///
    /// # Errors
    /// `Config` for a url or a setting that can't work: no url, the same one twice, a quorum that
    /// is no majority, stores of different kinds.
    pub fn build(self) -> Result<Client, Error> {
        self.each.check()?;
        let mut stores: Vec<Arc<dyn Store>> = Vec::with_capacity(self.urls.len());
        let mut same = true;
        for url in &self.urls {
            let address = Address::parse(url)?;
            same &= address != Address::Memory;
            stores.push(match address {
                Address::Redis(url) => {
                    self.each.clone().restart_guard(self.guard_of(url)).open_node(&address)?
                }
                _ => self.each.open_node(&address)?,
            });
        }
        let mut builder =
            QuorumStore::builder(stores).node_timeout(self.node_timeout).max_ttl(self.max_ttl);
        builder = builder.drift(self.each.settings.drift);
        if let Some(quorum) = self.quorum {
            builder = builder.quorum(quorum);
        }
        if let Some(quarantine) = self.quarantine {
            builder = builder.quarantine(quarantine);
        }
        let store = builder.build().map_err(Error::from_store)?;
        // Two clients of the same servers are one store; two of `memory:` are not.
        let identity = same.then(|| store.to_string());
        Ok(Client::assemble(Arc::new(store), self.each.settings, identity.as_deref()))
    }
}

fn is_sentinel(url: &str) -> bool {
    const SCHEME: &str = "redis+sentinel:";
    url.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// Contenders that split the votes try again after pauses of any length up to this, so that one of
/// them is alone: several round trips in a data centre, and twice as long each time,
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// up to several round trips across an ocean.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

impl fmt::Debug for QuorumBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The urls may contain passwords.
        f.debug_struct("QuorumBuilder")
            .field("urls", &self.urls.len())
            .field("quorum", &self.quorum)
            .field("node_timeout", &self.node_timeout)
            .field("max_ttl", &self.max_ttl)
            .field("guard", &self.guard())
            .field("each", &self.each)
            .finish_non_exhaustive()
    }
}
