//! The client on a quorum: in memory on a clock that the test moves, and on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod contention;
mod settings;
mod timing;
mod told;

#[cfg(feature = "redis")]
mod redisson;
#[cfg(feature = "redis")]
mod servers;
