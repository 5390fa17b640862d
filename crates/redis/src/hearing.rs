//! Hears what holders of other libraries say when they give a name back.
//!
//! ```text
//!   acquire with a wish --> its token is noted --> SUBSCRIBE, confirmed --> the question --busy--> queued
//!                               |
//!   a message on a channel --> the first noted token of this runtime that it is about: its turn
//! ```
//! Nothing of this is at the server: the notes are of this process, and end with the answer of the
//! next question, with a release of the token, or with its listener. A message wakes one waiter of a
//! runtime, not all (unless it makes room for many): it asks, and is the first again unless it was granted the name. Channels are kept
//! for a while after their last waiter, since whoever waits once for a name will do so again.

mod list;
mod notes;

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use fencelock_core::{AcquireRequest, Acquired, ListenerId, LockName, Moment, Queued, Token};
use fencelock_store::{
    Reply, StoreError, StoreErrorKind, StoreResult, Subscription, WakeupSink, rt,
};

use self::{
    list::List,
    notes::{Listening, Noted, Notes},
};
use crate::{
    connection::{Channels, Hearer},
    error,
    servers::Servers,
    wire::Wire,
};

/// By what a name is told to be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A message on a channel.
    Channel(Channels),
    /// An element of a list.
    List,
}

/// Where a name is told to be free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) kind: By,
    /// Or the key of a list.
    pub(crate) channel: Vec<u8>,
    /// The message that is about this name, where the channel has others, too.
    pub(crate) only: Option<Vec<u8>>,
    /// A message makes room for more than one.
    pub(crate) is_for_all: bool,
}

impl Told {
    /// A list of one name.
    pub(crate) fn by_list(key: Vec<u8>) -> Self {
        Self { kind: By::List, ..Self::on(key) }
    }

    /// A channel of one name.
    pub(crate) fn on(channel: Vec<u8>) -> Self {
        Self { kind: By::Channel(Channels::Usual), channel, only: None, is_for_all: false }
    }
}

/// The key by which waiters of a name are noted, and where that is told of.
pub(crate) type ByKey = (Vec<u8>, Vec<Told>);

/// Who waits in this process for messages of others.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    notes: Arc<Mutex<Notes>>,
    /// Whoever changes the subscriptions of a connection.
    turn: rt::sync::Mutex<()>,
}

/// After a refusal of channels, which is a matter of rights.
const DEAF_FOR: Duration = Duration::from_secs(10);

/// Begins to listen: channels follow with the names that are waited for.
pub(crate) fn listen(
    wire: &Wire,
    sink: Arc<dyn WakeupSink>,
    by: Moment,
) -> Result<Subscription, StoreError> {
    wire.connections.check_open()?;
    if wire.clock.now() >= by {
        return Err(error::overdue(wire.connections.at(), false));
    }
    let Some(runtime) = rt::runtime_id() else {
        return Err(StoreError::unsupported("outside of a runtime there is nobody to be told"));
    };
    let listener = rt::fresh_listener();
    lock(&wire.hearing.notes).begin(runtime, listener, sink);
    let end = End { notes: Arc::clone(&wire.hearing.notes), listener };
    Ok(Subscription::new(listener, end))
}

/// The end of a listener.
struct End {
    notes: Arc<Mutex<Notes>>,
    listener: ListenerId,
}

impl Drop for End {
    fn drop(&mut self) {
        // The sink is dropped outside of the lock.
        let ended = lock(&self.notes).end(self.listener);
        drop(ended);
    }
}

/// Asks, and notes who wishes to be told. `told` says by which key a waiter is noted for a name, so that a
/// message about that key is for the first who is, and on which channels it comes.
pub(crate) async fn acquire<F>(
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
    told: fn(&Wire, &LockName, &Token) -> ByKey,
    ask: impl Fn() -> F,
) -> StoreResult<Acquired>
where
    F: Future<Output = StoreResult<Acquired>>,
{
    let Some(listener) = request.listener.filter(|_| request.place.is_some()) else {
        return ask().await;
    };
    let token = request.token;
    let names: Vec<_> = request.names.iter().map(|name| told(wire, name, &token)).collect();
    // Before the question: what is said after its answer must find the note.
    let noted = lock(&wire.hearing.notes).note(listener, token, &names, wire.clock.now());
    match noted {
        Noted::Nowhere => ask().await,
        Noted::Heard => wire.hearing.settled(token, ask().await),
        // Whoever wishes to be told has found it busy before.
        Noted::Unheard if Box::pin(wire.hearing.subscribe(wire, listener, &names, by)).await => {
            wire.hearing.settled(token, ask().await)
        }
        Noted::Unheard => {
            wire.hearing.forget(&token);
            ask().await
        }
    }
}

impl Hearing {
    /// Whoever is busy has a note; nobody else has.
    fn settled(&self, token: Token, answer: StoreResult<Acquired>) -> StoreResult<Acquired> {
        match answer {
            Ok(Reply { answer: Acquired::Busy(busy), at, incarnation, .. }) => {
                let mut reply = Reply::new(Acquired::Queued(Queued::new(busy, 0)));
                (reply.at, reply.incarnation) = (at, incarnation);
                Ok(reply)
            }
            other => {
                self.forget(&token);
                other
            }
        }
    }

    /// The token waits no more.
    pub(crate) fn forget(&self, token: &Token) {
        lock(&self.notes).forget(token);
    }

    /// Has all channels of the names heard where the listener is; false where that can't be.
    async fn subscribe(
        &self,
        wire: &Wire,
        listener: ListenerId,
        names: &[(Vec<u8>, Vec<Told>)],
        by: Moment,
    ) -> bool {
        // One at a time: two subscriptions to one channel would end each other.
        let Some(_turn) = wire.clock.until(by, self.turn.lock()).await else { return false };
        for (key, all) in names {
            for told in all {
                if !self.hears(wire, listener, key, told, by).await {
                    return false;
                }
            }
        }
        true
    }

    /// Has one channel heard.
    async fn hears(
        &self,
        wire: &Wire,
        listener: ListenerId,
        key: &[u8],
        told: &Told,
        by: Moment,
    ) -> bool {
        let Some(life) = lock(&self.notes).life(listener) else { return false };
        if lock(&self.notes).joins(life, key, told) {
            return true;
        }
        let kind = match told.kind {
            By::Channel(kind) => kind,
            By::List => return self.blocks(wire, life, key, told),
        };
        let idle = lock(&self.notes).idle(life);
        for ear in idle {
            ear.end().await;
        }
        let channel = told.channel.clone();
        let hearer = Arc::new(OnChannel { notes: Arc::downgrade(&self.notes), life, channel });
        let (connections, route) = (&wire.connections, wire.route_of_key(key));
        match connections.hear(kind, &told.channel, &route, hearer, &wire.clock, by).await {
            Ok(ear) => {
                // It comes back where the connection ended meanwhile.
                lock(&self.notes).heard(life, key, told, Listening::Channel(ear)).is_none()
            }
            Err(error) => {
                tracing::debug!(store = connections.at(), %error, "a channel is not heard");
                if matches!(error.kind(), StoreErrorKind::Denied | StoreErrorKind::Unsupported) {
                    let until = wire.clock.now().saturating_add(DEAF_FOR);
                    lock(&self.notes).is_deaf(life, until);
                }
                false
            }
        }
    }
}

impl Hearing {
    /// Has one list heard, by a connection of its own; false where there are enough of them. What is told before
    /// it blocks is not missed: the element stays for a while.
    fn blocks(&self, wire: &Wire, life: u64, key: &[u8], told: &Told) -> bool {
        const MOST: usize = 16;
        if lock(&self.notes).lists(life) >= MOST {
            return false;
        }
        let Some(Ok(servers)) = wire.aside.as_ref().map(|url| Servers::new(url, None)) else {
            return false;
        };
        let list =
            List { list: told.channel.clone(), key: key.to_vec(), route: wire.route_of_key(key) };
        let blocked = list::listen(servers, list, &self.notes, life, wire.clock.clone());
        blocked.is_some_and(|blocked| {
            let listening = Listening::List { _ends_with_this: blocked };
            lock(&self.notes).heard(life, key, told, listening).is_none()
        })
    }

    /// Ends the connections that block.
    pub(crate) fn close(&self) {
        let ended = lock(&self.notes).end_lists();
        drop(ended);
    }
}

/// Reads the messages of one channel.
struct OnChannel {
    notes: Weak<Mutex<Notes>>,
    life: u64,
    channel: Vec<u8>,
}

impl Hearer for OnChannel {
    fn hear(&self, message: &[u8]) {
        let Some(notes) = self.notes.upgrade() else { return };
        let first = lock(&notes).told(self.life, &self.channel, message);
        for (sink, token) in first {
            sink.wake(fencelock_core::Wakeup::Turn(token));
        }
    }

    fn broken(&self) {
        let Some(notes) = self.notes.upgrade() else { return };
        let ended = lock(&notes).broken(self.life);
        // Their connection has ended; so they say nothing to it.
        drop(ended.heard);
        for sink in ended.sinks {
            sink.broken();
        }
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    // Nothing under this lock can panic half way.
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}
