//! Who listens on a connection: its subscriptions, each with whoever is told.
//!
//! ```text
//!   SUBSCRIBE confirmed -> add --message--> hear, as often as one comes
//!                           |  `-- the connection ends, or is given up --> broken, once
//!                           `--> remove, and UNSUBSCRIBE
//! ```
//! Nobody knows the channel before the subscription is confirmed, so nothing is missed between the
//! two. Messages are handed on by the task that drives the connection.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fencelock_store::rt;
use redis::{Cmd, PushInfo, PushKind, Value};

use super::link::Link;

/// The two kinds of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// Of one server.
    Usual,
    /// Each in a slot of a cluster.
    Sharded,
}

impl Channels {
    pub(super) const fn publish(self) -> &'static str {
        match self {
            Self::Usual => "PUBLISH",
            Self::Sharded => "SPUBLISH",
        }
    }

    pub(super) const fn subscribe(self) -> &'static str {
        match self {
            Self::Usual => "SUBSCRIBE",
            Self::Sharded => "SSUBSCRIBE",
        }
    }

    const fn unsubscribe(self) -> &'static str {
        match self {
            Self::Usual => "UNSUBSCRIBE",
            Self::Sharded => "SUNSUBSCRIBE",
        }
    }
}

/// Whoever is told what comes on a channel. Neither method may block.
pub(crate) trait Hearer: Send + Sync + 'static {
    /// A message.
    fn hear(&self, message: &[u8]);
    /// No message will come any more.
    fn broken(&self);
}

type Listening = HashMap<Vec<u8>, Arc<dyn Hearer>>;

/// The subscriptions of a connection; nothing once it has ended.
pub(super) struct Ears(Mutex<Option<Listening>>);

impl Ears {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }

    /// Begins to hand messages on. False where the connection has ended.
    pub(super) fn add(&self, channel: Vec<u8>, hearer: Arc<dyn Hearer>) -> bool {
        match &mut *self.listening() {
            Some(listening) => {
                listening.insert(channel, hearer);
                true
            }
            None => false,
        }
    }

    /// Whether there was such a subscription.
    fn remove(&self, channel: &[u8]) -> bool {
        self.listening().as_mut().is_some_and(|listening| listening.remove(channel).is_some())
    }

    /// Tells everybody that nothing will come any more; the first time.
    pub(super) fn end(&self) {
        let listening = self.listening().take();
        for hearer in listening.into_iter().flat_map(HashMap::into_values) {
            hearer.broken();
        }
    }

    /// Something came that is not an answer. False when the connection must not be used any more:
    /// the server ended a subscription by itself, because its slot moved away, and the client
    /// library takes that for an answer.
    pub(super) fn push(&self, info: &PushInfo) -> bool {
        match (&info.kind, &info.data[..]) {
            (
                PushKind::Message | PushKind::SMessage,
                [Value::BulkString(channel), Value::BulkString(message)],
            ) => self.hear(channel, message),
            (PushKind::SUnsubscribe, [Value::BulkString(channel), ..]) => {
                // One that we end ourselves is forgotten before.
                return !self.listening().as_ref().is_some_and(|all| all.contains_key(channel));
            }
            _ => {}
        }
        true
    }

    fn hear(&self, channel: &[u8], message: &[u8]) {
        // Called without the lock: it may ask the store, or drop its subscription.
        let hearer = self.listening().as_ref().and_then(|all| all.get(channel).map(Arc::clone));
        if let Some(hearer) = hearer {
            hearer.hear(message);
        }
    }

    fn listening(&self) -> MutexGuard<'_, Option<Listening>> {
        // Nothing under this lock can panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listening = self.listening().as_ref().map(HashMap::len);
        f.debug_struct("Ears").field("listening", &listening).finish()
    }
}

/// A subscription, which ends with it. It does not keep its connection: one that was given up must
/// not go on listening for nobody.
#[derive(Debug)]
pub(crate) struct Ear {
    kind: Channels,
    link: Weak<Link>,
    channel: Vec<u8>,
}

impl Ear {
    /// Begins to listen where a subscription was confirmed; nothing where it has ended since.
    pub(super) fn new(
        link: &Arc<Link>,
        kind: Channels,
        channel: &[u8],
        hearer: Arc<dyn Hearer>,
    ) -> Option<Self> {
        let added = link.ears().add(channel.to_vec(), hearer);
        added.then(|| Self { kind, link: Arc::downgrade(link), channel: channel.to_vec() })
    }
}

impl Ear {
    /// Ends the subscription, and waits until the server knows: another to the same channel may
    /// follow.
    pub(crate) async fn end(self) {
        let Some(link) = self.link.upgrade() else { return };
        if link.ears().remove(&self.channel) {
            let _ = link.send(self.unsubscribe()).await;
        }
    }

    fn unsubscribe(&self) -> Cmd {
        let mut command = Cmd::with_capacity(2, 64);
        command.arg(self.kind.unsubscribe()).arg(&self.channel[..]);
        command
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let Some(link) = self.link.upgrade() else { return };
        if !link.ears().remove(&self.channel) {
            return;
        }
        let command = self.unsubscribe();
        // Outside of a runtime the server goes on sending to a channel that nobody is told of.
        rt::try_spawn(async move {
            let _ = link.send(command).await;
        });
    }
}
