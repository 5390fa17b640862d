//! Releases that nobody waits for, until each node has answered.
//!
//! ```text
//!   a node was silent, or late  --push-->  try, pause, try ...  answered, or the lease is over
//!                                          (while it fails, one at a time: see `pace`)
//!   pushed again meanwhile: once more behind that, since what it is for may have come in between
//! ```
//! They run on a thread of their own: the caller's runtime may end or be blocked. A lock that is
//! left on a minority of nodes is in nobody's way for longer than its ttl, so where the system
//! gives no thread, or too many are waiting, that is what ends it.

use std::{
    collections::{HashMap, hash_map::Entry},
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

impl Sweep {
    fn key(&self) -> Key {
        (self.index, self.request.token)
    }

    /// Takes the place behind the one that runs: one more release is enough for all that was pushed
    /// before it began.
    fn follow(self, place: &mut Option<Self>) {
        *place = Some(match place.take() {
            Some(other) => Self {
                after: self.after.and(other.after),
                give_up: self.give_up.max(other.give_up),
                ..self
            },
            None => self,
        });
    }
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
    /// The one that satisfies both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Anything, other) | (other, Self::Anything) => other,
            (Self::Stray(one), Self::Stray(other)) => {
                Self::Stray(one.zip(other).map(|(one, other)| one.max(other)))
            }
        }
    }

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

/// A node, and the token of the lease.
type Key = (usize, Token);

#[derive(Debug, Default)]
struct State {
    /// What is not done: no node is swept twice at a time for one lease. With what comes behind it.
    waiting: Mutex<HashMap<Key, Option<Sweep>>>,
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
        let key = sweep.key();
        {
            let mut waiting = self.state.waiting();
            let is_full = waiting.len() >= Self::MOST;
            match waiting.entry(key) {
                Entry::Occupied(mut running) => return sweep.follow(running.get_mut()),
                Entry::Vacant(_) if is_full => return,
                Entry::Vacant(place) => drop(place.insert(None)),
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
    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, Option<Sweep>>> {
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

    /// What was pushed while a release ran; where nothing was, that lease is done with.
    fn next(&self, key: Key) -> Option<Sweep> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(&key).and_then(Option::take);
        if next.is_none() {
            waiting.remove(&key);
            drop(waiting);
            self.done.notify_waiters();
        }
        next
    }

    fn end(&self, key: Key) {
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
            let mut running = Running { state: Some(state), key: sweep.key() };
            let mut next = Some(sweep);
            while let Some(sweep) = next {
                release(sweep, limit).await;
                next = running.next();
            }
        });
    }
    state.emptied().await;
}

/// A lease that is being swept from a node: it ends also when the node panics.
struct Running {
    state: Option<Arc<State>>,
    key: Key,
}

impl Running {
    /// What comes behind the release that ended. Without it the lease may be pushed anew at once,
    /// which this must not end again.
    fn next(&mut self) -> Option<Sweep> {
        let next = self.state.as_ref()?.next(self.key);
        if next.is_none() {
            self.state = None;
        }
        next
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(state) = &self.state {
            state.end(self.key);
        }
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

#[cfg(test)]
mod tests {
    use fencelock_core::{AcquireRequest, Acquired, InspectRequest, Inspection, LockName, Ttl};
    use fencelock_store::{Fault, FaultyStore, MemoryStore, Store, Verb};

    use super::*;

    /// Goal: whoever pushes a release is certain that one begins after that. Method: the answer to
    /// the first is held back; the lease comes to be behind it, and is pushed again.
    #[tokio::test]
    async fn what_is_pushed_while_the_same_is_swept_is_swept_behind_it() {
        let store = FaultyStore::new(MemoryStore::new());
        let node = Arc::new(Node::new(Arc::new(store.clone()), Duration::ZERO));
        let sweeper = Sweeper::new(Duration::from_secs(60));
        let (name, token) = (LockName::new("job").expect("a name"), rt::fresh_token());
        let by = store.clock().now().saturating_add(Duration::from_secs(600));
        let push = || {
            sweeper.push(Sweep {
                index: 0,
                node: Arc::clone(&node),
                request: ReleaseRequest::new(name.clone(), token),
                after: After::Anything,
                give_up: by,
            });
        };
        let free = async || {
            let look = InspectRequest::new(name.clone());
            let seen = store.inner().inspect(&look, by).await.expect("it answers").answer;
            matches!(seen, Inspection::Free { .. })
        };
        store.plan(Verb::Release, Fault::HoldReply);
        push();
        while store.calls(Verb::Release) == 0 {
            rt::yield_now().await;
        }
        let late = AcquireRequest::new(name.clone(), token, Ttl::MAX);
        let granted = store.inner().acquire(&late, by).await.expect("it answers").answer;
        assert!(matches!(granted, Acquired::Granted(_)), "{granted:?}");
        push();
        push();
        assert_eq!(sweeper.len(), 1);
        assert!(!free().await);
        store.let_go();
        sweeper.state.emptied().await;
        assert!(free().await, "the second release found it");
        assert_eq!(store.calls(Verb::Release), 2, "one for all that was pushed meanwhile");
    }

    #[test]
    fn what_satisfies_two_waits_for_the_later_of_them() {
        let at = |micros| After::Stray(Some(StoreTime::from_micros(micros)));
        assert_eq!(After::Anything.and(After::Anything), After::Anything);
        assert_eq!(After::Anything.and(at(1)), at(1));
        assert_eq!(at(2).and(at(1)), at(2));
        assert_eq!(at(1).and(After::Stray(None)), After::Stray(None));
    }
}
