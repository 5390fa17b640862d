//! A quorum of nodes in memory on a clock that the test moves; each can be made to fail, and to
//! forget.

use std::{
    fmt,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use fencelock_quorum::{QuorumStore, QuorumStoreBuilder};
use fencelock_store::{
    BoxFuture, Capabilities, Clock, Fault, FaultyStore, ManualClock, MemoryStore, Store,
    StoreError, StoreErrorKind, StoreResult, Subscription, WakeupSink,
    core::{
        AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged, Fence,
        FencingToken, ForceReleaseRequest, Forced, Grant, HealRequest, Healed, InspectRequest,
        Inspection, LimitSet, ListRequest, LockName, Moment, Page, RaiseFenceRequest, Raised,
        ReleaseRequest, Released, RenewRequest, Renewed, RevokeRequest, Revoked, SetLimitRequest,
        ShortenRequest, Shortened, Token, Ttl,
    },
    rt,
};

pub(crate) const TTL: Duration = Duration::from_secs(30);

pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) fn name() -> LockName {
    LockName::new("job").expect("a name")
}

pub(crate) fn request(token: Token) -> AcquireRequest {
    AcquireRequest::new(name(), token, Ttl::new(TTL).expect("a ttl"))
}

pub(crate) type Node = FaultyStore<Forgetful>;

/// Nodes, and one client of them.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) nodes: Vec<Node>,
    pub(crate) store: QuorumStore,
}

impl World {
    pub(crate) fn new(count: usize) -> Self {
        let clock = ManualClock::new();
        let node = |_| FaultyStore::new(Forgetful::new(&clock));
        let nodes: Vec<_> = (0..count).map(node).collect();
        let store = builder(&nodes).build().expect("the settings can work");
        Self { clock, nodes, store }
    }

    pub(crate) fn by(&self) -> Moment {
        self.clock.now().saturating_add(Duration::from_secs(1))
    }

    /// Another client of the same nodes.
    pub(crate) fn another(&self) -> QuorumStore {
        builder(&self.nodes).build().expect("the settings can work")
    }

    /// Every call to these nodes fails so, until it is undone.
    pub(crate) fn break_nodes(&self, nodes: impl IntoIterator<Item = usize>, fault: &Fault) {
        for node in nodes {
            self.nodes[node].plan_for_all(Some(fault.clone()));
        }
    }

    pub(crate) fn mend(&self) {
        for node in &self.nodes {
            node.plan_for_all(None);
        }
    }

    pub(crate) async fn acquire(&self, token: Token) -> Result<Acquired, StoreError> {
        let request = request(token);
        self.store.acquire(&request, self.by()).await.map(|reply| reply.answer)
    }

    pub(crate) async fn take(&self, token: Token) -> Grant {
        granted(self.acquire(token).await.expect("a majority answers"))
    }

    /// The same, where the grant says nothing more.
    pub(crate) async fn hold(&self, token: Token) {
        let _ = self.take(token).await;
    }

    pub(crate) async fn renew(&self, token: Token) -> Result<Renewed, StoreError> {
        let batch = [RenewRequest::new(name(), token, Ttl::new(TTL).expect("a ttl"))];
        let reply = self.store.renew(&batch, self.by()).await?;
        Ok(reply.answer.into_iter().next().expect("one answer"))
    }

    pub(crate) async fn release(&self, token: Token) -> Result<Released, StoreError> {
        let request = ReleaseRequest::new(name(), token);
        self.store.release(&request, self.by()).await.map(|reply| reply.answer)
    }

    /// Gives the name on one node to somebody, whatever the others think.
    pub(crate) async fn occupy(&self, node: usize, token: Token) {
        let inner = self.nodes[node].inner();
        let reply = inner.acquire(&request(token), self.by()).await.expect("it answers");
        let _ = granted(reply.answer);
    }

    /// Who holds the name on one node.
    pub(crate) fn holder(&self, node: usize) -> Option<Token> {
        let store = self.nodes[node].inner().current();
        let now = store.store_now();
        let look = InspectRequest::new(name());
        match store.with_table(|table| table.inspect(&look, now)) {
            Inspection::Held(holder) => {
                let proof = holder.proof.expect("an inspection shows it");
                Token::from_hex(proof.reveal()).ok()
            }
            _ => None,
        }
    }

    /// On which nodes a token holds the name.
    pub(crate) fn held_on(&self, token: Token) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.holder(*node) == Some(token)).collect()
    }

    /// Waits until something is so that other threads and tasks bring about; a test that waits in
    /// vain fails. Time stands still, but for the pauses of who tries again.
    pub(crate) async fn until(&self, what: &str, so: impl Fn() -> bool) {
        for _ in 0..MOST_LOOKS {
            if so() {
                return;
            }
            // The sweeper sleeps on the same clock: far less than any lease in all.
            self.clock.advance(Duration::from_micros(50));
            rt::yield_now().await;
            std::thread::yield_now();
        }
        panic!("it never came about that {what}");
    }
}

/// At 50 us each, less than half of a lease.
const MOST_LOOKS: u32 = 200_000;

pub(crate) fn builder(nodes: &[Node]) -> QuorumStoreBuilder {
    QuorumStore::builder(nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Store>))
}

#[track_caller]
pub(crate) fn granted(answer: Acquired) -> Grant {
    match answer {
        Acquired::Granted(grant) => grant,
        other => panic!("it was not granted: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn fenced(grant: &Grant) -> FencingToken {
    match grant.fence {
        Fence::Token(token) => token,
        other => panic!("there is no fencing token: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_no_quorum<A: fmt::Debug>(result: Result<A, StoreError>) -> StoreError {
    let error = result.expect_err("too few answer");
    assert_eq!(error.kind(), StoreErrorKind::NoQuorum, "{error}");
    error
}

/// Polls a future so many times, unless it ends before.
pub(crate) async fn poll_times<F: Future + Unpin>(future: &mut F, times: u32) -> Option<F::Output> {
    for _ in 0..times {
        let once =
            std::future::poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending => Poll::Ready(None),
            });
        if let Some(output) = once.await {
            return Some(output);
        }
        rt::yield_now().await;
    }
    None
}

/// A store in memory that can be restarted, and then has forgotten everything.
#[derive(Clone, Debug)]
pub(crate) struct Forgetful {
    clock: ManualClock,
    now: Arc<Mutex<MemoryStore>>,
}

impl Forgetful {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        let store = MemoryStore::manual(clock.clone());
        Self { clock: clock.clone(), now: Arc::new(Mutex::new(store)) }
    }

    pub(crate) fn current(&self) -> MemoryStore {
        self.now.lock().expect("nothing panics").clone()
    }

    /// A new life, without a record of the old one.
    pub(crate) fn restart(&self) {
        *self.now.lock().expect("nothing panics") = MemoryStore::manual(self.clock.clone());
    }

    /// The same life, without its records: as after `FLUSHALL`.
    pub(crate) fn forget(&self) {
        self.current().with_table(|table| *table = fencelock_store::core::LockTable::default());
    }
}

impl fmt::Display for Forgetful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node-{:x}", Arc::as_ptr(&self.now).addr() >> 4)
    }
}

macro_rules! forward {
    ($($verb:ident($request:ty) -> $answer:ty;)*) => {
        $(
            fn $verb<'a>(
                &'a self,
                request: &'a $request,
                by: Moment,
            ) -> BoxFuture<'a, StoreResult<$answer>> {
                let store = self.current();
                Box::pin(async move { store.$verb(request, by).await })
            }
        )*
    };
}

impl Store for Forgetful {
    fn capabilities(&self) -> Capabilities {
        self.current().capabilities()
    }

    fn clock(&self) -> Clock {
        Clock::Manual(self.clock.clone())
    }

    fn connect(&self, by: Moment) -> BoxFuture<'_, StoreResult<()>> {
        let store = self.current();
        Box::pin(async move { store.connect(by).await })
    }

    forward! {
        acquire(AcquireRequest) -> Acquired;
        renew([RenewRequest]) -> Vec<Renewed>;
        shorten(ShortenRequest) -> Shortened;
        release(ReleaseRequest) -> Released;
        exchange_token(ExchangeRequest) -> Exchanged;
        downgrade(DowngradeRequest) -> Downgraded;
        set_limit(SetLimitRequest) -> LimitSet;
        raise_fence(RaiseFenceRequest) -> Raised;
        heal(HealRequest) -> Healed;
        inspect(InspectRequest) -> Inspection;
        list(ListRequest) -> Page;
        force_release(ForceReleaseRequest) -> Forced;
        revoke(RevokeRequest) -> Revoked;
    }

    fn listen(
        &self,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'_, Result<Subscription, StoreError>> {
        let store = self.current();
        Box::pin(async move { store.listen(sink, by).await })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let store = self.current();
        Box::pin(async move { store.close().await })
    }
}
