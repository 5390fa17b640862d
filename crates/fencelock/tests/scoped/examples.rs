//! The examples, run as tests. What is asserted stands in the examples themselves.
#![allow(dead_code)] // Their `main`.

use fencelock_testkit::RedisServer;

#[path = "../../examples/blocking.rs"]
mod blocking;
#[path = "../../examples/stream.rs"]
mod stream;

#[test]
fn threads_share_out_work() {
    blocking::example("memory:").expect("it runs");
    blocking::example(&RedisServer::start().url()).expect("it runs");
}

#[tokio::test]
async fn two_sources_are_read_under_one_lock() {
    stream::example("memory:").await.expect("it runs");
    stream::example(&RedisServer::start().url()).await.expect("it runs");
}
