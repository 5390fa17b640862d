//! What is noted of those who wait: sync, and without a word to the server.
//!
//! A *life* is what listens in one runtime from the first listener until its connection breaks; then
//! all of it is over, and whoever still waits begins another.

use std::{collections::HashMap, sync::Arc};

use fencelock_core::{ListenerId, Moment, Token};
use fencelock_store::{WakeupSink, rt};

use super::{Told, list::Blocked};
use crate::connection::Ear;

type Key = Vec<u8>;
type Channel = Vec<u8>;

/// All lives of a store.
#[derive(Default)]
pub(super) struct Notes {
    last_life: u64,
    lives: HashMap<u64, Life>,
    runtimes: HashMap<rt::RuntimeId, u64>,
    listeners: HashMap<ListenerId, u64>,
    tokens: HashMap<Token, Waiter>,
}

#[derive(Default)]
struct Life {
    sinks: HashMap<ListenerId, Arc<dyn WakeupSink>>,
    /// In the order in which they came.
    waiting: HashMap<Key, Vec<(ListenerId, Token)>>,
    channels: HashMap<Channel, Heard>,
    deaf_until: Moment,
}

/// What is listened by.
pub(super) enum Listening {
    Channel(Ear),
    List { _ends_with_this: Blocked },
}

/// A channel that is subscribed to or a list, and the keys that are waited for, each with what is told of it.
struct Heard {
    by: Listening,
    keys: HashMap<Key, Told>,
}

struct Waiter {
    life: u64,
    keys: Vec<(Key, Vec<Channel>)>,
}

/// What a note is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// Nothing: nobody listens there, or may.
    Nowhere,
    /// All channels of the names are heard.
    Heard,
    /// Not all are.
    Unheard,
}

/// A life that is over.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) heard: Vec<Listening>,
    pub(super) sinks: Vec<Arc<dyn WakeupSink>>,
}

/// So many channels are kept though nobody waits for what they tell.
const IDLE_MAX: usize = 64;

impl Notes {
    pub(super) fn begin(
        &mut self,
        runtime: rt::RuntimeId,
        listener: ListenerId,
        sink: Arc<dyn WakeupSink>,
    ) {
        let known = self.runtimes.get(&runtime).copied();
        let life = known.unwrap_or_else(|| {
            self.last_life += 1;
            self.runtimes.insert(runtime, self.last_life);
            self.last_life
        });
        self.lives.entry(life).or_default().sinks.insert(listener, sink);
        self.listeners.insert(listener, life);
    }

    /// A listener goes, and with it whoever waits by it. Channels stay: a new one of this runtime has
    /// use for them, and they end with the connection.
    pub(super) fn end(&mut self, listener: ListenerId) -> Option<Arc<dyn WakeupSink>> {
        let life = self.listeners.remove(&listener)?;
        let here = self.lives.get_mut(&life)?;
        let sink = here.sinks.remove(&listener);
        let own = here.waiting.values().flatten().filter(|(at, _)| *at == listener);
        let tokens: Vec<Token> = own.map(|(_, token)| *token).collect();
        tokens.iter().for_each(|token| self.forget(token));
        sink
    }

    pub(super) fn note(
        &mut self,
        listener: ListenerId,
        token: Token,
        names: &[(Key, Vec<Told>)],
        now: Moment,
    ) -> Noted {
        let Some(&life) = self.listeners.get(&listener) else { return Noted::Nowhere };
        let Some(here) = self.lives.get_mut(&life) else { return Noted::Nowhere };
        if now < here.deaf_until {
            return Noted::Nowhere;
        }
        let mut noted = Noted::Heard;
        for (key, told) in names {
            let waiting = here.waiting.entry(key.clone()).or_default();
            if !waiting.iter().any(|(_, other)| *other == token) {
                waiting.push((listener, token));
            }
            for told in told {
                match here.channels.get_mut(&told.channel) {
                    Some(heard) => drop(heard.keys.insert(key.clone(), told.clone())),
                    None => noted = Noted::Unheard,
                }
            }
        }
        let channels = |told: &Vec<Told>| told.iter().map(|told| told.channel.clone()).collect();
        let keys = names.iter().map(|(key, told)| (key.clone(), channels(told))).collect();
        self.tokens.insert(token, Waiter { life, keys });
        noted
    }

    pub(super) fn forget(&mut self, token: &Token) {
        let Some(Waiter { life, keys }) = self.tokens.remove(token) else { return };
        let Some(here) = self.lives.get_mut(&life) else { return };
        for (key, channels) in keys {
            let Some(waiting) = here.waiting.get_mut(&key) else { continue };
            waiting.retain(|(_, other)| other != token);
            if !waiting.is_empty() {
                continue;
            }
            here.waiting.remove(&key);
            for channel in channels {
                if let Some(heard) = here.channels.get_mut(&channel) {
                    heard.keys.remove(&key);
                }
            }
        }
    }

    pub(super) fn life(&self, listener: ListenerId) -> Option<u64> {
        self.listeners.get(&listener).copied()
    }

    /// Adds a key to a channel; false where that is not heard.
    pub(super) fn joins(&mut self, life: u64, key: &[u8], told: &Told) -> bool {
        let Some(here) = self.lives.get_mut(&life) else { return false };
        let Some(heard) = here.channels.get_mut(&told.channel) else { return false };
        if here.waiting.contains_key(key) {
            heard.keys.insert(key.to_vec(), told.clone());
        }
        true
    }

    /// Takes the channels that nobody has use for, if there are many.
    pub(super) fn idle(&mut self, life: u64) -> Vec<Ear> {
        let Some(here) = self.lives.get_mut(&life) else { return Vec::new() };
        if here.channels.len() < IDLE_MAX {
            return Vec::new();
        }
        let idle = here.channels.extract_if(|_, heard| heard.keys.is_empty());
        let ear = |(_, heard): (_, Heard)| match heard.by {
            Listening::Channel(ear) => Some(ear),
            Listening::List { .. } => None,
        };
        idle.filter_map(ear).collect()
    }

    /// How many lists are listened to.
    pub(super) fn lists(&self, life: u64) -> usize {
        let all = self.lives.get(&life).into_iter().flat_map(|here| here.channels.values());
        all.filter(|heard| matches!(heard.by, Listening::List { .. })).count()
    }

    /// Ends a list that nobody has use for; also true where it has ended.
    pub(super) fn ends_if_idle(&mut self, life: u64, list: &[u8]) -> bool {
        let Some(here) = self.lives.get_mut(&life) else { return true };
        if here.channels.get(list).is_some_and(|heard| !heard.keys.is_empty()) {
            return false;
        }
        here.channels.remove(list);
        true
    }

    /// A list is not heard any more; who waits for what it tells.
    pub(super) fn unheard(&mut self, life: u64, list: &[u8]) -> Vec<(Arc<dyn WakeupSink>, Token)> {
        let Some(here) = self.lives.get_mut(&life) else { return Vec::new() };
        let Some(heard) = here.channels.remove(list) else { return Vec::new() };
        let waiting = heard.keys.keys().filter_map(|key| here.waiting.get(key)).flatten();
        waiting
            .filter_map(|(listener, token)| Some((Arc::clone(here.sinks.get(listener)?), *token)))
            .collect()
    }

    /// Takes all lists.
    pub(super) fn end_lists(&mut self) -> Vec<Listening> {
        let all = self.lives.values_mut().flat_map(|here| {
            here.channels.extract_if(|_, heard| matches!(heard.by, Listening::List { .. }))
        });
        all.map(|(_, heard)| heard.by).collect()
    }

    /// A subscription was confirmed, or a list is blocked on. It comes back where its life is over.
    pub(super) fn heard(
        &mut self,
        life: u64,
        key: &[u8],
        told: &Told,
        by: Listening,
    ) -> Option<Listening> {
        let Some(here) = self.lives.get_mut(&life) else { return Some(by) };
        here.channels.insert(told.channel.clone(), Heard { by, keys: HashMap::new() });
        self.joins(life, key, told);
        None
    }

    /// Channels are not to be had for a while.
    pub(super) fn is_deaf(&mut self, life: u64, until: Moment) {
        if let Some(here) = self.lives.get_mut(&life) {
            here.deaf_until = until;
        }
    }

    /// Whose turn a message is: of each key that it is about, the first who waits, or all.
    pub(super) fn told(
        &self,
        life: u64,
        channel: &[u8],
        message: &[u8],
    ) -> Vec<(Arc<dyn WakeupSink>, Token)> {
        let Some(here) = self.lives.get(&life) else { return Vec::new() };
        let keys = here.channels.get(channel).into_iter().flat_map(|heard| &heard.keys);
        let is_about = |told: &Told| told.only.as_ref().is_none_or(|only| only == message);
        let about = keys.filter(|(_, told)| is_about(told));
        let waiting = about.flat_map(|(key, told)| {
            let most = if told.is_for_all { usize::MAX } else { 1 };
            here.waiting.get(key).into_iter().flatten().take(most)
        });
        waiting
            .filter_map(|(listener, token)| Some((Arc::clone(here.sinks.get(listener)?), *token)))
            .collect()
    }

    /// The connection has ended.
    pub(super) fn broken(&mut self, life: u64) -> Ended {
        let Some(here) = self.lives.remove(&life) else { return Ended::default() };
        self.runtimes.retain(|_, other| *other != life);
        self.listeners.retain(|_, other| *other != life);
        self.tokens.retain(|_, waiter| waiter.life != life);
        Ended {
            heard: here.channels.into_values().map(|heard| heard.by).collect(),
            sinks: here.sinks.into_values().collect(),
        }
    }
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let channels: usize = self.lives.values().map(|here| here.channels.len()).sum();
        f.debug_struct("Notes")
            .field("listeners", &self.listeners.len())
            .field("waiting", &self.tokens.len())
            .field("channels", &channels)
            .finish()
    }
}
