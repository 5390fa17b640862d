//! The client: one store, one keeper, cheap to clone.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use fencelock_core::{InspectRequest, ListRequest, LockName, Moment, Names, Owner, Token};
use fencelock_store::{Capabilities, Clock, Store};

use crate::{
    Barrier, ClientBuilder, Composite, Danger, Election, Error, ErrorKind, Guard, Inspection,
    Latch, Mutex, Part, Reentrant, Renew, Revoked, RwLock, Semaphore, Ticket, TokenLease,
    context::{Context, Settings},
    leave, revoke,
};

/// A store of locks. Clones share its connection and its keeper.
///
/// The first call connects. Dropping the last clone (and the last [`Mutex`] made of it) waits for
/// at most 250 ms until pending releases are sent; [`Client::close`] avoids that. Guards outlive
/// it and stay renewed.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// Lives as long as any client: guards and the keeper hold the context only.
struct Shared {
    context: Arc<Context>,
}

/// The drop of the last client waits for the keeper at most so long.
const DROP_LIMIT: Duration = Duration::from_millis(250);
/// `close` waits for the keeper at most so long.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

impl Client {
    /// Settings for a client of a store.
    pub fn builder(url: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(url.as_ref())
    }

    /// A client of a store of one's own.
    #[must_use]
    pub fn with_store(store: Arc<dyn Store>) -> Self {
        Self::assemble(store, Settings::default(), None)
    }

    pub(crate) fn assemble(
        store: Arc<dyn Store>,
        settings: Settings,
        identity: Option<&str>,
    ) -> Self {
        let context = Arc::new(Context::new(store, settings, identity));
        context.keeper.attach(&context);
        Self { shared: Arc::new(Shared { context }) }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    /// The store as messages call it: without its password.
    #[must_use]
    pub fn store_display(&self) -> String {
        self.context().display.to_string()
    }

    /// What the store can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.context().store.capabilities()
    }

    /// The clock that guards count on.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.context().clock.clone()
    }

    /// Reaches the store now, to be sure.
    ///
    /// # Errors
    /// `Unavailable`, `Denied` and whatever else can go wrong with a first call.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn connect_now(&self) -> Result<(), Error> {
        let context = self.context();
        context.check_open()?;
        let by = context.call_limit(Moment::NEVER);
        let asked = context.ask(context.store.connect(by)).await;
        asked.result.map(|reply| reply.answer).map_err(|error| context.store_error(error))
    }

    /// A lock by name. No I/O; a wrong name is told by the first verb.
    pub fn mutex<N>(&self, name: N) -> Mutex
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        Mutex::new(self.clone(), parse(name).map(Names::one))
    }

    /// Several locks that are taken all or nothing, with one fencing token for all: sorted and
    /// without duplicates, so that callers with the same names in another order do not block each
    /// other.
    pub fn mutexes<I, N>(&self, names: I) -> Mutex
    where
        I: IntoIterator<Item = N>,
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        let names: Result<Vec<LockName>, String> = names.into_iter().map(parse).collect();
        let names = names.and_then(|names| Names::new(names).map_err(|error| error.to_string()));
        Mutex::new(self.clone(), names)
    }

    /// A read-write lock by name. No I/O; a wrong name is told by the first verb.
    pub fn rwlock<N>(&self, name: N) -> RwLock
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        RwLock::new(self.mutex(name))
    }

    /// A semaphore by name, with so many permits. No I/O; a wrong name or limit is told by the first
    /// verb.
    pub fn semaphore<N>(&self, name: N, limit: u32) -> Semaphore
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        Semaphore::new(self.mutex(name), limit)
    }

    /// A mutex that its owner may take again: 1 to 64 bytes that the caller chose. No I/O; a wrong
    /// name or owner is told by the first verb.
    pub fn reentrant<N>(&self, name: N, owner: impl Into<Vec<u8>>) -> Reentrant
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        Reentrant::new(self.mutex(name), Owner::new(owner).map_err(|error| error.to_string()))
    }

    /// A latch by name, which so many steps open. No I/O; a wrong name or count is told by the first
    /// verb.
    pub fn latch<N>(&self, name: N, count: u32) -> Latch
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        Latch::new(self.mutex(name), count)
    }

    /// A barrier by name, for so many parties. No I/O; a wrong name or number is told by its verb.
    pub fn barrier<N>(&self, name: N, parties: u32) -> Barrier
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        Barrier::new(self.mutex(name), parties)
    }

    /// Several locks of different kinds as one, also of other clients. No I/O; what is wrong with a
    /// part is told by the first verb.
    pub fn all_of(&self, parts: impl IntoIterator<Item = Part>) -> Composite {
        Composite::new(parts.into_iter().collect())
    }

    /// An election by name. No I/O; a wrong name is told by the first verb.
    pub fn election<N>(&self, name: N) -> Election
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        Election::new(self.clone(), self.mutex(name))
    }

    /// A lease that was acquired elsewhere and is known by its token.
    #[must_use]
    pub fn lease(&self, names: Names, token: Token) -> TokenLease {
        TokenLease::new(Arc::clone(self.context()), names, token)
    }

    /// Takes over the lease of a ticket: a new grant with a larger fencing token, which nobody
    /// renews. A second adopter gets `Lost`.
    ///
    /// # Errors
    /// `Lost` when the ticket's lease is over or somebody adopted it; otherwise as
    /// [`Mutex::try_lock`].
    ///
    /// # Cancel safety
    /// Dropping the future gives back what may have been adopted.
    pub async fn adopt(&self, ticket: Ticket) -> Result<Guard, Error> {
        leave::adopt(self.context(), &ticket, Renew::Manual).await
    }

    /// As [`Client::adopt`], and the keeper renews it.
    ///
    /// # Errors
    /// As [`Client::adopt`].
    ///
    /// # Cancel safety
    /// As [`Client::adopt`].
    pub async fn adopt_renewing(&self, ticket: Ticket) -> Result<Guard, Error> {
        leave::adopt(self.context(), &ticket, Renew::Auto).await
    }

    /// Looks at one name, at the store.
    ///
    /// # Errors
    /// `Config` for a wrong name, or that the store can't be asked.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn inspect<N>(&self, name: N) -> Result<Inspection, Error>
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        let context = self.context();
        context.check_open()?;
        let name = parse(name).map_err(Error::config)?;
        let names = Names::one(name.clone());
        let named = |error: Error| error.with_names(&names).with_store(&context.display);
        let request = InspectRequest::new(name);
        let by = context.call_limit(Moment::NEVER);
        let asked = context.ask(context.store.inspect(&request, by)).await;
        let reply = asked.result.map_err(|error| named(Error::from_store(error)))?;
        let unknown = || named(Error::new(ErrorKind::Internal, "an answer of an unknown kind"));
        Inspection::of(reply.answer).ok_or_else(unknown)
    }

    /// Asks the holder of one name (or all who hold it together) to give it back, and says who that is. The request stands in the
    /// store's record: the holder is told at once where the store can, and with each renewal
    /// ([`Guard::revoked`]). The lease goes on for as long as its holder wants.
    ///
    /// # Errors
    /// `Unsupported` where the store or dialect can't do this, or something that is not a lock of
    /// this format sits at the key; `Config` for a wrong name; or that the store can't be asked.
    ///
    /// # Cancel safety
    /// A request that was sent may be stored.
    pub async fn revoke<N>(&self, name: N) -> Result<Revoked, Error>
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        revoke::revoke(self.context(), parse(name).map_err(Error::config)?).await
    }

    /// As [`Client::revoke`], and looks for at most `wait` whether the lease is over: given back,
    /// ended, or passed to somebody else. [`Revoked::Requested`] says that it is still held then.
    ///
    /// # Errors
    /// As [`Client::revoke`], and that the store can't be asked at the end of the wait.
    ///
    /// # Cancel safety
    /// As [`Client::revoke`].
    pub async fn revoke_within<N>(&self, name: N, wait: Duration) -> Result<Revoked, Error>
    where
        N: TryInto<LockName>,
        N::Error: fmt::Display,
    {
        let name = parse(name).map_err(Error::config)?;
        revoke::revoke_within(self.context(), name, wait).await
    }

    /// All held locks (and foreign values) whose names begin with a prefix, sorted.
    ///
    /// A lock that is held all the time is in it; one that comes or goes meanwhile may be.
    ///
    /// # Errors
    /// That the store can't be asked, or `Unsupported` when there are more than a million.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn list(
        &self,
        prefix: impl AsRef<[u8]>,
    ) -> Result<Vec<(LockName, Inspection)>, Error> {
        let context = self.context();
        context.check_open()?;
        let mut request = ListRequest::new(prefix.as_ref());
        request.limit = ListRequest::MAX_LIMIT;
        // Pages may overlap: the map is what makes each name appear once.
        let mut locks = BTreeMap::new();
        for _ in 0..MOST_PAGES {
            let by = context.call_limit(Moment::NEVER);
            let asked = context.ask(context.store.list(&request, by)).await;
            let page = asked.result.map_err(|error| context.store_error(error))?.answer;
            let seen = page.locks.into_iter();
            locks.extend(seen.filter_map(|(name, seen)| Some((name, Inspection::of(seen)?))));
            match page.next {
                Some(cursor) if locks.len() <= MOST_LISTED => request.cursor = Some(cursor),
                Some(_) => break,
                None => return Ok(locks.into_iter().collect()),
            }
        }
        let what = format!("there are more than {} locks; list a longer prefix", locks.len());
        Err(Error::new(ErrorKind::Unsupported, what).with_store(&context.display))
    }

    /// What breaks mutual exclusion on purpose.
    pub fn danger(&self) -> Danger<'_> {
        Danger::new(self.context())
    }

    /// Ends the client, for all its clones: guards that are left are lost (`Closed`) and given
    /// back, pending releases are sent for up to two seconds, connections are closed. Later verbs
    /// fail with `Closed`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the client closed and the rest to the keeper.
    pub async fn close(self) {
        let context = self.context();
        if context.is_forked() || !context.close() {
            return;
        }
        context.lines.close();
        context.ears.close();
        context.keeper.close(context);
        context.keeper.drain(CLOSE_LIMIT).await;
        context.store.close().await;
    }
}

/// What bounds a listing: memory of this process, and a store whose cursor never ends.
const MOST_LISTED: usize = 1_000_000;
const MOST_PAGES: usize = 100_000;

fn parse<N>(name: N) -> Result<LockName, String>
where
    N: TryInto<LockName>,
    N::Error: fmt::Display,
{
    name.try_into().map_err(|error| error.to_string())
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.context()).finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a forked process there is no keeper, and its locks may be held for ever.
        if !self.context.is_forked() {
            self.context.keeper.clients_gone(DROP_LIMIT);
        }
    }
}
