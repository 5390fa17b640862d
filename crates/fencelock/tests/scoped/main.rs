//! Every way to hold a lock while something is done, by the same scenarios: `run`, `run_stream`,
//! guards, and all of it for threads; in memory, in a file, on a Redis server of each test's own.
#![cfg(all(feature = "blocking", feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod drops;
mod every_kind;
mod examples;
mod forms;
mod kinds;
mod primitives;
mod scenarios;
mod threads;
