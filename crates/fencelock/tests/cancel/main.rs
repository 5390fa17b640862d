//! Kind CANCEL on real stores: a Redis server of the test's own, a file, and memory. Every future is
//! dropped after every number of polls; runtimes end, work panics, futures are dropped outside.
//!
//! The bounds are generous, and far below what must not have been waited for: the ttl of a minute and
//! the heart-beat of ten seconds.
#![cfg(all(feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod crossing;
mod drops;
mod lines;
mod runtimes;
mod stores;
mod stress;
