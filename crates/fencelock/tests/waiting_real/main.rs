//! Waiting as it is seen from outside: real servers, a real file, and real processes that are
//! killed and frozen.
//!
//! The processes are this very test binary: see `driver`. Times are of the machine's monotonic
//! clock, which all processes share. What a quiet machine does in milliseconds is printed (`--
//! --nocapture`); what is asserted holds on a starved one too. `FENCELOCK_SOAK=1` runs the long
//! form of the chaos.
#![cfg(all(target_os = "linux", feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

mod chaos;
mod child;
mod crowd;
mod driver;
mod embedded;
mod ends;
mod late;
mod order;
mod outages;
mod pace;
mod place;
mod rights;
