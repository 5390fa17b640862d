//! The trait.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, LimitSet,
    ListRequest, Moment, Names, Page, RaiseFenceRequest, Raised, ReleaseRequest, Released,
    RenewRequest, Renewed, RevokeRequest, Revoked, SetLimitRequest, ShortenRequest, Shortened,
};

use crate::{Capabilities, Clock, Reply, StoreError, Subscription, WakeupSink};

/// A future on the heap, so that the trait is object safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What each verb comes to: an answer, or that there is none.
pub type StoreResult<A> = Result<Reply<A>, StoreError>;

/// A place where locks are kept: a Redis server, a file, a table in memory, several of these.
///
/// # Contract
///
/// The conformance suite tests all of this; where the two differ, the suite counts.
///
/// 1. **The rules are [`LockTable`](fencelock_core::LockTable)'s.** Each verb is one atomic step of
///    the store with the effect and the answer that the table has at the store's time.
/// 2. **All or nothing.** A verb on several names changes all of them or none (a release frees
///    those that are still ours).
/// 3. **A re-sent request is harmless.** The same acquire again answers `Granted` with the same
///    fencing token, the true remaining time and [`Novelty::Repeated`](fencelock_core::Novelty),
///    and prolongs nothing. A late copy of an acquire whose lease was released is refused.
/// 4. **An answer is what the store saw.** If the store can't be asked, the result is an error whose
///    [`outcome`](StoreError::outcome) is `NotDone` only when the request certainly was not and
///    will not be carried out.
/// 5. **`by` bounds the call**: connecting, queueing, sending and waiting end at that moment of
///    [`clock`](Store::clock), with an error. A call is not repeated inside a store after it may
///    have been carried out, except where rule 3 makes the copy harmless.
/// 6. **Order.** Requests whose futures were first polled one after the other in the same runtime
///    reach the store in that order, unless the connection broke in between. A dropped future
///    takes nothing back: its request may be carried out.
/// 7. **Nothing is held.** Waiting uses no connection to a server of its own, no thread, no
///    transaction. A place in a line is kept by asking again within its `live` time, and given up
///    by a release of its token.
/// 8. **Foreign values are never changed**, by no verb.
/// 9. **It outlives runtimes.** A store may be used from several runtimes at the same time; the end
///    of one of them does not harm the others.
/// 10. **What a store can't do, it says.** Without the capability for it, `raise_fence`, a `floor`,
///     a `proposed` or healed fencing token, a `deadline`, more than `max_names` names, a `mode` that
///     is not exclusive, `downgrade`, `set_limit`, `revoke` and `listen` are errors of the kind `Unsupported`, and nothing happens. Metadata, `retain`,
///     `binding`, `place`, `listener` and `reserve` are for people and for comfort: without the
///     capability they have no effect. With `wakeups` and without `queue` a `place` has the effect
///     that its listener is told, if it does not insist (`barging`): the answer is `Queued`, and the
///     next question has a fresh token, or with [`hints`](Capabilities::hints) the same. Grants then
///     have [`Fence::None`](fencelock_core::Fence), replies no time; a store that does not remember
///     tokens answers `Absent` for released and ended leases, `Expired` to a re-sent release, and
///     carries a late copy of an acquire out.
/// 11. **Messages are hints.** What is true stands in the store: a process that hears nothing is
///     served all the same, as often as it asks. A hand-over is part of the step that ends the
///     lease before it (or of the next at that name, when it ended by itself); nobody hears of it
///     before that step is done, and that it holds the lease only the waiter hears. A place whose
///     listener is certainly gone is passed over, in the same step where the store can see it.
/// 12. **Closed is final.** After `close` each verb is an error of the kind `Closed`, `NotDone`.
///
/// There are no convenience defaults: each store answers for each verb.
pub trait Store: Send + Sync + fmt::Debug + fmt::Display + 'static {
    /// What this store can do.
    fn capabilities(&self) -> Capabilities;

    /// A set of names as parts that can each be taken in one step, in an order that is the same for
    /// every client. Nothing is asked. One part where all names are in one place, which is nearly
    /// every store, hence the only default here; no name is in two parts.
    fn parts(&self, names: &Names) -> Vec<Names> {
        vec![names.clone()]
    }

    /// The clock that guards of leases in this store count on.
    fn clock(&self) -> Clock;

    /// Reaches the store, if it was not reached yet, and changes nothing.
    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>>;

    /// Takes one or several names, all or nothing.
    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>>;

    /// Prolongs leases: one answer for each, in the order of the batch. A batch longer than
    /// [`RenewRequest::MAX_BATCH`] is `Unsupported`.
    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>>;

    /// Brings the end of a lease nearer.
    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>>;

    /// Gives a lease back.
    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>>;

    /// Exchanges the token of a lease for a fresh one.
    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>>;

    /// Makes a lease that is held alone a shared one.
    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>>;

    /// Changes the limit of a semaphore.
    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>>;

    /// Writes a larger fencing token to a lease that we hold.
    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>>;

    /// Takes a lease that is provably ours elsewhere, where nobody holds it here.
    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>>;

    /// Looks at one name.
    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>>;

    /// Lists held names, a page at a time.
    fn list<'a>(&'a self, request: &'a ListRequest, by: Moment)
    -> BoxFuture<'a, StoreResult<Page>>;

    /// Frees a name whoever holds it: breaks mutual exclusion on purpose.
    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>>;

    /// Asks the holder of a name to give it back. The lease goes on; its holder is told, and hears
    /// it again with each renewal.
    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>>;

    /// Begins to listen, in this runtime. The subscription is confirmed when this returns: what is
    /// told to its listener after that is not missed unless the subscription breaks.
    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>>;

    /// Gives up connections, files and whatever else is held. Later calls are `Closed`.
    fn close(&self) -> BoxFuture<'_, ()>;
}
