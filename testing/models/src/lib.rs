//! Models of the protocol, checked state by state.
//!
//! A model has clients, a network and a clock of its own, all as small as they can be; the store in
//! it is the real one, [`LockTable`](fencelock_core::LockTable) or its
//! [`Rules`](fencelock_core::Rules), and how long a client thinks that
//! it may act is the real [`Drift`](fencelock_core::Drift). So what is checked is the protocol as it
//! is written in Rust, not a copy of it. Each model has planted faults, which the checker must find:
//! else it would find nothing at all.

pub mod crowd;
pub mod fence;
mod nobody;
pub mod queue;
pub mod quorum;
