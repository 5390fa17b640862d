//! Examples, run as tests: on a real Redis, in a file, in memory. Those of readers, permits, streams and
//! threads run beside their own tests.
//!
//! What is shown stands in the examples themselves. One of them installs a recorder and one a
//! subscriber, for this whole process.
#![cfg(all(
    target_os = "linux",
    feature = "metrics",
    feature = "quorum",
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
#[path = "../examples/election.rs"]
mod election_example;
#[path = "../examples/guard.rs"]
mod guard_example;
#[path = "../examples/metrics.rs"]
mod metrics_example;
#[path = "../examples/otel.rs"]
mod otel_example;
#[path = "../examples/quorum.rs"]
mod quorum_example;
#[path = "../examples/scoped.rs"]
mod scoped_example;
#[path = "../examples/tower.rs"]
mod tower_example;

#[tokio::test]
async fn the_first_examples_do_what_they_say() {
    let server = RedisServer::start();
    guard_example::example(&server.url()).await.expect("it is as it shows");
    scoped_example::example(&server.url()).await.expect("it is as it shows");
    let address = "10.0.0.7:8080".to_owned();
    election_example::example(&server.url(), address).await.expect("it is as it shows");
    quorum_example::example(&vec!["memory:".to_owned(); 5]).await.expect("it is as it shows");
}

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
