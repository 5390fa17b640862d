//! A store whose clock can be stepped, and on whose way requests can be late: they arrive after
//! the caller has given up.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fencelock::{
    Capabilities, Clock, MemoryStore, Moment, Store,
    store::{
        BoxFuture, StoreError, StoreResult, Subscription, WakeupSink,
        core::{
            AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
            ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, LimitSet,
            ListRequest, Names, Page, RaiseFenceRequest, Raised, ReleaseRequest, Released,
            RenewRequest, Renewed, RevokeRequest, Revoked, SetLimitRequest, ShortenRequest,
            Shortened,
        },
    },
};

#[derive(Clone, Debug)]
pub(crate) struct Warped {
    memory: MemoryStore,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    ahead_micros: AtomicU64,
    late: Mutex<Option<Vec<AcquireRequest>>>,
    binding: AtomicBool,
    renewals: Mutex<Vec<Batch>>,
    /// How many leases of the next batch get an answer.
    answers: Mutex<Option<usize>>,
}

/// A batch of renewals, as it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) at: Moment,
    pub(crate) names: Vec<Names>,
}

impl Warped {
    pub(crate) fn new(memory: MemoryStore) -> Self {
        Self { memory, state: Arc::default() }
    }

    /// It says that leases end with their process, so that leaving one exchanges its token.
    pub(crate) fn with_binding(self) -> Self {
        self.state.binding.store(true, Ordering::SeqCst);
        self
    }

    /// From now on the store says that it is later than it was.
    pub(crate) fn step_forward(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).expect("a short step");
        self.state.ahead_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// From now on acquires stay on the way, and their callers hear nothing.
    pub(crate) fn delay_acquires(&self) {
        *self.state.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// Those that were on the way, in order; later ones are not delayed.
    pub(crate) fn arriving(&self) -> Vec<AcquireRequest> {
        self.state.late.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// The batches of renewals since this was last asked.
    pub(crate) fn renewals(&self) -> Vec<Batch> {
        std::mem::take(&mut self.state.renewals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next batch is carried out, and so many of its leases get an answer.
    pub(crate) fn answer_only(&self, leases: usize) {
        *self.state.answers.lock().unwrap_or_else(PoisonError::into_inner) = Some(leases);
    }

    fn warp<'a, A: Send + 'a>(
        &'a self,
        call: BoxFuture<'a, StoreResult<A>>,
    ) -> BoxFuture<'a, StoreResult<A>> {
        Box::pin(async move {
            let reply = call.await?;
            let ahead = Duration::from_micros(self.state.ahead_micros.load(Ordering::SeqCst));
            match reply.at {
                Some(at) => Ok(reply.at(at.saturating_add(ahead))),
                None => Ok(reply),
            }
        })
    }
}

impl fmt::Display for Warped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warped({})", self.memory)
    }
}

impl Store for Warped {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.memory.capabilities();
        capabilities.binding |= self.state.binding.load(Ordering::SeqCst);
        capabilities
    }

    fn clock(&self) -> Clock {
        self.memory.clock()
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        self.warp(self.memory.connect(by))
    }

    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>> {
        let mut late = self.state.late.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(late) = late.as_mut() {
            late.push(request.clone());
            return Box::pin(async move {
                self.memory.clock().sleep_until(by).await;
                Err(StoreError::unknown("it is on the way"))
            });
        }
        drop(late);
        self.warp(self.memory.acquire(request, by))
    }

    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>> {
        let names = batch.iter().map(|request| request.names.clone()).collect();
        let batch_seen = Batch { at: self.memory.clock().now(), names };
        self.state.renewals.lock().unwrap_or_else(PoisonError::into_inner).push(batch_seen);
        let answers = self.state.answers.lock().unwrap_or_else(PoisonError::into_inner).take();
        let call = self.warp(self.memory.renew(batch, by));
        Box::pin(async move {
            let reply = call.await?;
            Ok(reply.map(|all| match answers {
                Some(count) => all.into_iter().take(count).collect(),
                None => all,
            }))
        })
    }

    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>> {
        self.warp(self.memory.shorten(request, by))
    }

    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>> {
        self.warp(self.memory.release(request, by))
    }

    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>> {
        self.warp(self.memory.exchange_token(request, by))
    }

    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>> {
        self.warp(self.memory.downgrade(request, by))
    }

    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>> {
        self.warp(self.memory.set_limit(request, by))
    }

    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>> {
        self.warp(self.memory.raise_fence(request, by))
    }

    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>> {
        self.warp(self.memory.heal(request, by))
    }

    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>> {
        self.warp(self.memory.inspect(request, by))
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Page>> {
        self.warp(self.memory.list(request, by))
    }

    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>> {
        self.warp(self.memory.force_release(request, by))
    }

    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>> {
        self.memory.revoke(request, by)
    }

    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        self.memory.listen(sink, by)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.memory.close()
    }
}
