//! Fencelock and the real other libraries, on the same locks at the same time.
//!
//! ```text
//!   peers.rs    the table: which library, which dialect, what can't be checked
//!   driver.rs   one process that calls such a library; its lines are in peers/PROTOCOL.md
//!   stage.rs    a server, our client, and how each side is asked
//!   checks.rs   what is checked, and checks/ how
//!   report.rs   the table in README.md
//! ```
//!
//! The small matrix is part of the tests (`tests/matrix.rs`); `FENCELOCK_SOAK=1` makes it the whole;
//! `testing/interop/run --write` runs the whole and writes its results into `README.md`.
//!
//! A peer whose tool chain is missing is skipped, and that is said. Where it is present, whatever
//! goes wrong is a failure. Our side is the library as users have it, with the dialect by its name.

pub mod checks;
pub mod driver;
pub mod peers;
pub mod report;
pub mod stage;
