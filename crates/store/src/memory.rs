//! The specification itself as a store: [`LockTable`] behind a mutex and a clock.
//!
//! For tests, of this project and of its users. Nothing survives the process, and nobody outside
//! it can see the locks.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, Incarnation, InspectRequest, Inspection,
    LimitSet, ListRequest, ListenerId, LockTable, Moment, Page, RaiseFenceRequest, Raised,
    ReleaseRequest, Released, RenewRequest, Renewed, RevokeRequest, Revoked, SetLimitRequest,
    ShortenRequest, Shortened, StoreNow, StoreTime, Wakeup,
};

use crate::{
    BoxFuture, Capabilities, Clock, ManualClock, Modes, Outcome, Reply, Store, StoreError,
    StoreErrorKind, StoreResult, Subscription, WakeupSink, rt,
};

/// All locks of one process, in memory. Clones share them, and are closed together.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    inner: Arc<Inner>,
    closed: Arc<AtomicBool>,
}

struct Inner {
    table: Mutex<LockTable>,
    clock: Clock,
    incarnation: Incarnation,
    ears: Mutex<HashMap<ListenerId, Arc<dyn WakeupSink>>>,
}

impl MemoryStore {
    /// An empty store on the clock of the system.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Clock::Monotonic)
    }

    /// An empty store whose time stands still until the clock is moved.
    #[must_use]
    pub fn manual(clock: ManualClock) -> Self {
        Self::on(Clock::Manual(clock))
    }

    fn on(clock: Clock) -> Self {
        Self {
            inner: Arc::new(Inner {
                table: Mutex::new(LockTable::default()),
                clock,
                incarnation: Incarnation::new(&rt::fresh_token().reveal()),
                ears: Mutex::default(),
            }),
            closed: Arc::default(),
        }
    }

    /// Another client of the same locks: closing one of the two does not close the other.
    #[must_use]
    pub fn another_client(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), closed: Arc::default() }
    }

    /// Works on the table directly: plant a foreign value, delete a record, look at one.
    pub fn with_table<T>(&self, work: impl FnOnce(&mut LockTable) -> T) -> T {
        work(&mut self.inner.table())
    }

    /// What the clocks of the store show. On a manual clock both are that clock's moment.
    #[must_use]
    pub fn store_now(&self) -> StoreNow {
        self.inner.now()
    }

    fn check_asked(&self, by: Moment) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            let message = "the memory store was closed";
            return Err(StoreError::new(StoreErrorKind::Closed, Outcome::NotDone, message));
        }
        if self.inner.clock.now() >= by {
            return Err(StoreError::unavailable("no time was left to ask the memory store"));
        }
        Ok(())
    }

    fn step<'a, A: Send + 'a>(
        &'a self,
        by: Moment,
        step: impl FnOnce(&mut LockTable, StoreNow) -> A + Send + 'a,
    ) -> BoxFuture<'a, StoreResult<A>> {
        Box::pin(async move {
            self.check_asked(by)?;
            let inner = &self.inner;
            let mut table = inner.table();
            let now = inner.now();
            let answer = step(&mut table, now);
            let mail = table.take_mail();
            drop(table);
            inner.deliver(mail);
            Ok(Reply::new(answer).at(now.lease).of(Some(inner.incarnation.clone())))
        })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, LockTable> {
        // A panic in a test's own work on the table must not hide behind a second one.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> StoreNow {
        let lease = StoreTime::from_micros(self.clock.now().as_nanos() / 1_000);
        match self.clock {
            Clock::Manual(_) => StoreNow::same(lease),
            Clock::Boottime | Clock::Monotonic => StoreNow { lease, wall: rt::wall_now() },
        }
    }

    fn ears(&self) -> MutexGuard<'_, HashMap<ListenerId, Arc<dyn WakeupSink>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After the step, and without a lock: a sink may ask the store at once.
    fn deliver(&self, mail: Vec<(ListenerId, Wakeup)>) {
        for (listener, wakeup) in mail {
            let sink = self.ears().get(&listener).map(Arc::clone);
            if let Some(sink) = sink {
                sink.wake(wakeup);
            }
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("table", &self.table())
            .field("clock", &self.clock)
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory:")
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queue: true,
            modes: Modes::ALL,
            revoke: true,
            wakeups: true,
            ..Capabilities::full("native")
        }
    }

    fn clock(&self) -> Clock {
        self.inner.clock.clone()
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        self.step(by, |_, _| ())
    }

    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>> {
        self.step(by, |table, now| table.acquire(request, now))
    }

    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>> {
        if batch.len() > RenewRequest::MAX_BATCH {
            return Box::pin(async { Err(StoreError::unsupported("a batch of too many leases")) });
        }
        self.step(by, |table, now| table.renew(batch, now))
    }

    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>> {
        self.step(by, |table, now| table.shorten(request, now))
    }

    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>> {
        self.step(by, |table, now| table.release(request, now))
    }

    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>> {
        self.step(by, |table, now| table.exchange_token(request, now))
    }

    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>> {
        self.step(by, |table, now| table.downgrade(request, now))
    }

    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>> {
        self.step(by, |table, now| table.set_limit(request, now))
    }

    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>> {
        self.step(by, |table, now| table.raise_fence(request, now))
    }

    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>> {
        self.step(by, |table, now| table.heal(request, now))
    }

    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>> {
        self.step(by, |table, now| table.inspect(request, now))
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Page>> {
        self.step(by, |table, now| table.list(request, now))
    }

    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>> {
        self.step(by, |table, now| table.force_release(request, now))
    }

    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>> {
        self.step(by, |table, now| table.revoke(request, now))
    }

    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        Box::pin(async move {
            self.check_asked(by)?;
            let listener = rt::fresh_listener();
            let ear = Ear { inner: Arc::clone(&self.inner), listener };
            self.inner.ears().insert(listener, sink);
            Ok(Subscription::new(listener, ear))
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.closed.store(true, Ordering::Release);
        Box::pin(async {})
    }
}

/// Ends a subscription on drop.
struct Ear {
    inner: Arc<Inner>,
    listener: ListenerId,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.inner.ears().remove(&self.listener);
        self.inner.table().set_gone(self.listener);
    }
}
