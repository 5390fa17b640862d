//! Resources that check fencing tokens: each recipe against the real thing, and the examples, in
//! which a second holder takes the lock from a paused one and the paused one is refused.
#![cfg(all(target_os = "linux", feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

mod cluster;
mod examples;
mod file;
mod postgres;
mod readers;
mod redis;
mod sqlite;

use fencelock::FencingToken;

pub(crate) fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("a fencing token")
}
