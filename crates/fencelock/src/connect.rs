//! From a url to a client. Parses and checks; nothing is sent.

use std::{
    fmt,
    future::{IntoFuture, Ready, ready},
    sync::Arc,
    time::Duration,
};

use fencelock_core::{Drift, Retain, Ttl};
#[cfg(feature = "redis")]
use fencelock_redis::RedisStore;
use fencelock_store::{MemoryStore, Store};

use crate::{Client, Error, context::Settings, url::Address};

/// A client of the store at a url, with default settings.
///
/// `redis://host:port/db`, `rediss://host:port/db`, `redis+cluster://host1,host2/`,
/// `redis+unix:///path/to/socket`, `sqlite:path`, `memory:`. Nothing is sent: the first call
/// connects, or [`Client::connect_now`].
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let doubled = locks.mutex("counter").run(|_held| async { 21 * 2 }).await?;
/// assert_eq!(doubled, 42);
/// locks.close().await;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn connect(url: impl AsRef<str>) -> Connect {
    Connect { builder: ClientBuilder::new(url.as_ref()) }
}

/// A connect on its way; `await` it.
#[derive(Debug)]
#[must_use = "nothing happens until it is awaited"]
pub struct Connect {
    builder: ClientBuilder,
}

impl IntoFuture for Connect {
    type Output = Result<Client, Error>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(self.builder.build())
    }
}

/// Settings of a client.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    url: String,
    password: Option<String>,
    dialect: Option<String>,
    key_prefix: Option<String>,
    guard: RestartGuard,
    pub(crate) settings: Settings,
}

/// What keeps a Redis server that restarted from granting again what it may have forgotten.
///
/// No ttl may be longer than the span that is given: the same for all clients of the server. A
/// server that is really new is told so by `fencelock init` or [`ClientBuilder::initialise`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// Nothing.
    #[default]
    Off,
    /// No new grant is taken from a server that has been running for less than this and a second.
    Uptime(Duration),
    /// The server itself refuses for as long, from the first request on that finds it without the
    /// marker of its present life: also after `FLUSHALL`, with an old snapshot, or where another
    /// server answers at the address.
    Strict(Duration),
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            password: None,
            dialect: None,
            key_prefix: None,
            guard: RestartGuard::Off,
            settings: Settings::default(),
        }
    }

    /// The password, for a url that has none. It is never shown.
    pub fn password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// The wire format on Redis, one of [`dialects`]: `native` (the default), or one that other
    /// libraries write, to share locks with them. What a format can't express is `Unsupported`: most
    /// have no fencing tokens.
    pub fn dialect(self, dialect: impl Into<String>) -> Self {
        Self { dialect: Some(dialect.into()), ..self }
    }

    /// What the keys on Redis begin with, before the names: `fencelock:` in the native dialect unless
    /// said otherwise, and nothing in the plain one, where it is what the other library writes before
    /// its names (`mutex:` for redis-semaphore, the registry key and a colon for Spring). All clients
    /// of a lock have to say the same.
    pub fn key_prefix(self, prefix: impl Into<String>) -> Self {
        Self { key_prefix: Some(prefix.into()), ..self }
    }

    /// What keeps a Redis server that restarted from granting again what it may have forgotten;
    /// nothing, unless asked for. Only the native dialect has one.
    pub fn restart_guard(self, guard: RestartGuard) -> Self {
        Self { guard, ..self }
    }

    /// The allowance between the clocks of this machine and the store.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.settings.drift = drift;
        self
    }

    /// How long one call to the store may take; a second by default.
    pub fn request_timeout(mut self, request_timeout: Duration) -> Self {
        self.settings.request_timeout = request_timeout;
        self
    }

    /// How long the store remembers a name after its last use; ten minutes by default.
    pub fn retain(mut self, retain: Duration) -> Self {
        self.settings.retain = Retain::new(retain);
        self
    }

    /// What this process calls itself, for people.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// Checks everything and makes the client. Nothing is sent.
    ///
    /// # Errors
    /// `Config` for a url or a setting that can't work.
    pub fn build(self) -> Result<Client, Error> {
        self.check()?;
        let address = Address::parse(&self.url)?;
        let store = self.open(&address)?;
        // Two clients of one server are one store; two of `memory:` are not.
        let identity = match &address {
            Address::Memory => None,
            _ => Some(store.to_string()),
        };
        Ok(Client::assemble(store, self.settings, identity.as_deref()))
    }

    /// Checks what does not depend on the store.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let limit = self.settings.request_timeout;
        if limit < Duration::from_millis(1) || limit > Ttl::MAX.as_duration() {
            let what = format!("a request timeout is between 1ms and 24h, not {limit:?}");
            return Err(Error::config(what));
        }
        Ok(())
    }

    /// Whether a Redis server keeps the marker of a restart guard: not in the formats of other
    /// libraries.
    #[cfg(feature = "quorum")]
    pub(crate) fn has_marker(&self) -> bool {
        self.dialect.as_deref().is_none_or(|dialect| dialect == "native")
    }

    /// One of several stores: a password in its url is its own.
    #[cfg(feature = "quorum")]
    pub(crate) fn open_node(&self, address: &Address<'_>) -> Result<Arc<dyn Store>, Error> {
        match address {
            Address::Redis(url) => self.redis(url, Password::OfUrl),
            _ => self.open(address),
        }
    }

    fn open(&self, address: &Address<'_>) -> Result<Arc<dyn Store>, Error> {
        match address {
            Address::Redis(url) => self.redis(url, Password::OfBuilder),
            Address::Sqlite(path) => {
                self.refuse_redis_settings("sqlite")?;
                sqlite(path)
            }
            Address::Memory => {
                self.refuse_redis_settings("memory")?;
                Ok(Arc::new(MemoryStore::new()))
            }
        }
    }

    fn refuse_redis_settings(&self, scheme: &str) -> Result<(), Error> {
        if self.password.is_some() {
            return Err(Error::config(format!("a {scheme}: store has no password")));
        }
        if self.guard != RestartGuard::Off {
            return Err(Error::config(format!("a {scheme}: store has no restart guard")));
        }
        if self.key_prefix.is_some() {
            return Err(Error::config(format!("a {scheme}: store has no key prefix")));
        }
        match self.dialect.as_deref() {
            None | Some("native") => Ok(()),
            Some(other) => Err(Error::config(format!(
                "a {scheme}: store has no dialect {other:?}, only native"
            ))),
        }
    }

    #[cfg(not(feature = "redis"))]
    fn redis(&self, _: &str, _: Password) -> Result<Arc<dyn Store>, Error> {
        Err(Error::config("this build has no redis stores: its feature `redis` is off"))
    }

    #[cfg(feature = "redis")]
    fn redis(&self, url: &str, own: Password) -> Result<Arc<dyn Store>, Error> {
        self.redis_store(url, own).map(|store| Arc::new(store) as Arc<dyn Store>)
    }

    /// The only store, which must be a Redis server.
    #[cfg(feature = "redis")]
    pub(crate) fn only_redis(&self) -> Result<RedisStore, Error> {
        self.check()?;
        match Address::parse(&self.url)? {
            Address::Redis(url) => self.redis_store(url, Password::OfBuilder),
            _ => {
                let what = "only redis servers have a restart guard";
                Err(Error::new(crate::ErrorKind::Unsupported, what))
            }
        }
    }

    #[cfg(feature = "redis")]
    fn redis_store(&self, url: &str, own: Password) -> Result<RedisStore, Error> {
        use fencelock_redis::Dialect;

        let dialect = match self.dialect.as_deref() {
            None => Dialect::Native,
            Some(name) => name.parse().map_err(|unknown| {
                let name = crate::display_safe(name);
                Error::config(format!("a redis store has no dialect {name:?}; {unknown}"))
            })?,
        };
        let url: fencelock_redis::RedisUrl = url.parse().map_err(Error::from_store)?;
        let kept = own != Password::OfBuilder && url.has_password();
        let mut builder = RedisStore::builder(url);
        if let Some(password) = self.password.as_ref().filter(|_| !kept) {
            builder = builder.password(password);
        }
        let max_ttl = |span: Duration| {
            let what =
                |error| Error::config(format!("a restart guard can't have {span:?}: {error}"));
            Ttl::new(span).map_err(what)
        };
        builder = match self.guard {
            RestartGuard::Off => builder,
            RestartGuard::Uptime(span) => builder.restart_guard(max_ttl(span)?),
            RestartGuard::Strict(span) => builder.strict_restart_guard(max_ttl(span)?),
        };
        if let Some(prefix) = &self.key_prefix {
            builder = builder.prefix(prefix);
        }
        builder.drift(self.settings.drift).dialect(dialect).build().map_err(Error::from_store)
    }
}

/// The names of the dialects that a Redis store can be opened in
/// ([`ClientBuilder::dialect`]), the native one first; none where the feature `redis` is off.
#[must_use]
pub fn dialects() -> Vec<&'static str> {
    #[cfg(feature = "redis")]
    let names = fencelock_redis::Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
    #[cfg(not(feature = "redis"))]
    let names = Vec::new();
    names
}

/// Which password counts where there are two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Password {
    OfBuilder,
    #[cfg(feature = "quorum")]
    OfUrl,
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &str) -> Result<Arc<dyn Store>, Error> {
    let store = fencelock_sqlite::SqliteStore::open(path).map_err(Error::from_store)?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &str) -> Result<Arc<dyn Store>, Error> {
    Err(Error::config("this build has no sqlite stores: its feature `sqlite` is off"))
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The url may contain a password, too.
        f.debug_struct("ClientBuilder")
            .field("dialect", &self.dialect)
            .field("key_prefix", &self.key_prefix)
            .field("guard", &self.guard)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
