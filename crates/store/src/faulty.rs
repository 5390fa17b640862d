//! A store that fails when told to: for tests of whatever must survive such failures.
//!
//! Wraps any store. Faults are queued for each verb and used up one by one; without one, calls go
//! through. This is a tool for tests, ours and the users': it says what a network can do.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, LimitSet,
    ListRequest, Moment, Names, Page, RaiseFenceRequest, Raised, ReleaseRequest, Released,
    RenewRequest, Renewed, RevokeRequest, Revoked, SetLimitRequest, ShortenRequest, Shortened,
};

use crate::{
    BoxFuture, Capabilities, Clock, Outcome, Store, StoreError, StoreErrorKind, StoreResult,
    Subscription, WakeupSink, rt,
};

/// What a call can be made to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The request never reaches the store, and the caller knows.
    Fail(StoreErrorKind),
    /// The request never reaches the store, and the caller does not know.
    LostRequest,
    /// The request is carried out, and its answer is lost.
    LostReply,
    /// The call hangs, before it reaches the store, until [`FaultyStore::let_go`].
    HoldRequest,
    /// The request is carried out, and its answer is held until [`FaultyStore::let_go`].
    HoldReply,
    /// No fault: lets this one call through.
    Pass,
}

/// The verbs of a store, as places for faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They are the methods of `Store`.
#[non_exhaustive]
pub enum Verb {
    Connect,
    Acquire,
    Renew,
    Shorten,
    Release,
    ExchangeToken,
    Downgrade,
    SetLimit,
    RaiseFence,
    Heal,
    Inspect,
    List,
    ForceRelease,
    Revoke,
    Listen,
}

/// A store with faults. Clones share them.
#[derive(Clone, Debug)]
pub struct FaultyStore<S> {
    store: S,
    plan: Arc<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    faults: Mutex<HashMap<Verb, VecDeque<Fault>>>,
    calls: Mutex<HashMap<Verb, u64>>,
    for_all: Mutex<Option<Fault>>,
    gate: rt::sync::Notify,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps a store; nothing fails yet.
    pub fn new(store: S) -> Self {
        Self { store, plan: Arc::default() }
    }

    /// The next call of a verb (after those already planned) has this fault.
    pub fn plan(&self, verb: Verb, fault: Fault) {
        self.plan.faults().entry(verb).or_default().push_back(fault);
    }

    /// Every call of every verb that has nothing planned has this fault; `None` ends it.
    pub fn plan_for_all(&self, fault: Option<Fault>) {
        *self.plan.for_all.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Lets every held call go on.
    pub fn let_go(&self) {
        self.plan.gate.notify_waiters();
    }

    /// How often a verb was called.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> u64 {
        let calls = self.plan.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(&verb).copied().unwrap_or(0)
    }

    /// The store inside.
    pub const fn inner(&self) -> &S {
        &self.store
    }

    async fn call<A>(
        &self,
        verb: Verb,
        by: Moment,
        call: impl Future<Output = Result<A, StoreError>> + Send,
    ) -> Result<A, StoreError> {
        let clock = self.store.clock();
        // Made before the call is counted: whoever has seen the count can let the call go.
        let gate = self.plan.gate.notified();
        match self.plan.next(verb) {
            Fault::Pass => call.await,
            Fault::Fail(kind) => Err(StoreError::new(kind, Outcome::NotDone, "a planned failure")),
            Fault::LostRequest => {
                clock.sleep_until(by).await;
                Err(StoreError::unknown("the request was lost, as planned"))
            }
            Fault::LostReply => {
                let _answer = call.await?;
                clock.sleep_until(by).await;
                Err(StoreError::unknown("the reply was lost, as planned"))
            }
            Fault::HoldRequest => match clock.until(by, gate).await {
                Some(()) => call.await,
                None => Err(StoreError::unknown("the request was held for too long, as planned")),
            },
            Fault::HoldReply => {
                let answer = call.await?;
                match clock.until(by, gate).await {
                    Some(()) => Ok(answer),
                    None => Err(StoreError::unknown("the reply was held for too long, as planned")),
                }
            }
        }
    }
}

impl Plan {
    fn faults(&self) -> std::sync::MutexGuard<'_, HashMap<Verb, VecDeque<Fault>>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, verb: Verb) -> Fault {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry(verb).or_default() += 1;
        drop(calls);
        let planned = self.faults().get_mut(&verb).and_then(VecDeque::pop_front);
        let for_all = self.for_all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        planned.or(for_all).unwrap_or(Fault::Pass)
    }
}

impl<S: fmt::Display> fmt::Display for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty({})", self.store)
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn parts(&self, names: &Names) -> Vec<Names> {
        self.store.parts(names)
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(self.call(Verb::Connect, by, self.store.connect(by)))
    }

    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>> {
        Box::pin(self.call(Verb::Acquire, by, self.store.acquire(request, by)))
    }

    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>> {
        Box::pin(self.call(Verb::Renew, by, self.store.renew(batch, by)))
    }

    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>> {
        Box::pin(self.call(Verb::Shorten, by, self.store.shorten(request, by)))
    }

    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>> {
        Box::pin(self.call(Verb::Release, by, self.store.release(request, by)))
    }

    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>> {
        Box::pin(self.call(Verb::ExchangeToken, by, self.store.exchange_token(request, by)))
    }

    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>> {
        Box::pin(self.call(Verb::Downgrade, by, self.store.downgrade(request, by)))
    }

    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>> {
        Box::pin(self.call(Verb::SetLimit, by, self.store.set_limit(request, by)))
    }

    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>> {
        Box::pin(self.call(Verb::RaiseFence, by, self.store.raise_fence(request, by)))
    }

    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>> {
        Box::pin(self.call(Verb::Heal, by, self.store.heal(request, by)))
    }

    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>> {
        Box::pin(self.call(Verb::Inspect, by, self.store.inspect(request, by)))
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Page>> {
        Box::pin(self.call(Verb::List, by, self.store.list(request, by)))
    }

    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>> {
        Box::pin(self.call(Verb::ForceRelease, by, self.store.force_release(request, by)))
    }

    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>> {
        Box::pin(self.call(Verb::Revoke, by, self.store.revoke(request, by)))
    }

    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        Box::pin(self.call(Verb::Listen, by, self.store.listen(sink, by)))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}
