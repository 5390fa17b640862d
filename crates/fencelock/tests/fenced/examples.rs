//! The examples, run as tests: a paused holder is refused, by locks on a real Redis and in a file.
//!
//! What is asserted stands in the examples themselves.
#![allow(dead_code)] // Their `main`.
#![allow(clippy::duplicate_mod)] // They share a module.

use fencelock_testkit::RedisServer;

use crate::cluster::Cluster;

#[path = "../../examples/fenced_file.rs"]
mod fenced_file;
#[path = "../../examples/fenced_http.rs"]
mod fenced_http;
#[path = "../../examples/fenced_object.rs"]
mod fenced_object;
#[path = "../../examples/fenced_postgres.rs"]
mod fenced_postgres;
#[path = "../../examples/fenced_redis.rs"]
mod fenced_redis;
#[path = "../../examples/fenced_sql.rs"]
mod fenced_sql;

/// A store in a file of the test's own.
fn file(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("locks.db").display())
}

#[tokio::test]
async fn a_value_in_redis_refuses_a_paused_holder() {
    let server = RedisServer::start();
    fenced_redis::example(&server.url(), &server.url()).await.expect("it runs");
    // And with the locks somewhere else than the value.
    let folder = tempfile::tempdir().expect("a folder");
    fenced_redis::example(&file(&folder), &server.url()).await.expect("it runs");
}

#[tokio::test]
async fn a_row_in_sqlite_refuses_a_paused_holder() {
    let folder = tempfile::tempdir().expect("a folder");
    fenced_sql::example(&file(&folder)).await.expect("it runs");
}

#[tokio::test]
async fn a_transaction_in_postgres_refuses_a_paused_holder() {
    let Some(cluster) = Cluster::start() else { return };
    let server = RedisServer::start();
    fenced_postgres::example(&server.url(), &cluster.url()).await.expect("it runs");
}

#[tokio::test]
async fn a_file_refuses_a_paused_holder() {
    let folder = tempfile::tempdir().expect("a folder");
    fenced_file::example(&file(&folder), folder.path()).await.expect("it runs");
}

#[tokio::test]
async fn an_object_refuses_a_paused_holder() {
    let server = RedisServer::start();
    fenced_object::example(&server.url()).await.expect("it runs");
}

#[tokio::test]
async fn a_service_refuses_a_paused_holder() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().expect("a folder");
    fenced_http::example(&server.url(), folder.path()).await.expect("it runs");
}
