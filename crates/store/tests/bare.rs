//! The suite and the differential test on a store that can do next to nothing: what the cases ask
//! where a capability is missing is asked here, before any real dialect is.

use std::{fmt, sync::Arc, time::Duration};

use fencelock_store::{
    BoxFuture, Capabilities, Clock, ManualClock, MemoryStore, Reply, Store, StoreError,
    StoreResult, Subscription, WakeupSink,
    conformance::{Harness, Timing, differential},
    conformance_suite,
    core::{
        AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged, Fence,
        ForceReleaseRequest, Forced, ForeignKind, HealRequest, Healed, Holder, InspectRequest,
        Inspection, LimitSet, ListRequest, LockName, Metadata, Moment, Names, Page,
        RaiseFenceRequest, Raised, ReleaseRequest, Released, RenewRequest, Renewed, RevokeRequest,
        Revoked, SetLimitRequest, ShortenRequest, Shortened, StoreNow,
    },
    rt,
};

/// The in-memory store without memory of what is over, fencing tokens, metadata and time.
#[derive(Clone, Debug)]
struct Bare(MemoryStore);

impl Bare {
    /// Refuses what it has no capability for, and forgets what is over.
    fn prepare(&self, names: &Names, number: bool, instant: bool) -> Result<(), StoreError> {
        if number || instant || names.len() > self.capabilities().max_names {
            return Err(StoreError::unsupported("a bare store can't do this"));
        }
        let now = self.0.store_now();
        self.0.with_table(|table| {
            for name in names {
                if table.record(name).is_some_and(|record| !record.is_live(now)) {
                    table.delete(name);
                }
            }
        });
        Ok(())
    }
}

fn bare<A>(reply: Reply<A>, strip: impl FnOnce(&mut A)) -> Reply<A> {
    let mut bare = Reply::new(reply.answer).of(reply.incarnation);
    strip(&mut bare.answer);
    bare
}

fn strip_holder(holder: &mut Holder) {
    (holder.fencing_token, holder.last_fence) = (None, None);
    holder.metadata = Metadata::default();
}

fn strip_inspection(seen: &mut Inspection) {
    match seen {
        Inspection::Held(holder) => strip_holder(holder),
        Inspection::Free { fencing_token } => *fencing_token = None,
        _ => {}
    }
}

impl fmt::Display for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bare({})", self.0)
    }
}

impl Store for Bare {
    fn capabilities(&self) -> Capabilities {
        let mut bare = Capabilities::bare("bare");
        bare.max_names = 3;
        bare
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move { Ok(bare(self.0.connect(by).await?, |()| {})) })
    }

    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>> {
        Box::pin(async move {
            let number =
                request.floor.or(request.proposed).is_some() || !request.mode.is_exclusive();
            self.prepare(&request.names, number, request.deadline.is_some())?;
            // What is for people and for comfort has no effect.
            let mut request = request.clone();
            (request.place, request.listener, request.reserve) = (None, None, 0);
            (request.barging, request.unattended) = (false, false);
            let reply = self.0.acquire(&request, by).await?;
            Ok(bare(reply, |answer| match answer {
                Acquired::Granted(grant) => grant.fence = Fence::None,
                Acquired::Busy(busy) => strip_holder(&mut busy.holder),
                _ => {}
            }))
        })
    }

    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>> {
        Box::pin(async move {
            let mut batch = batch.to_vec();
            for request in &mut batch {
                self.prepare(&request.names, false, false)?;
                (request.listener, request.reserve, request.unattended) = (None, 0, false);
            }
            Ok(bare(self.0.renew(&batch, by).await?, |answers| {
                for answer in answers {
                    if let Renewed::Extended { last_fence, .. } = answer {
                        *last_fence = None;
                    }
                }
            }))
        })
    }

    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>> {
        Box::pin(async move {
            self.prepare(&request.names, false, false)?;
            Ok(bare(self.0.shorten(request, by).await?, |_| {}))
        })
    }

    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>> {
        Box::pin(async move {
            self.prepare(&request.names, false, false)?;
            Ok(bare(self.0.release(request, by).await?, |_| {}))
        })
    }

    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>> {
        Box::pin(async move {
            let (number, instant) = (request.floor.is_some(), request.deadline.is_some());
            self.prepare(&request.names, number, instant)?;
            let reply = self.0.exchange_token(request, by).await?;
            Ok(bare(reply, |answer| {
                if let Exchanged::Granted(grant) = answer {
                    grant.fence = Fence::None;
                }
            }))
        })
    }

    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>> {
        let _ = (request, by);
        Box::pin(async { Err(StoreError::unsupported("a bare store")) })
    }

    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>> {
        let _ = (request, by);
        Box::pin(async { Err(StoreError::unsupported("a bare store")) })
    }

    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>> {
        Box::pin(async move {
            self.prepare(&request.names, true, false)?;
            self.0.raise_fence(request, by).await
        })
    }

    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>> {
        Box::pin(async move {
            let (number, instant) = (request.fencing_token.is_some(), request.deadline.is_some());
            self.prepare(&request.names, number, instant)?;
            let reply = self.0.heal(request, by).await?;
            Ok(bare(reply, |answer| {
                if let Healed::Busy(busy) = answer {
                    strip_holder(&mut busy.holder);
                }
            }))
        })
    }

    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>> {
        Box::pin(async move { Ok(bare(self.0.inspect(request, by).await?, strip_inspection)) })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Page>> {
        Box::pin(async move {
            let reply = self.0.list(request, by).await?;
            Ok(bare(reply, |page| {
                page.locks.iter_mut().for_each(|(_, seen)| strip_inspection(seen));
            }))
        })
    }

    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>> {
        Box::pin(async move {
            self.prepare(&Names::one(request.name.clone()), false, false)?;
            let reply = self.0.force_release(request, by).await?;
            Ok(bare(reply, |answer| {
                if let Forced::Removed(holder) = answer {
                    strip_holder(holder);
                }
            }))
        })
    }

    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>> {
        let _ = (request, by);
        Box::pin(async { Err(StoreError::unsupported("a bare store can't revoke")) })
    }

    fn listen(
        &self,
        _: Arc<dyn WakeupSink>,
        _: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        Box::pin(async { Err(StoreError::unsupported("a bare store has no wakeups")) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

struct OnBare;

impl Harness for OnBare {
    type Store = Bare;

    fn timing(&self) -> Timing {
        Timing::MANUAL
    }

    async fn fresh(&self) -> Bare {
        Bare(MemoryStore::manual(ManualClock::new()))
    }

    async fn another(&self, store: &Bare) -> Bare {
        Bare(store.0.another_client())
    }

    async fn advance(&self, store: &Bare, by: Duration) {
        let Clock::Manual(clock) = store.clock() else { panic!("it is on a manual clock") };
        clock.advance(by);
    }

    async fn time(&self, store: &Bare) -> StoreNow {
        store.0.store_now()
    }

    // Nothing but tokens can be here, so the suite also sees a store without foreign values.
    async fn plant_foreign(&self, _: &Bare, _: &LockName) -> bool {
        false
    }

    async fn read_foreign(&self, _: &Bare, _: &LockName) -> Option<Vec<u8>> {
        None
    }
}

conformance_suite!(OnBare);

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn the_bare_store_answers_as_a_table_without_memory(
        operations in proptest::prop_oneof![
            differential::operations(), differential::operations_together()
        ]
    ) {
        let result = rt::block_on(async {
            let store = OnBare.fresh().await;
            differential::run(&OnBare, &store, &operations).await
        });
        proptest::prop_assert_eq!(result, Ok(operations.len()));
    }
}

/// A harness under which the store breaks rules.
struct Careless;

impl Harness for Careless {
    type Store = Bare;

    fn timing(&self) -> Timing {
        Timing::MANUAL
    }

    async fn fresh(&self) -> Bare {
        OnBare.fresh().await
    }

    async fn another(&self, store: &Bare) -> Bare {
        OnBare.another(store).await
    }

    // Time that only half passes is a store whose leases last too long.
    async fn advance(&self, store: &Bare, by: Duration) {
        OnBare.advance(store, by / 2).await;
    }

    async fn time(&self, store: &Bare) -> StoreNow {
        OnBare.time(store).await
    }

    async fn plant_foreign(&self, store: &Bare, name: &LockName) -> bool {
        store.0.with_table(|table| table.plant_foreign(name.clone(), ForeignKind::String));
        true
    }

    async fn read_foreign(&self, _: &Bare, _: &LockName) -> Option<Vec<u8>> {
        Some(rt::fresh_token().reveal().into_bytes())
    }
}

#[test]
#[should_panic(expected = "is not free")]
fn a_store_whose_leases_last_too_long_is_found_out() {
    use fencelock_store::conformance::acquire as cases;
    rt::block_on(cases::a_lease_runs_until_the_instant_before_its_end_and_not_at_it(&Careless));
}

#[test]
#[should_panic(expected = "a foreign value was changed")]
fn a_store_that_changes_foreign_values_is_found_out() {
    rt::block_on(fencelock_store::conformance::foreign::a_release_says_taken(&Careless));
}
