//! RedLock as Redisson has it: an RLock on each of several servers. The others are raw commands here.

use std::time::Duration;

use fencelock::{Attempt, Client, Released};
use fencelock_testkit::RedisServer;

fn client(servers: &[RedisServer]) -> Client {
    let urls = servers.iter().map(RedisServer::url);
    Client::quorum_builder(urls).dialect("redisson").build().unwrap()
}

/// What `RLock.lock` of Redisson leaves.
fn they_hold(server: &RedisServer) {
    server.cli(&["HSET", "n", "852f3e2f-104b-4219-9d90-e04a2b71bdeb:1", "1"]);
    server.cli(&["PEXPIRE", "n", "60000"]);
}

fn is_there(server: &RedisServer) -> bool {
    server.cli(&["EXISTS", "n"]) == redis::Value::Int(1)
}

#[tokio::test]
async fn a_lock_on_a_majority_of_servers_excludes_theirs_and_ours() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let (ours, other) = (client(&servers), client(&servers));
    let lock = |client: &Client| client.mutex("n").ttl(Duration::from_secs(50));
    let guard = lock(&ours).lock().await.unwrap();
    assert!(servers.iter().filter(|server| is_there(server)).count() >= 2);
    assert!(matches!(lock(&other).try_lock().await.unwrap(), Attempt::Busy(_)));
    guard.renew(Duration::from_secs(60)).await.unwrap();
    assert_eq!(guard.release().await, Released::Held);

    // Two of three are theirs; what we had of the third is given back.
    servers[..2].iter().for_each(they_hold);
    assert!(matches!(lock(&ours).try_lock().await.unwrap(), Attempt::Busy(_)));
    servers[0].cli(&["DEL", "n"]);
    let guard = lock(&ours).wait(Duration::from_secs(30)).lock().await.unwrap();
    assert!(is_there(&servers[1]), "theirs is left alone");
    assert_eq!(guard.release().await, Released::Held);

    servers[2].kill();
    servers[1].cli(&["DEL", "n"]);
    let guard = lock(&ours).wait(Duration::from_secs(30)).lock().await.unwrap();
    assert!(guard.is_valid());
    assert_eq!(guard.release().await, Released::Held);
}
