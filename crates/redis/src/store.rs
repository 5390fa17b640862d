//! The store itself: the verbs, each handed to the dialect.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, Drift, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, LimitSet,
    ListRequest, Moment, Names, Page, RaiseFenceRequest, Raised, ReleaseRequest, Released,
    RenewRequest, Renewed, RevokeRequest, Revoked, SetLimitRequest, ShortenRequest, Shortened, Ttl,
};
use fencelock_store::{
    BoxFuture, Capabilities, Clock, Outcome, Store, StoreError, StoreErrorKind, StoreResult,
    Subscription, WakeupSink,
};

use crate::{
    Dialect,
    acknowledge::{Acknowledge, Acknowledgement, Asking, Confirmed},
    connection::Connections,
    guard::{self, Guard},
    looks::{self, foreign_in},
    native::{self, IfUsed, Initialised},
    servers::Servers,
    tls::{Identity, Tls},
    url::{Password, Place, RedisUrl},
    wire::Wire,
};

/// One Redis (7.0 or newer) or Valkey (8 or newer) server as a store of locks. Clones share its
/// connections and are closed together.
///
/// Nothing is sent before the first call. Each tokio runtime that uses the store gets one
/// connection, which is made again when it breaks.
///
/// # Examples
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fencelock_redis::{Dialect, RedisStore};
///
/// let url = "redis://app@127.0.0.1:6379/0".parse()?;
/// let store = RedisStore::builder(url).password("secret").dialect(Dialect::Plain).build()?;
/// assert_eq!(store.to_string(), "redis://app@127.0.0.1:6379/0 (plain)");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    wire: Arc<Wire>,
    dialect: Dialect,
    /// The prefix that was asked for: with another one these are other locks.
    prefix: Option<Arc<str>>,
    acknowledgement: Option<Arc<Acknowledgement>>,
}

/// The settings of a [`RedisStore`].
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build`"]
pub struct RedisStoreBuilder {
    url: RedisUrl,
    dialect: Dialect,
    prefix: Option<String>,
    /// What is said besides the URL.
    tls: Tls,
    guard: Option<(guard::Form, Ttl)>,
    drift: Drift,
    durable: bool,
}

impl RedisStoreBuilder {
    /// The password, in place of the one in the URL.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.url.password = Some(Password::new(password));
        self
    }

    /// The authorities to trust in place of the system's: a file in PEM form. With a `rediss://` URL
    /// only. It is read again for each connection.
    pub fn certificate_authority(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(file.into());
        self
    }

    /// The certificate that this client shows (with those between it and its authority) and its
    /// private key: files in PEM form. With a `rediss://` URL only.
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        let (certificate, key) = (certificate.into(), key.into());
        self.tls.identity = Some(Identity { certificate, key });
        self
    }

    /// Believes any certificate of anybody, for any host: whoever stands between this client and
    /// the server can read the password, and grant locks. With a `rediss://` URL only.
    pub fn danger_accept_invalid_certificates(mut self) -> Self {
        self.tls.accepts_any = true;
        self
    }

    /// The wire format; native unless said otherwise.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// What has to have a grant before it counts, in place of what the URL says: an acquire that is
    /// not acknowledged in time is given back and fails as `NotAcknowledged`, a renewal leaves the
    /// lease its old end, and who is handed a lease starts only when its own question was
    /// acknowledged. It costs a connection for each runtime, and two round trips and the way to the
    /// replicas for each grant.
    pub fn acknowledge(mut self, level: Acknowledge) -> Self {
        self.url.acknowledge.level = level;
        self
    }

    /// How long an acknowledgement may take, in place of what the URL says; 100 ms by default, and
    /// never more than three quarters of what is left of the call.
    pub fn acknowledge_within(mut self, limit: Duration) -> Self {
        self.url.acknowledge.within = Some(limit);
        self
    }

    /// What the keys begin with: `fencelock:` in the native format unless said otherwise, in the plain
    /// one nothing, or what the other library writes before its names.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// In the [`RedislockFenced`](Dialect::RedislockFenced) dialect, the key of a lock's counter, in place of
    /// what the URL says: `*` stands for the key of the lock. `*:fence` unless said otherwise.
    pub fn fence_key(mut self, pattern: impl Into<String>) -> Self {
        self.url.fence_key = Some(pattern.into());
        self
    }

    /// Guards against a server that forgot leases when it restarted: no new grant is taken from one
    /// that has been running for less than `max_ttl` and a second, unless its marker says that this
    /// life of it counts ([`RedisStore::initialise`], `fencelock init`). It is looked at once on each
    /// connection. Renewals, releases, heals and looks go on; messages are not listened to.
    ///
    /// No ttl may be longer than `max_ttl`: the same for all clients of the server. What is lost
    /// without a restart (`FLUSHALL`, another server at the same address) only the
    /// [strict](Self::strict_restart_guard) form notices. Off unless asked for.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use fencelock_redis::RedisStore;
    ///
    /// let max_ttl = Duration::from_secs(60).try_into()?;
    /// let store = RedisStore::builder("redis://a.example/".parse()?).restart_guard(max_ttl).build()?;
    /// # drop(store);
    /// # Ok(())
    /// # }
    /// ```
    pub fn restart_guard(mut self, max_ttl: Ttl) -> Self {
        self.guard = Some((guard::Form::Uptime, max_ttl));
        self
    }

    /// The same, where the scripts that grant look at the marker themselves, each time. Without the
    /// marker of this life of the server there is no new grant and no hand-over for `max_ttl` and a
    /// second from the first request on, for anybody who uses this form.
    pub fn strict_restart_guard(mut self, max_ttl: Ttl) -> Self {
        self.guard = Some((guard::Form::Scripts, max_ttl));
        self
    }

    /// The allowance between the clocks of this machine and of holders, for a restart guard by
    /// uptime; 1 % unless said otherwise. Not less than the largest of any client of the server.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// Says that the server forgets nothing that it answered, at no restart (`appendfsync always`,
    /// on a disk that keeps what it was given): a restart guard then only limits the ttl.
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Builds the store. Nothing is sent.
    ///
    /// # Errors
    /// `Config` for a prefix or a fence key that can't be one; for a restart guard in a dialect that has no marker (all but the native), and for
    /// one by uptime behind sentinels, which would not see a fail-over; for certificates without TLS, and files of them that can't be used.
    pub fn build(mut self) -> Result<RedisStore, StoreError> {
        let config =
            |message: String| StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message);
        let plug = self.dialect.plug();
        let keys = plug.keys(self.prefix.as_deref()).map_err(config)?;
        let fence_key = plug.fence_key(self.url.fence_key.as_deref()).map_err(config)?;
        if self.tls != Tls::default() {
            let Some(tls) = &mut self.url.tls else {
                let what = "certificates are for rediss:// urls: this one has no TLS";
                return Err(config(what.into()));
            };
            tls.add(self.tls);
        }
        if self.guard.is_some() && !plug.has_marker() {
            let what =
                format!("the {} dialect has no restart guard: it has no marker", self.dialect);
            return Err(config(what));
        }
        let by_uptime = matches!(self.guard, Some((guard::Form::Uptime, _))) && !self.durable;
        if by_uptime && matches!(self.url.place, Place::Sentinels(_)) {
            let what = "a restart guard by uptime does not see a fail-over: the server that is \
                        promoted has been running for long, and may not have every lease; behind \
                        sentinels use the strict form";
            return Err(config(what.into()));
        }
        let guard = self.guard.map(|(form, max_ttl)| Guard {
            form: if self.durable { guard::Form::Durable } else { form },
            max_ttl,
            drift: self.drift,
            marker: keys.own(guard::MARKER),
        });
        let connections = Servers::new(&self.url, guard)?;
        let acknowledgement = acknowledgement(&self.url)?.map(Arc::new);
        let aside = Some(self.url);
        let wire = Arc::new(Wire { fence_key, aside, ..Wire::new(connections, keys) });
        let prefix = self.prefix.map(Arc::from);
        Ok(RedisStore { wire, dialect: self.dialect, prefix, acknowledgement })
    }
}

fn acknowledgement(url: &RedisUrl) -> Result<Option<Acknowledgement>, StoreError> {
    let wanted = url.acknowledge;
    let within = wanted.within.unwrap_or(Acknowledgement::WITHIN);
    if within < Acknowledgement::WITHIN_MIN {
        let message = "nothing is acknowledged within less than a millisecond";
        return Err(StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message));
    }
    if matches!(wanted.level, Acknowledge::None | Acknowledge::Replicas(0)) {
        return Ok(None);
    }
    let connections = Connections::new(url, None)?;
    Ok(Some(Acknowledgement::new(wanted.level, within, connections)))
}

impl RedisStore {
    /// Begins the settings of a store.
    pub fn builder(url: RedisUrl) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url,
            dialect: Dialect::default(),
            prefix: None,
            tls: Tls::default(),
            guard: None,
            drift: Drift::DEFAULT,
            durable: false,
        }
    }

    /// Writes the marker of the restart guard, so that this life of the server counts at once, for
    /// leases of at most `max_ttl`. A server that was in use before it restarted may have forgotten
    /// leases that still run: `if_used` says what is done then.
    ///
    /// # Errors
    /// Those of every call; `Unsupported` on a cluster and in all dialects but the native, which have
    /// no marker.
    ///
    /// # Cancel safety
    /// A dropped call may have written the marker.
    pub async fn initialise(
        &self,
        max_ttl: Ttl,
        if_used: IfUsed,
        by: Moment,
    ) -> StoreResult<Initialised> {
        if self.wire.connections.is_cluster() {
            return Err(StoreError::unsupported(
                "a redis cluster has no restart guard, so there is nothing to initialise",
            ));
        }
        if !self.dialect.plug().has_marker() {
            return Err(StoreError::unsupported(format!(
                "the {} dialect has no restart guard, so there is nothing to initialise",
                self.dialect
            )));
        }
        native::seed(&self.wire, max_ttl, if_used, by).await
    }

    /// The same store without acknowledgements, and how they are got; nothing where there are none.
    fn acknowledged(&self) -> Option<(Self, Arc<Acknowledgement>)> {
        let by = self.acknowledgement.clone()?;
        Some((Self { acknowledgement: None, ..self.clone() }, by))
    }

    /// The wire format.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }
}

impl fmt::Display for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.wire.connections.at(), self.dialect)?;
        if let Some(prefix) = &self.prefix {
            write!(f, ", {prefix:?}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({self})")
    }
}

/// Hands a verb to the dialect.
macro_rules! spoken {
    ($self:ident, $verb:ident($request:expr, $by:expr)) => {
        $self.dialect.plug().$verb(&$self.wire, $request, $by)
    };
}

/// The same for a verb whose answer may have to be acknowledged.
macro_rules! granted {
    ($self:ident, $verb:ident($request:expr, $by:expr)) => {
        match $self.acknowledged() {
            None => spoken!($self, $verb($request, $by)),
            Some((store, by)) => Box::pin(async move {
                let confirmed = Confirmed { store: &store, wire: &store.wire, by: &by };
                confirmed.$verb($request, $by).await
            }),
        }
    };
}

impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        let mut can = self.dialect.plug().capabilities();
        can.one_clock = !self.wire.connections.is_cluster();
        can
    }

    fn parts(&self, names: &Names) -> Vec<Names> {
        let all = names.as_slice();
        let part =
            |group: Vec<usize>| Names::new(group.into_iter().map(|index| all[index].clone())).ok();
        let parts: Option<Vec<Names>> =
            self.wire.by_slot(all.iter()).and_then(|groups| groups.into_iter().map(part).collect());
        parts.unwrap_or_else(|| vec![names.clone()])
    }

    fn clock(&self) -> Clock {
        self.wire.clock.clone()
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        // Looking at no name at all also proves that scripts may be run.
        self.dialect.plug().reach(&self.wire, by)
    }

    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>> {
        granted!(self, acquire(request, by))
    }

    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>> {
        granted!(self, renew(batch, by))
    }

    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>> {
        spoken!(self, shorten(request, by))
    }

    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>> {
        self.wire.hearing.forget(&request.token);
        spoken!(self, release(request, by))
    }

    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>> {
        granted!(self, exchange_token(request, by))
    }

    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>> {
        granted!(self, downgrade(request, by))
    }

    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>> {
        Box::pin(async move {
            let seen = spoken!(self, set_limit(request, by)).await?;
            looks::of(&self.wire, &request.name, seen, foreign_in!(LimitSet), by).await
        })
    }

    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>> {
        granted!(self, raise_fence(request, by))
    }

    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>> {
        granted!(self, heal(request, by))
    }

    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>> {
        Box::pin(async move {
            let seen = spoken!(self, inspect(request, by)).await?;
            looks::of(&self.wire, &request.name, seen, foreign_in!(Inspection), by).await
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Page>> {
        spoken!(self, list(request, by))
    }

    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>> {
        Box::pin(async move {
            let seen = spoken!(self, force_release(request, by)).await?;
            looks::of(&self.wire, &request.name, seen, foreign_in!(Forced), by).await
        })
    }

    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>> {
        Box::pin(async move {
            let seen = spoken!(self, revoke(request, by)).await?;
            looks::of(&self.wire, &request.name, seen, foreign_in!(Revoked), by).await
        })
    }

    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        let sink = match self.acknowledgement {
            Some(_) => Arc::new(Asking(sink)),
            None => sink,
        };
        spoken!(self, listen(sink, by))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.wire.hearing.close();
        self.wire.connections.close();
        if let Some(acknowledgement) = &self.acknowledgement {
            acknowledgement.close();
        }
        Box::pin(async {})
    }
}
