//! Mutual exclusion as an outside witness sees it: the real program on real stores, with many
//! processes, and with processes and servers that are killed and frozen.
//!
//! The witness is a non-blocking flock(2) that the command's group holds, with a log beside it
//! (`fencelock_testkit::witness`). It knows nothing of locks or leases, so no bug of ours can hide
//! in it. `FENCELOCK_SOAK=1` runs the long form, ten minutes for each store of `chaos`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A test has nothing better to do.

mod chaos;
mod cluster;
mod counting;
mod elect;
mod failover;
mod faults;
mod leftovers;
mod outages;
mod random;
mod sharing;
mod succession;
mod support;
