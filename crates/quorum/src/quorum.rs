//! What all verbs of the store share: the nodes, how many of them are needed, and the limits.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock_core::{Moment, Ttl};
use fencelock_store::{
    BoxFuture, Capabilities, Clock, Hints, Outcome, Store, StoreError, StoreErrorKind, StoreResult,
};

use crate::{
    ears::Ears,
    node::Node,
    open::Opens,
    round::{Heard, Late, Round},
    sweeper::Sweeper,
};

/// The nodes and the rules they are counted by.
pub(crate) struct Quorum {
    pub(crate) nodes: Vec<Arc<Node>>,
    /// How many nodes make a majority.
    pub(crate) needed: usize,
    pub(crate) can: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) opens: Arc<Opens>,
    pub(crate) ears: Arc<Ears>,
    pub(crate) sweeper: Sweeper,
    pub(crate) max_ttl: Ttl,
    node_timeout: Duration,
    closed: AtomicBool,
    /// How messages call all of it.
    display: String,
}

/// A verb of one node, as a value.
pub(crate) type Verb<R, A> =
    for<'a> fn(&'a dyn Store, &'a R, Moment) -> BoxFuture<'a, StoreResult<A>>;

impl Quorum {
    pub(crate) fn new(
        stores: Vec<Arc<dyn Store>>,
        needed: usize,
        node_timeout: Duration,
        max_ttl: Ttl,
        quarantine: Duration,
    ) -> Self {
        debug_assert!(needed > stores.len() / 2, "two quorums share a node");
        let can = capabilities(&stores, needed);
        // The builder refuses an empty list and different kinds of clocks.
        let clock = stores.first().map_or(Clock::Boottime, |store| store.clock());
        let nodes: Vec<_> =
            stores.into_iter().map(|store| Arc::new(Node::new(store, quarantine))).collect();
        let names: Vec<_> = nodes.iter().map(|node| node.at.as_str()).collect();
        let display = format!("quorum({}: {})", nodes.len(), names.join(", "));
        Self {
            nodes,
            needed,
            can,
            clock,
            opens: Arc::default(),
            ears: Arc::default(),
            sweeper: Sweeper::new(node_timeout),
            max_ttl,
            node_timeout,
            closed: AtomicBool::new(false),
            display,
        }
    }

    /// Begins a call that has until `by`; the present moment.
    pub(crate) fn begin(&self, by: Moment) -> Result<Moment, StoreError> {
        if self.closed.load(Ordering::Acquire) {
            let message = format!("{self} was closed");
            return Err(StoreError::new(StoreErrorKind::Closed, Outcome::NotDone, message));
        }
        let now = self.clock.now();
        if now >= by {
            return Err(StoreError::unavailable(format!("no time was left to ask {self}")));
        }
        Ok(now)
    }

    /// Refuses a lease that a node which forgot it could not be kept out for.
    pub(crate) fn check_ttl(&self, ttl: Ttl) -> Result<(), StoreError> {
        if ttl <= self.max_ttl {
            return Ok(());
        }
        let message = format!(
            "a ttl of {:?} is longer than the {:?} of {self}; use a shorter one, or a larger \
             `max_ttl` in all clients",
            ttl.as_duration(),
            self.max_ttl.as_duration()
        );
        Err(StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message))
    }

    /// Until when one node may take for a request that goes out at `now`.
    pub(crate) fn node_by(&self, now: Moment, by: Moment) -> Moment {
        now.saturating_add(self.node_timeout).min(by)
    }

    /// Why a majority is none: two nodes are one server by two names. What they are called does not
    /// tell (a name and a number, two databases, a sentinel); their answers do.
    pub(crate) fn twins(&self) -> Option<StoreError> {
        let lives: Vec<_> = self.nodes.iter().map(|node| node.life()).collect();
        let twin = |index: usize| lives[..index].iter().position(|other| *other == lives[index]);
        let pair = |index: usize| lives[index].as_ref().and_then(|_| Some((twin(index)?, index)));
        let (first, second) = (0..lives.len()).find_map(pair)?;
        let (first, second) = (&self.nodes[first].at, &self.nodes[second].at);
        let message =
            format!("{first} and {second} are one server: two votes of it are no majority");
        Some(StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message))
    }

    /// How many nodes can say no before a majority is out of reach.
    pub(crate) fn spare(&self) -> usize {
        self.nodes.len() - self.needed
    }

    /// The same question to all nodes, each with its own limit.
    pub(crate) fn ask<R, A>(
        &self,
        request: R,
        by: Moment,
        late: Arc<dyn Late<A>>,
        verb: Verb<R, A>,
    ) -> Round<A>
    where
        R: Send + Sync + 'static,
        A: Send + 'static,
    {
        self.ask_some(&Arc::new(request), by, late, verb, |_| true)
    }

    /// The same to some of them.
    pub(crate) fn ask_some<R, A>(
        &self,
        request: &Arc<R>,
        by: Moment,
        late: Arc<dyn Late<A>>,
        verb: Verb<R, A>,
        asked: impl Fn(usize) -> bool,
    ) -> Round<A>
    where
        R: Send + Sync + 'static,
        A: Send + 'static,
    {
        let by = self.node_by(self.clock.now(), by);
        let calls = self.nodes.iter().enumerate().map(|(index, node)| {
            let call = call(Arc::clone(node), Arc::clone(request), by, verb);
            asked(index).then_some(Box::pin(call) as BoxFuture<'static, Heard<A>>)
        });
        Round::new(calls, late)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Marks it as closed, waits for what is left behind, and closes the nodes.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.sweeper.drain(self.node_timeout).await;
        for node in &self.nodes {
            node.store.close().await;
        }
    }
}

async fn call<R, A>(node: Arc<Node>, request: Arc<R>, by: Moment, verb: Verb<R, A>) -> Heard<A> {
    node.ask(verb(&*node.store, &request, by)).await
}

/// What all nodes can do, less what only one place can: lines, bindings, and a time. Wakeups need
/// only a majority: see [`Ears`].
fn capabilities(stores: &[Arc<dyn Store>], needed: usize) -> Capabilities {
    let each = || stores.iter().map(|store| store.capabilities());
    let dialect = each().next().map_or("native", |can| can.dialect);
    let mut can = Capabilities::full(dialect);
    can.fencing = each().all(|can| can.fencing && can.writes_fences);
    can.writes_fences = can.fencing;
    can.metadata = each().all(|can| can.metadata);
    can.remembers_tokens = each().all(|can| can.remembers_tokens);
    can.revoke = each().all(|can| can.revoke);
    // A hint of others tells one waiter of a process, and a ballot needs to know of all.
    let tells = |can: &Capabilities| can.wakeups && can.hints == Hints::None;
    can.wakeups = each().filter(tells).count() >= needed;
    can.store_time = false;
    can.max_names = each().map(|can| can.max_names).min().unwrap_or(1);
    can
}

impl fmt::Display for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display)
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum")
            .field("nodes", &self.nodes)
            .field("needed", &self.needed)
            .field("node_timeout", &self.node_timeout)
            .field("max_ttl", &self.max_ttl)
            .field("sweeping", &self.sweeper.len())
            .field("subscriptions", &self.ears.len())
            .field("closed", &self.is_closed())
            .finish()
    }
}
