//! The store itself: the verbs, each counted in a file of its own.

use std::{fmt, sync::Arc};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, LimitSet,
    ListRequest, Moment, Page, RaiseFenceRequest, Raised, ReleaseRequest, Released, RenewRequest,
    Renewed, RevokeRequest, Revoked, SetLimitRequest, ShortenRequest, Shortened,
};
use fencelock_store::{
    BoxFuture, Capabilities, Clock, Outcome, Reply, Store, StoreError, StoreResult, Subscription,
    WakeupSink,
};

use crate::{
    QuorumStoreBuilder, ballot, ears, exchange, heal, lease, look,
    quorum::Quorum,
    release, renew,
    round::Ignored,
    tally::{answered, failed, no_quorum},
};

/// A store of locks made of several independent ones. Clones are the same store, and are closed
/// together.
///
/// It has no line of its own (each node would have another one). A waiter may leave a place at each
/// node that only says when the lock may be free there: an acquire with `place`, `listener` and
/// `barging` does, and is answered `Queued`. Its token is used up all the same, as that of each
/// ballot that was lost: ask again with a fresh one, and release the old. Without any of the three,
/// and where too few nodes tell anybody anything, it is answered `Busy`, and whoever waits polls.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use fencelock_quorum::QuorumStore;
/// use fencelock_store::{MemoryStore, Store};
///
/// let nodes = (0..3).map(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
/// let store = QuorumStore::builder(nodes).build()?;
/// assert_eq!(store.to_string(), "quorum(3: memory:, memory:, memory:)");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct QuorumStore {
    quorum: Arc<Quorum>,
}

impl QuorumStore {
    /// Settings for a store made of these nodes. None of them may know of the others' locks: two
    /// replicas of one server are one node.
    pub fn builder(nodes: impl IntoIterator<Item = Arc<dyn Store>>) -> QuorumStoreBuilder {
        QuorumStoreBuilder::new(nodes.into_iter().collect())
    }

    pub(crate) fn assemble(quorum: Quorum) -> Self {
        Self { quorum: Arc::new(quorum) }
    }

    /// How many nodes there are, and how many of them must hold a lock.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.quorum.nodes.len(), self.quorum.needed)
    }
}

impl fmt::Display for QuorumStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.quorum, f)
    }
}

/// What a quorum says to any mode but that of a mutex.
///
/// Counting needs one place: that a majority of the nodes has room for another reader or permit
/// says nothing of the same majority, and who holds a share at a minority only keeps others out.
const SHARING: &str = "a quorum keeps locks that exclude everybody else: its nodes can't count \
                       readers, permits or holds together";

impl Store for QuorumStore {
    fn capabilities(&self) -> Capabilities {
        self.quorum.can
    }

    fn clock(&self) -> Clock {
        self.quorum.clock.clone()
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move {
            let quorum = &self.quorum;
            quorum.begin(by)?;
            let late = Arc::new(Ignored);
            let mut round = quorum.ask((), by, late, |store, _, by| store.connect(by));
            let enough = |heard: &[_]| answered(heard) >= quorum.needed;
            round.until(|heard| enough(heard) || failed(heard) > quorum.spare()).await;
            let heard = round.heard();
            if enough(heard) {
                return Ok(Reply::new(()));
            }
            Err(no_quorum(quorum, heard, Outcome::NotDone, |()| "reached"))
        })
    }

    fn acquire<'a>(
        &'a self,
        request: &'a AcquireRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Acquired>> {
        if !request.mode.is_exclusive() {
            return Box::pin(async { Err(StoreError::unsupported(SHARING)) });
        }
        Box::pin(ballot::acquire(&self.quorum, request, by))
    }

    fn renew<'a>(
        &'a self,
        batch: &'a [RenewRequest],
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Vec<Renewed>>> {
        Box::pin(renew::renew(&self.quorum, batch, by))
    }

    fn shorten<'a>(
        &'a self,
        request: &'a ShortenRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Shortened>> {
        Box::pin(lease::shorten(&self.quorum, request, by))
    }

    fn release<'a>(
        &'a self,
        request: &'a ReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Released>> {
        Box::pin(release::release(&self.quorum, request, by))
    }

    fn exchange_token<'a>(
        &'a self,
        request: &'a ExchangeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Exchanged>> {
        Box::pin(exchange::exchange_token(&self.quorum, request, by))
    }

    fn downgrade<'a>(
        &'a self,
        request: &'a DowngradeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Downgraded>> {
        let _ = (request, by);
        Box::pin(async { Err(StoreError::unsupported(SHARING)) })
    }

    fn set_limit<'a>(
        &'a self,
        request: &'a SetLimitRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<LimitSet>> {
        let _ = (request, by);
        Box::pin(async { Err(StoreError::unsupported(SHARING)) })
    }

    fn raise_fence<'a>(
        &'a self,
        request: &'a RaiseFenceRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Raised>> {
        Box::pin(lease::raise_fence(&self.quorum, request, by))
    }

    fn heal<'a>(
        &'a self,
        request: &'a HealRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Healed>> {
        Box::pin(heal::heal(&self.quorum, request, by))
    }

    fn inspect<'a>(
        &'a self,
        request: &'a InspectRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Inspection>> {
        Box::pin(look::inspect(&self.quorum, request, by))
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Page>> {
        Box::pin(look::list(&self.quorum, request, by))
    }

    fn force_release<'a>(
        &'a self,
        request: &'a ForceReleaseRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Forced>> {
        Box::pin(look::force_release(&self.quorum, request, by))
    }

    fn revoke<'a>(
        &'a self,
        request: &'a RevokeRequest,
        by: Moment,
    ) -> BoxFuture<'a, StoreResult<Revoked>> {
        Box::pin(look::revoke(&self.quorum, request, by))
    }

    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        Box::pin(ears::listen(&self.quorum, sink, by))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.quorum.close())
    }
}
