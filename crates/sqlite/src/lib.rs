//! One file shared by the processes of one machine, as a Fencelock [`Store`].
//!
//! [`SqliteStore`] keeps one row for each lock name. Every verb is one transaction: it loads the
//! records of its names, hands them to [`Rules`](fencelock_core::Rules), and writes back what
//! changed. No rule of locking is decided here; this crate adds what the rules must not know:
//! the file, the clocks, the boot and the processes of the machine.
//!
//! It relies on POSIX locks and shared memory that work, hence the list of file systems in
//! `path`. It must not be used by two machines at once.
//!
//! [`Store`]: fencelock_store::Store
#![forbid(unsafe_code)]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod checkpoint;
mod connection;
mod ear;
mod failure;
mod line;
mod list;
mod mail;
mod message;
mod mode;
mod path;
mod pause;
mod place;
pub mod process;
mod row;
mod schema;
mod share;
mod store;
mod surroundings;
mod sweep;
mod transaction;
mod turns;
mod verbs;
mod wake_folder;

pub use self::{
    builder::{Builder, Durability},
    store::SqliteStore,
    surroundings::Surroundings,
};
