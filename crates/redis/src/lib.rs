//! Redis and Valkey as a Fencelock store.
//!
//! ```text
//!   RedisStore --verb--> native/ or plain/ --script + keys--> connection --> server
//!                              ^                                  |
//!                              +------ reply, or one StoreError --+
//! ```
//!
//! The rules of locks are in the scripts (`scripts/`), which say in Lua what
//! [`LockTable`](fencelock_core::LockTable) says in Rust; tests compare the two. This crate holds
//! no lock state and starts no thread; it never changes a value that it can't read.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acknowledge;
mod cluster;
mod connection;
mod dialect;
mod error;
mod guard;
mod hearing;
mod keys;
mod lettered;
mod looks;
mod native;
mod notice;
mod plain;
mod plug;
mod redisson;
mod reply;
mod rights;
mod scan;
mod script;
mod servers;
mod shape;
mod store;
mod symfony;
mod tls;
mod url;
mod wire;

pub use self::{
    acknowledge::Acknowledge,
    dialect::{Dialect, UnknownDialect},
    native::{IfUsed, Initialised},
    store::{RedisStore, RedisStoreBuilder},
    url::RedisUrl,
};
