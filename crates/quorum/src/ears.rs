//! Who listens: one subscription of a client is one at each node.
//!
//! ```text
//!   listen --> each node that can: its own listener --> enough of them: one listener for all
//!   ballot --> a place at each node, by that node's listener
//!   a node tells --------------------------------------> the client's sink, whichever node it was
//!   one of them breaks --------------------------------> all is over: the client listens anew
//! ```
//! A turn that several nodes tell is told twice: at once, and when a majority has said it. No other
//! waiter hears the second before this one was through, so there is nobody to stand back for.
//!
//! Enough is a majority: whoever holds a lock shares a node with it, so its release is heard. Fewer
//! are refused, and the client polls. A node that was away when it began, or comes back, is only
//! missing hints, until the next break of any of them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use fencelock_core::{ListenerId, Moment, Token, Wakeup};
use fencelock_store::{BoxFuture, Outcome, Reply, StoreError, Subscription, WakeupSink, rt};

use crate::{
    node::Node,
    quorum::Quorum,
    round::{Heard, Ignored, Round},
    tally::{answered, failed, no_quorum},
};

/// What listeners of clients are called at each node. Has as many entries as there are
/// subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    at_nodes: Mutex<HashMap<ListenerId, Vec<Option<ListenerId>>>>,
}

impl Ears {
    /// What a listener is called at a node; nothing where it hears nothing from it.
    pub(crate) fn at(&self, listener: Option<ListenerId>, node: usize) -> Option<ListenerId> {
        self.at_nodes().get(&listener?)?.get(node).copied().flatten()
    }

    /// How many subscriptions there are.
    pub(crate) fn len(&self) -> usize {
        self.at_nodes().len()
    }

    fn at_nodes(&self) -> MutexGuard<'_, HashMap<ListenerId, Vec<Option<ListenerId>>>> {
        // Nothing under this lock can panic half way.
        self.at_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens at all nodes that can be listened to. Goes on without those that are late, which are
/// listened to when they answer.
pub(crate) async fn listen(
    quorum: &Quorum,
    sink: Arc<dyn WakeupSink>,
    by: Moment,
) -> Result<Subscription, StoreError> {
    let now = quorum.begin(by)?;
    if !quorum.can.wakeups {
        return Err(StoreError::unsupported("too few nodes of the quorum tell anybody anything"));
    }
    let ear = Arc::new(Ear::new(quorum, sink));
    let end = End(Arc::clone(&ear));
    let by = quorum.node_by(now, by);
    let calls = quorum.nodes.iter().enumerate().map(|(index, node)| {
        let call = listen_at(Arc::clone(node), index, Arc::clone(&ear), by);
        Some(Box::pin(call) as BoxFuture<'static, Heard<()>>)
    });
    let mut round = Round::new(calls, Arc::new(Ignored));
    let enough = |heard: &[_]| answered(heard) >= quorum.needed;
    round.until(|heard| enough(heard) || failed(heard) > quorum.spare()).await;
    if !enough(round.heard()) {
        return Err(no_quorum(quorum, round.heard(), Outcome::NotDone, |()| "listening"));
    }
    if ear.is_over() {
        // Before anybody could be told.
        return Err(StoreError::unavailable("a node ended its subscription at once"));
    }
    Ok(Subscription::new(ear.listener, end))
}

async fn listen_at(node: Arc<Node>, index: usize, ear: Arc<Ear>, by: Moment) -> Heard<()> {
    let sink = Arc::new(AtNode { ear: Arc::clone(&ear), node: index });
    ear.keep(index, node.store.listen(sink, by).await?);
    Ok(Reply::new(()))
}

/// Hears one node.
struct AtNode {
    ear: Arc<Ear>,
    node: usize,
}

impl WakeupSink for AtNode {
    fn wake(&self, wakeup: Wakeup) {
        let ear = &self.ear;
        let is_news = match wakeup {
            Wakeup::Turn(token) => ear.is_news(token, self.node),
            // What one node hands over is no lease: nobody may begin with it. None does, since
            // places here do not insist.
            Wakeup::Granted(_) => false,
            _ => true,
        };
        if is_news && !ear.is_over() {
            ear.sink.wake(wakeup);
        }
    }

    fn broken(&self) {
        if self.ear.end() {
            self.ear.sink.broken();
        }
    }
}

/// Hands on what the nodes tell.
struct Ear {
    listener: ListenerId,
    ears: Arc<Ears>,
    sink: Arc<dyn WakeupSink>,
    needed: usize,
    /// Which nodes told a token that its turn has come, as bits.
    turns: Mutex<HashMap<Token, u16>>,
    subscriptions: Mutex<Vec<Subscription>>,
    /// One of its subscriptions broke, or nobody listens any more.
    is_over: AtomicBool,
}

impl Ear {
    fn new(quorum: &Quorum, sink: Arc<dyn WakeupSink>) -> Self {
        let (listener, ears) = (rt::fresh_listener(), Arc::clone(&quorum.ears));
        ears.at_nodes().insert(listener, vec![None; quorum.nodes.len()]);
        Self {
            listener,
            ears,
            sink,
            needed: quorum.needed,
            turns: Mutex::default(),
            subscriptions: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Each ballot that is told leaves an entry: to forget those of long ago costs nobody more than
    /// a pause.
    const MOST_TURNS: usize = 1_000;

    /// Whether the waiter of a token is told that one more node says that its turn has come.
    fn is_news(&self, token: Token, node: usize) -> bool {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= Self::MOST_TURNS {
            turns.clear();
        }
        let nodes = turns.entry(token).or_default();
        let before = nodes.count_ones();
        // A builder lets no more nodes than bits through.
        *nodes |= 1 << node;
        let now = nodes.count_ones();
        now > before && (before == 0 || usize::try_from(now) == Ok(self.needed))
    }

    /// Keeps the subscription of a node, unless nobody listens any more.
    fn keep(&self, node: usize, subscription: Subscription) {
        let mut subscriptions = self.subscriptions();
        // Looked at under the lock under which the end takes them away.
        if self.is_over() {
            drop(subscriptions);
            return;
        }
        if let Some(at_nodes) = self.ears.at_nodes().get_mut(&self.listener) {
            at_nodes[node] = Some(subscription.listener);
        }
        subscriptions.push(subscription);
    }

    fn subscriptions(&self) -> MutexGuard<'_, Vec<Subscription>> {
        // Nothing under this lock can panic half way.
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// True for the first who says so.
    fn end(&self) -> bool {
        let first = !self.is_over.swap(true, Ordering::AcqRel);
        self.ears.at_nodes().remove(&self.listener);
        first
    }
}

/// Ends the subscriptions with it.
struct End(Arc<Ear>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
        let subscriptions = std::mem::take(&mut *self.0.subscriptions());
        // Their drop goes to the nodes: not under the lock.
        drop(subscriptions);
    }
}
