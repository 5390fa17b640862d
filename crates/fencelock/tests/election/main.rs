//! Elections: in memory on a clock that the test moves, and on real stores.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod campaign;
mod lead;
mod model;
mod observe;
#[allow(dead_code)] // The rest of it is for `it`.
#[path = "../it/world.rs"]
mod world;

#[cfg(all(feature = "redis", feature = "sqlite", feature = "quorum"))]
mod stores;
