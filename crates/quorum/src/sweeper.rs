//! Releases that nobody waits for, until each node has answered.
//!
//! ```text
//!   a node was silent, or late  --push-->  try, pause, try ...  answered, or the lease is over
//!                                          (while it fails, one at a time: see `pace`)
//! ```
//! They run on a thread of their own: the caller's runtime may end or be blocked. A lock that is
//! left on a minority of nodes is in nobody's way for longer than its ttl, so where the system
//! gives no thread, or too many are waiting, that is what ends it.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fencelock_core::{Moment, ReleaseRequest, Released, StoreTime, Token};
use fencelock_store::{Reply, StoreErrorKind, rt};

use crate::{node::Node, pace::Pace};

/// One release at one node.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) index: usize,
    pub(crate) node: Arc<Node>,
    pub(crate) request: ReleaseRequest,
    pub(crate) after: After,
    /// When the lease is over without us.
    pub(crate) give_up: Moment,
}

/// Which answer is the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Any: nothing can come after it.
    Anything,
    /// A request for the lease may still arrive: one that freed it, or one from after this instant
    /// of the node's clock, when the node refuses that request.
    Stray(Option<StoreTime>),
}

impl After {
    /// Whether nothing can come after this answer.
    pub(crate) fn is_over(self, reply: &Reply<Released>) -> bool {
        match self {
            Self::Anything => true,
            Self::Stray(deadline) => {
                let refused = deadline.zip(reply.at).is_some_and(|(deadline, at)| at > deadline);
                reply.answer == Released::Held || refused
            }
        }
    }
}

/// The thread and what it has to do.
#[derive(Debug)]
pub(crate) struct Sweeper {
    node_timeout: Duration,
    state: Arc<State>,
    queue: Mutex<Option<rt::sync::mpsc::UnboundedSender<Sweep>>>,
}

#[derive(Debug, Default)]
struct State {
    /// What is not done: no node is swept twice at a time for one lease.
    waiting: Mutex<HashSet<(usize, Token)>>,
    done: rt::sync::Notify,
}

impl Sweeper {
    /// More than this many leases left behind say that a node does not answer at all: their ttl
    /// ends them.
    const MOST: usize = 10_000;

    pub(crate) fn new(node_timeout: Duration) -> Self {
        Self { node_timeout, state: Arc::default(), queue: Mutex::default() }
    }

    /// Takes a release over.
    pub(crate) fn push(&self, sweep: Sweep) {
        let key = (sweep.index, sweep.request.token);
        {
            let mut waiting = self.state.waiting();
            if waiting.len() >= Self::MOST || !waiting.insert(key) {
                return;
            }
        }
        if self.send(sweep).is_none() {
            self.state.end(key);
            tracing::warn!("no thread for releases: what is left on a node ends with its ttl");
        }
    }

    fn send(&self, sweep: Sweep) -> Option<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_none() {
            let (sender, receiver) = rt::sync::mpsc::unbounded_channel();
            let (state, limit) = (Arc::clone(&self.state), self.node_timeout);
            let work = move || Box::pin(work(receiver, state, limit)) as _;
            rt::spawn_thread("fencelock-quorum", work).ok()?;
            *queue = Some(sender);
        }
        queue.as_ref()?.send(sweep).ok()
    }

    /// Waits until nothing is left, or for a span.
    pub(crate) async fn drain(&self, span: Duration) {
        let _in_time = rt::timeout(span, self.state.emptied()).await;
    }

    /// How many releases are not done.
    pub(crate) fn len(&self) -> usize {
        self.state.waiting().len()
    }
}

impl State {
    fn waiting(&self) -> MutexGuard<'_, HashSet<(usize, Token)>> {
        // Nothing under this lock can panic half way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is left.
    async fn emptied(&self) {
        loop {
            let mut done = std::pin::pin!(self.done.notified());
            done.as_mut().enable();
            if self.waiting().is_empty() {
                return;
            }
            done.await;
        }
    }

    fn end(&self, key: (usize, Token)) {
        self.waiting().remove(&key);
        self.done.notify_waiters();
    }
}

/// The thread: a task for each release. It ends with the store, once what it began is done.
async fn work(
    mut queue: rt::sync::mpsc::UnboundedReceiver<Sweep>,
    state: Arc<State>,
    limit: Duration,
) {
    while let Some(sweep) = queue.recv().await {
        let state = Arc::clone(&state);
        rt::try_spawn(async move {
            let key = (sweep.index, sweep.request.token);
            // Also when a node panics.
            let _ended = Ended(state, key);
            release(sweep, limit).await;
        });
    }
    state.emptied().await;
}

struct Ended(Arc<State>, (usize, Token));

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

async fn release(sweep: Sweep, limit: Duration) {
    let Sweep { node, request, after, give_up, .. } = sweep;
    let clock = node.store.clock();
    let mut pause = Pace::FIRST_PAUSE;
    loop {
        let Some(turn) = node.pace.turn(&clock, give_up).await else { return };
        let by = clock.now().saturating_add(limit);
        match node.ask(node.store.release(&request, by)).await {
            Ok(reply) => {
                node.pace.answered();
                if after.is_over(&reply) {
                    return;
                }
            }
            Err(error) if error.kind() == StoreErrorKind::Closed => return,
            Err(_) => {
                node.pace.failed(clock.now());
                if clock.now() >= give_up {
                    return;
                }
                continue;
            }
        }
        drop(turn);
        // What may still arrive is waited for by this release alone.
        let now = clock.now();
        if now >= give_up {
            return;
        }
        let jitter = pause.mul_f64(f64::from(rt::chance()) / f64::from(u32::MAX) / 4.0);
        clock.sleep_until(now.saturating_add(pause - jitter).min(give_up)).await;
        pause = pause.saturating_mul(2).min(Pace::LONGEST_PAUSE);
    }
}
