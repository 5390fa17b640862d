//! A store of locks made of several independent ones, of which a majority holds each lock: what is
//! known as Redlock.
//!
//! ```text
//!                        +--> node 1   granted
//!   acquire --> round ---+--> node 2   granted     verdict: a majority of all nodes
//!               (at once)+--> node 3   (silent)    what comes later is not counted
//! ```
//!
//! A lease is held while more than half of *all* nodes hold it, counted from before the first
//! request was sent. Two leases would share a node, and a node grants once: so a minority of nodes
//! may be away, slow or busy, and the lock is still taken, renewed and given back. What a node may
//! not do is forget a lease and grant it anew: `SAFETY.md` says when that does harm.
//!
//! There is no line: each node tells the first who waits there when the lock is free, and grants it
//! to whoever asks.
//!
//! The nodes are [`Store`](fencelock_store::Store)s; this one is a store again.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod ballot;
mod builder;
mod ears;
mod exchange;
mod fence;
mod heal;
mod lease;
mod look;
mod node;
mod notice;
mod open;
mod pace;
mod quorum;
mod release;
mod renew;
mod round;
mod store;
mod sweeper;
mod tally;

pub use self::{builder::QuorumStoreBuilder, store::QuorumStore};
