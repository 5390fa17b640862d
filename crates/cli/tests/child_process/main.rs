//! The process machinery of `run`, on real processes.
//!
//! Each test starts the example `child_driver`, which runs a command exactly as `run` does but with a
//! lease that is only numbers, and looks at what the system then shows. Nothing sleeps to be right:
//! every wait is a bounded poll for a condition.
#![cfg(target_os = "linux")]
// A test may unwrap: a panic is how it fails.
#![allow(clippy::unwrap_used)]

mod endings;
mod failures;
mod hygiene;
mod signals;
mod stops;
mod support;
mod terminal;
