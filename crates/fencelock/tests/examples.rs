//! The examples of what goes beside locks, run as tests: on a real Redis, in a file, in memory.
//!
//! What is shown stands in the examples themselves. One of them installs a recorder and one a
//! subscriber, for this whole process.
#![cfg(all(
    target_os = "linux",
    feature = "metrics",
    feature = "redis",
    feature = "sqlite",
    feature = "tower",
    feature = "tracing"
))]
#![allow(dead_code)] // Their `main`.
#![allow(clippy::duplicate_mod)] // They share a module.
#![allow(clippy::expect_used)] // A test has nothing better to do.

use fencelock_testkit::RedisServer;

#[path = "../examples/axum.rs"]
mod axum_example;
#[path = "../examples/cron.rs"]
mod cron_example;
#[path = "../examples/metrics.rs"]
mod metrics_example;
#[path = "../examples/otel.rs"]
mod otel_example;
#[path = "../examples/tower.rs"]
mod tower_example;

#[tokio::test]
async fn axum_answers_under_locks() {
    let server = RedisServer::start();
    axum_example::example(&server.url()).await.expect("it is as it shows");
}

#[tokio::test]
async fn tower_does_one_request_after_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("locks.db").display());
    tower_example::example(&store).await.expect("it is as it shows");
    let server = RedisServer::start();
    tower_example::example(&server.url()).await.expect("it is as it shows");
}

#[tokio::test]
async fn cron_does_a_job_once_in_a_night() {
    cron_example::example().await.expect("it is as it shows");
}

#[tokio::test]
async fn a_scrape_says_what_locks_do() {
    metrics_example::example("memory:").await.expect("it is as it shows");
}

#[tokio::test]
async fn a_trace_has_the_locks_of_a_request() {
    let server = RedisServer::start();
    otel_example::example(&server.url()).await.expect("it is as it shows");
}
