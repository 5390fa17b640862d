//! One server, or a cluster of them: where questions go.

use std::{collections::BTreeMap, sync::Arc};

use fencelock_core::{ListenerId, Moment};
use fencelock_store::{Clock, Outcome, StoreError, StoreErrorKind, rt};

use crate::{
    acknowledge::Acknowledge,
    cluster::{Address, Cluster, Listener, Route},
    connection::{Answer, Channels, Connections, Ear, Hearer, Shortcut},
    guard::Guard,
    keys::KeyMapping,
    script::Question,
    url::{Place, RedisUrl},
};

/// The servers of a store.
#[derive(Debug)]
pub(crate) enum Servers {
    One(Connections),
    Cluster(Cluster),
}

/// A subscription, which ends with it.
pub(crate) enum Listening {
    One { _ear: Ear },
    Cluster { _listener: Listener },
}

impl Servers {
    pub(crate) fn new(url: &RedisUrl, guard: Option<Guard>) -> Result<Self, StoreError> {
        let Place::Cluster(seeds) = &url.place else {
            return Connections::new(url, guard).map(Self::One);
        };
        let not_built = |what| Err(StoreError::new(StoreErrorKind::Config, Outcome::NotDone, what));
        // Its marker would be in one slot, and each server has a life of its own.
        if guard.is_some() {
            return not_built("a redis cluster has no restart guard, so it can't be in a quorum");
        }
        if url.acknowledge.level != Acknowledge::None {
            return not_built("a redis cluster has no acknowledged grants: leave replicas= out");
        }
        Cluster::new(url, seeds).map(Self::Cluster)
    }

    /// Who may be granted something, where that is limited.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        match self {
            Self::One(one) => one.guard(),
            Self::Cluster(_) => None,
        }
    }

    /// Gives up all connections, since they lead to the wrong server; the next call makes another.
    pub(crate) fn leave(&self) {
        match self {
            Self::One(one) => one.leave(),
            // A server of a cluster that is no primary any more says so before a script begins.
            Self::Cluster(_) => {}
        }
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// How messages call them.
    pub(crate) fn at(&self) -> &str {
        match self {
            Self::One(one) => one.at(),
            Self::Cluster(cluster) => cluster.at(),
        }
    }

    /// What is known of the server's commands for plain strings; nothing on a cluster, whose servers
    /// may differ.
    pub(crate) fn shortcut(&self) -> Option<&Shortcut> {
        match self {
            Self::One(one) => Some(one.shortcut()),
            Self::Cluster(_) => None,
        }
    }

    /// Refuses calls after the end.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        match self {
            Self::One(one) => one.check_open(),
            Self::Cluster(cluster) => cluster.check_open(),
        }
    }

    /// Gives up all connections; those of calls that still run end with them.
    pub(crate) fn close(&self) {
        match self {
            Self::One(one) => one.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }

    /// Asks one question within its time.
    pub(crate) async fn answer(
        &self,
        question: &mut Question,
        keys: &KeyMapping,
        clock: &Clock,
        by: Moment,
    ) -> Result<Answer, StoreError> {
        match self {
            Self::One(one) => one.answer(question, clock, by).await.map_err(StoreError::from),
            Self::Cluster(cluster) => {
                if let (Some(listener), Route::Slot(slot)) = (question.listener, &question.route) {
                    Box::pin(cluster.attend(keys, listener, *slot, clock, by)).await;
                }
                Box::pin(cluster.answer(question, clock, by)).await
            }
        }
    }

    /// The primaries of a cluster by their lowest slots, as they are now.
    pub(crate) async fn primaries(
        &self,
        clock: &Clock,
        by: Moment,
    ) -> Result<BTreeMap<u16, Address>, StoreError> {
        match self {
            Self::One(_) => Ok(BTreeMap::new()),
            Self::Cluster(cluster) => Box::pin(cluster.primaries(clock, by)).await,
        }
    }

    /// Begins to hear what others say on a channel; on a cluster by the primary of a key, which gets
    /// what is said anywhere, or in its slot.
    pub(crate) async fn hear(
        &self,
        kind: Channels,
        channel: &[u8],
        route: &Route,
        hearer: Arc<dyn Hearer>,
        clock: &Clock,
        by: Moment,
    ) -> Result<Ear, StoreError> {
        match self {
            Self::One(one) => {
                one.hear(kind, channel, hearer, clock, by).await.map_err(StoreError::from)
            }
            Self::Cluster(cluster) => cluster.hear((kind, channel), route, hearer, clock, by).await,
        }
    }

    /// Begins to listen.
    pub(crate) async fn listen(
        &self,
        keys: &KeyMapping,
        hearer: Arc<dyn Hearer>,
        clock: &Clock,
        by: Moment,
    ) -> Result<(ListenerId, Listening), StoreError> {
        match self {
            Self::One(one) => {
                let id = rt::fresh_listener();
                let channel = keys.channel(None, id);
                let ear = one.listen(Channels::Usual, &channel, hearer, clock, by).await?;
                Ok((id, Listening::One { _ear: ear }))
            }
            Self::Cluster(cluster) => {
                let listener = cluster.listen(keys, hearer, clock, by).await?;
                Ok((listener.id, Listening::Cluster { _listener: listener }))
            }
        }
    }
}
