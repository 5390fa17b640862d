//! What is measured and traced, as a recorder and a subscriber see it that collect all of it.
//!
//! Recorder, subscriber and logger are those of the process: each test has a class and lock names
//! of its own.
#![cfg(all(
    target_os = "linux",
    feature = "metrics",
    feature = "redis",
    feature = "sqlite",
    feature = "tracing"
))]
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test has nothing better to do.

mod collected;
mod documented;
mod measured;
mod scrape;
mod secrets;
mod spans;
#[allow(dead_code)] // It does more than is needed here.
#[path = "../it/warped.rs"]
mod warped;
#[allow(dead_code)]
#[path = "../it/world.rs"]
mod world;
