//! The program as its users see it: real processes, real stores, each test with a home of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A test has nothing better to do.

mod cluster;
mod elect;
mod embedded;
mod environment;
mod exit_codes;
mod help;
mod holding;
mod init;
mod json;
mod loss;
mod passwords;
mod quorum;
mod redis;
mod revoke;
mod rights;
mod settings;
mod sharing;
mod sharing_shown;
mod support;
mod tls;
mod tokens;
mod usage;
mod waiting;
