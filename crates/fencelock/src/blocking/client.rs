//! The client, for threads.

use std::{fmt, time::Duration};

use fencelock_core::{LockName, Names, Token};
use fencelock_store::{Capabilities, Clock, rt::Driver};

use super::{
    Barrier, Composite, Election, Guard, Latch, Mutex, Reentrant, RwLock, Semaphore, TokenLease,
    in_child::InChild as _, wrap::blocking,
};
use crate::{ClientBuilder, Error, ErrorKind, HolderView, Inspection, Part, Revoked, Ticket};

/// A client for threads of the store at a url, with default settings: see
/// [`fencelock::connect`](crate::connect()). Nothing is sent.
///
/// # Errors
/// `Config` for a url that can't work; `Internal` when the system gives no thread.
///
/// # Examples
/// ```
/// let locks = fencelock::blocking::connect("memory:")?;
/// let doubled = locks.mutex("counter").run(|_held| 21 * 2)?;
/// assert_eq!(doubled, 42);
/// locks.close();
/// # Ok::<(), fencelock::Error>(())
/// ```
pub fn connect(url: impl AsRef<str>) -> Result<Client, Error> {
    ClientBuilder::new(url.as_ref()).build_blocking()
}

/// A client for threads of several independent stores, of which a majority holds each lock: see
/// [`fencelock::connect_quorum`](crate::connect_quorum).
///
/// # Errors
/// As [`connect`].
#[cfg(feature = "quorum")]
pub fn connect_quorum(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Client, Error> {
    Client::new(crate::Client::quorum_builder(urls).build()?)
}

impl ClientBuilder {
    /// Checks everything and makes a [client for threads](crate::blocking). Nothing is sent.
    ///
    /// # Errors
    /// As [`ClientBuilder::build`]; `Internal` when the system gives no thread.
    pub fn build_blocking(self) -> Result<Client, Error> {
        Client::new(self.build()?)
    }
}

blocking! {
    /// A store of locks: [`fencelock::Client`](crate::Client) for threads.
    ///
    /// Clones share its connection, its keeper and the one thread that drives the calls of all. That
    /// thread lives as long as any client, recipe or guard that was made of it.
    #[derive(Clone)]
    pub struct Client of crate::Client;
    gets {
        fn store_display() -> String;
        fn capabilities() -> Capabilities;
        fn clock() -> Clock;
    }
    waits {
        fn connect_now() -> Result<(), Error>;
        fn inspect(name: impl TryInto<LockName, Error: fmt::Display>) -> Result<Inspection, Error>;
        fn revoke(name: impl TryInto<LockName, Error: fmt::Display>) -> Result<Revoked, Error>;
        fn revoke_within(
            name: impl TryInto<LockName, Error: fmt::Display>,
            wait: Duration
        ) -> Result<Revoked, Error>;
        fn list(prefix: impl AsRef<[u8]>) -> Result<Vec<(LockName, Inspection)>, Error>;
    }
    grants {
        fn adopt(ticket: Ticket) -> Guard;
        fn adopt_renewing(ticket: Ticket) -> Guard;
    }
    ends {
        fn close() -> ();
    }
}

impl Client {
    /// The client of async code, for threads too: both share connections' settings, lines and keeper.
    ///
    /// # Errors
    /// `Internal` when the system gives no thread.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        let driver = Driver::start("fencelock-blocking").map_err(|error| {
            let what = format!("the system gives no thread for blocking calls: {error}");
            Error::new(ErrorKind::Internal, what)
        })?;
        Ok(Self { inner: client, driver })
    }

    /// The same client, for async code.
    #[must_use]
    pub fn as_async(&self) -> &crate::Client {
        &self.inner
    }

    /// As [`fencelock::Client::mutex`](crate::Client::mutex).
    pub fn mutex(&self, name: impl TryInto<LockName, Error: fmt::Display>) -> Mutex {
        Mutex::of(self.inner.mutex(name), &self.driver)
    }

    /// As [`fencelock::Client::mutexes`](crate::Client::mutexes).
    pub fn mutexes<N>(&self, names: impl IntoIterator<Item = N>) -> Mutex
    where
        N: TryInto<LockName, Error: fmt::Display>,
    {
        Mutex::of(self.inner.mutexes(names), &self.driver)
    }

    /// As [`fencelock::Client::rwlock`](crate::Client::rwlock).
    pub fn rwlock(&self, name: impl TryInto<LockName, Error: fmt::Display>) -> RwLock {
        RwLock::of(self.inner.rwlock(name), &self.driver)
    }

    /// As [`fencelock::Client::semaphore`](crate::Client::semaphore).
    pub fn semaphore(
        &self,
        name: impl TryInto<LockName, Error: fmt::Display>,
        limit: u32,
    ) -> Semaphore {
        Semaphore::of(self.inner.semaphore(name, limit), &self.driver)
    }

    /// As [`fencelock::Client::reentrant`](crate::Client::reentrant).
    pub fn reentrant(
        &self,
        name: impl TryInto<LockName, Error: fmt::Display>,
        owner: impl Into<Vec<u8>>,
    ) -> Reentrant {
        Reentrant::of(self.inner.reentrant(name, owner), &self.driver)
    }

    /// As [`fencelock::Client::latch`](crate::Client::latch).
    pub fn latch(&self, name: impl TryInto<LockName, Error: fmt::Display>, count: u32) -> Latch {
        Latch::of(self.inner.latch(name, count), &self.driver)
    }

    /// As [`fencelock::Client::barrier`](crate::Client::barrier).
    pub fn barrier(
        &self,
        name: impl TryInto<LockName, Error: fmt::Display>,
        parties: u32,
    ) -> Barrier {
        Barrier::of(self.inner.barrier(name, parties), &self.driver)
    }

    /// As [`fencelock::Client::all_of`](crate::Client::all_of).
    pub fn all_of(&self, parts: impl IntoIterator<Item = Part>) -> Composite {
        Composite::of(self.inner.all_of(parts), &self.driver)
    }

    /// As [`fencelock::Client::election`](crate::Client::election).
    pub fn election(&self, name: impl TryInto<LockName, Error: fmt::Display>) -> Election {
        Election::of(self.inner.election(name), &self.driver)
    }

    /// As [`fencelock::Client::lease`](crate::Client::lease).
    #[must_use]
    pub fn lease(&self, names: Names, token: Token) -> TokenLease {
        TokenLease::of(self.inner.lease(names, token), &self.driver)
    }

    /// As [`fencelock::Client::danger`](crate::Client::danger).
    pub fn danger(&self) -> Danger<'_> {
        Danger { client: self }
    }
}

/// [`fencelock::Danger`](crate::Danger) for threads.
#[derive(Debug)]
pub struct Danger<'a> {
    client: &'a Client,
}

impl Danger<'_> {
    /// Blocks for what [`fencelock::Danger::force_release`](crate::Danger::force_release) does.
    ///
    /// # Errors
    /// As [`fencelock::Danger::force_release`](crate::Danger::force_release).
    pub fn force_release(
        &self,
        name: impl TryInto<LockName, Error: fmt::Display>,
    ) -> Result<Option<HolderView>, Error> {
        let Client { inner, driver } = self.client;
        driver.wait(inner.danger().force_release(name)).unwrap_or_else(Result::in_child)
    }
}
