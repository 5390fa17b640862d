//! One server, or a cluster of them: where questions go.

use std::{collections::BTreeMap, sync::Arc};

use fencelock_core::{ListenerId, Moment};
use fencelock_store::{Clock, StoreError, rt};

use crate::{
    cluster::{Address, Cluster, Listener, Route},
    connection::{Answer, Channels, Connections, Ear, Hearer, Shortcut},
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
#[allow(dead_code)] // Kept for their drop.
pub(crate) enum Listening {
    One(Ear),
    Cluster(Listener),
}

impl Servers {
    pub(crate) fn new(url: &RedisUrl) -> Result<Self, StoreError> {
        match &url.place {
            Place::Cluster(seeds) => Cluster::new(url, seeds).map(Self::Cluster),
            _ => Connections::new(url).map(Self::One),
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
                Ok((id, Listening::One(ear)))
            }
            Self::Cluster(cluster) => {
                let listener = cluster.listen(keys, hearer, clock, by).await?;
                Ok((listener.id, Listening::Cluster(listener)))
            }
        }
    }
}
