//! The servers of a cluster, each with connections of its own.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fencelock_store::StoreError;

use super::map::Address;
use crate::{
    connection::Connections,
    error,
    url::{Place, RedisUrl},
};

/// One server.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) address: Address,
    /// Where requests go.
    pub(super) requests: Connections,
    /// Where its messages come from. Not the same connections: when a slot moves, its server says
    /// `sunsubscribe` unasked, which the client library takes for the answer to the request that
    /// was sent first; every answer after that would be somebody else's.
    pub(super) ears: Connections,
}

/// Those that are known, by address.
pub(super) struct Nodes {
    /// The URL of the cluster: its user and password are those of every server.
    url: RedisUrl,
    seeds: Vec<Address>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    nodes: BTreeMap<Address, Arc<Node>>,
    /// None is made any more.
    closed: bool,
}

impl Nodes {
    /// Those that the URL names, to begin with.
    pub(super) fn new(url: &RedisUrl, seeds: &[(String, u16)]) -> Result<Self, StoreError> {
        let seeds = seeds.iter().map(|(host, port)| Address::from(format!("{host}:{port}")));
        let nodes = Self { url: url.clone(), seeds: seeds.collect(), known: Mutex::default() };
        for seed in &nodes.seeds {
            nodes.at(seed)?;
        }
        Ok(nodes)
    }

    /// The server at an address.
    ///
    /// # Errors
    /// It is a new one, and all was closed.
    pub(super) fn at(&self, address: &Address) -> Result<Arc<Node>, StoreError> {
        let mut known = self.known();
        if let Some(node) = known.nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        if known.closed {
            return Err(error::closed(&self.url.to_string()).into());
        }
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
        let place = Place::Tcp(host.to_owned(), port.parse().unwrap_or_default());
        let url = RedisUrl { place, ..self.url.clone() };
        let node = Arc::new(Node {
            address: Arc::clone(address),
            requests: Connections::in_a_cluster(&url)?,
            ears: Connections::in_a_cluster(&url)?,
        });
        known.nodes.insert(Arc::clone(address), Arc::clone(&node));
        Ok(node)
    }

    /// Forgets all but these and those of the URL. Calls under way keep what they use.
    pub(super) fn keep(&self, primaries: &HashSet<Address>) {
        let is_kept =
            |address: &Address| primaries.contains(address) || self.seeds.contains(address);
        let mut known = self.known();
        let (kept, gone) =
            std::mem::take(&mut known.nodes).into_iter().partition(|(address, _)| is_kept(address));
        known.nodes = kept;
        // Their connections end outside of the lock: who listens there is told.
        drop(known);
        drop::<BTreeMap<_, _>>(gone);
    }

    /// Whom to ask for the slots: this one first, then all others.
    pub(super) fn candidates(&self, first: Option<&Address>, turn: u32) -> Vec<Arc<Node>> {
        let mut all: Vec<_> = self.known().nodes.values().map(Arc::clone).collect();
        let turn = usize::try_from(turn).unwrap_or_default() % all.len().max(1);
        all.rotate_left(turn);
        all.sort_by_key(|node| Some(&node.address) != first);
        all
    }

    /// Ends all connections, and makes no others.
    pub(super) fn close(&self) {
        let nodes: Vec<_> = {
            let mut known = self.known();
            known.closed = true;
            known.nodes.values().map(Arc::clone).collect()
        };
        // Outside of the lock: who listens there is told.
        for node in nodes {
            node.requests.close();
            node.ears.close();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing under this lock can panic half way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.known().nodes.keys()).finish()
    }
}
