//! From nodes to a store: settings, checked once.

use std::{sync::Arc, time::Duration};

use fencelock_core::{Drift, Ttl};
use fencelock_store::{Clock, Outcome, Store, StoreError, StoreErrorKind};

use crate::{QuorumStore, notice, quorum::Quorum};

/// The settings of a [`QuorumStore`].
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build`"]
pub struct QuorumStoreBuilder {
    nodes: Vec<Arc<dyn Store>>,
    quorum: Option<usize>,
    node_timeout: Duration,
    max_ttl: Duration,
    quarantine: Option<Duration>,
    drift: Drift,
}

impl QuorumStoreBuilder {
    /// How long one node may take: a quarter of the second that a whole call has, so that a node
    /// that is silent leaves time for a second round, and several times a round trip across an
    /// ocean.
    pub const NODE_TIMEOUT: Duration = Duration::from_millis(250);
    /// The longest ttl. A node that forgot its leases must stay out for as long as the longest of
    /// them, so it is short.
    pub const MAX_TTL: Duration = Duration::from_secs(60);
    /// The most nodes: beyond it each more costs a request of every call and survives nothing new.
    pub const MAX_NODES: usize = 15;

    pub(crate) fn new(nodes: Vec<Arc<dyn Store>>) -> Self {
        Self {
            nodes,
            quorum: None,
            node_timeout: Self::NODE_TIMEOUT,
            max_ttl: Self::MAX_TTL,
            quarantine: None,
            drift: Drift::DEFAULT,
        }
    }

    /// How many nodes must hold a lock; a majority of all unless said otherwise, and never fewer.
    /// More than that survives fewer nodes that are away, and more that forget.
    pub fn quorum(self, quorum: usize) -> Self {
        Self { quorum: Some(quorum), ..self }
    }

    /// How long one node may take for one request.
    pub fn node_timeout(self, node_timeout: Duration) -> Self {
        Self { node_timeout, ..self }
    }

    /// The longest ttl of a lock.
    pub fn max_ttl(self, max_ttl: Duration) -> Self {
        Self { max_ttl, ..self }
    }

    /// The allowance between the clocks of this machine and of the nodes, for the quarantine.
    pub fn drift(self, drift: Drift) -> Self {
        Self { drift, ..self }
    }

    /// How long a node that was restarted is granted nothing new on, counted from when this client
    /// saw it: a second more than `max_ttl` unless said otherwise, or the drift of it if that is
    /// more; never less than `max_ttl`. Zero, for nodes that keep every
    /// lease across a restart (on Redis: `appendfsync always`).
    pub fn quarantine(self, quarantine: Duration) -> Self {
        Self { quarantine: Some(quarantine), ..self }
    }

    /// Builds the store. Nothing is sent. That two nodes survive the loss of none is said once, as a
    /// warning of `tracing`.
    ///
    /// # Errors
    /// `Config` for no nodes, too many, or the same one twice; for a quorum that is no majority or
    /// more than all; for a limit that can't be kept; and for nodes whose clocks are of different
    /// kinds or whose wire formats differ.
    pub fn build(self) -> Result<QuorumStore, StoreError> {
        let count = self.nodes.len();
        let Some(first) = self.nodes.first() else {
            return Err(config("a quorum needs at least one node"));
        };
        if count > Self::MAX_NODES {
            return Err(config(format!(
                "a quorum has at most {} nodes, not {count}; three or five are usual",
                Self::MAX_NODES
            )));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let address = node.to_string();
            // Stores in memory look the same and are not, also inside another one.
            let is_memory = address.trim_end_matches(')').ends_with("memory:");
            let same = |other: &Arc<dyn Store>| {
                Arc::ptr_eq(other, node) || (!is_memory && other.to_string() == address)
            };
            if self.nodes[..index].iter().any(same) {
                return Err(config(format!(
                    "the node {node} is named twice: two votes of one server are no majority"
                )));
            }
            if kind(&node.clock()) != kind(&first.clock()) {
                return Err(config(format!(
                    "the nodes {first} and {node} count leases on clocks of different kinds: name \
                     servers only, or one store"
                )));
            }
            if node.capabilities().dialect != first.capabilities().dialect {
                return Err(config(format!("the nodes {first} and {node} have different formats")));
            }
        }
        let majority = count / 2 + 1;
        let quorum = self.quorum.unwrap_or(majority);
        if quorum < majority || quorum > count {
            return Err(config(format!(
                "a quorum of {count} nodes is between {majority} and {count}, not {quorum}: fewer \
                 than a majority could be two at the same time"
            )));
        }
        if self.node_timeout < Duration::from_millis(1) {
            return Err(config("a node needs at least 1ms to answer"));
        }
        let max_ttl = Ttl::new(self.max_ttl)
            .map_err(|error| config(format!("max_ttl can't be {:?}: {error}", self.max_ttl)))?;
        let quarantine = self.quarantine.unwrap_or_else(|| quarantine(self.max_ttl, self.drift));
        if !quarantine.is_zero() && quarantine < self.max_ttl {
            return Err(config(format!(
                "a quarantine of {quarantine:?} ends before the leases of {:?} that a node may have \
                 forgotten; make it longer than max_ttl, or zero where nothing is forgotten",
                self.max_ttl
            )));
        }
        let chosen = self.quorum.is_some();
        let quorum = Quorum::new(self.nodes, quorum, self.node_timeout, max_ttl, quarantine);
        // Whoever says how many must hold a lock knows what that survives.
        if count == 2 && !chosen {
            notice::no_spare(&quorum);
        }
        Ok(QuorumStore::assemble(quorum))
    }
}

/// When this has passed here, a lease of so long is over at a node.
fn quarantine(max_ttl: Duration, drift: Drift) -> Duration {
    drift.longest(max_ttl).max(max_ttl.saturating_add(Duration::from_secs(1)))
}

/// Clocks of one kind go on and stand still together.
fn kind(clock: &Clock) -> u8 {
    match clock {
        Clock::Boottime => 0,
        Clock::Monotonic => 1,
        _ => 2,
    }
}

fn config(message: impl Into<std::borrow::Cow<'static, str>>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_lease_is_kept_out_for_as_long_as_the_clocks_may_differ() {
        let of = |seconds, ppm| {
            quarantine(Duration::from_secs(seconds), Drift::DEFAULT.rate_ppm(ppm)).as_secs()
        };
        assert_eq!(of(60, 10_000), 61);
        assert_eq!(of(3_600, 10_000), 3_636);
        assert_eq!(of(60, 83_000), 64);
    }
}
