//! From a url to a client. Parses and checks; nothing is sent.

use std::{
    fmt,
    future::{IntoFuture, Ready, ready},
    sync::Arc,
    time::Duration,
};

use fencelock_core::{Drift, Retain, Ttl};
#[cfg(any(feature = "redis", feature = "sqlite"))]
use fencelock_store::StoreError;
use fencelock_store::{MemoryStore, Store};

use crate::{Client, Error, context::Settings, url::Address};

/// A client of the store at a url, with default settings.
///
/// `redis://host:port/db`, `rediss://host:port/db`, `redis+unix:///path/to/socket`, `sqlite:path`, `memory:`. Nothing is
/// sent: the first call connects, or [`Client::connect_now`].
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
    pub(crate) settings: Settings,
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), password: None, dialect: None, settings: Settings::default() }
    }

    /// The password, for a url that has none. It is never shown.
    pub fn password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// The wire format on Redis: `native` (the default), or `plain`, which shares locks with other
    /// libraries that use `SET NX PX`, and has no fencing tokens.
    pub fn dialect(self, dialect: impl Into<String>) -> Self {
        Self { dialect: Some(dialect.into()), ..self }
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
        use fencelock_redis::{Dialect, RedisStore};

        let dialect = match self.dialect.as_deref() {
            None | Some("native") => Dialect::Native,
            Some("plain") => Dialect::Plain,
            Some(other) => {
                let other = crate::display_safe(other);
                let what = format!("a redis store has no dialect {other:?}, only native and plain");
                return Err(Error::config(what));
            }
        };
        let url: fencelock_redis::RedisUrl = url.parse().map_err(Error::from_store)?;
        let kept = own != Password::OfBuilder && url.has_password();
        let mut builder = RedisStore::builder(url);
        if let Some(password) = self.password.as_ref().filter(|_| !kept) {
            builder = builder.password(password);
        }
        opened(builder.dialect(dialect).build())
    }
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
    opened(fencelock_sqlite::SqliteStore::open(path))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &str) -> Result<Arc<dyn Store>, Error> {
    Err(Error::config("this build has no sqlite stores: its feature `sqlite` is off"))
}

#[cfg(any(feature = "redis", feature = "sqlite"))]
fn opened<S: Store>(store: Result<S, StoreError>) -> Result<Arc<dyn Store>, Error> {
    store.map(|store| Arc::new(store) as Arc<dyn Store>).map_err(Error::from_store)
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The url may contain a password, too.
        f.debug_struct("ClientBuilder")
            .field("dialect", &self.dialect)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
