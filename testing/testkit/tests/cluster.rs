//! The cluster of the testkit is one, and its slots move.

use fencelock_testkit::RedisCluster;
use redis::Value;

#[test]
fn three_primaries_are_one_cluster_and_a_slot_moves_with_its_key() {
    let cluster = RedisCluster::builder().clock().start();
    let slot = cluster.slot(b"job");
    let from = cluster.primary(slot);
    let to = (from + 1) % 3;
    cluster.servers()[from].cli(&["SET", "job", "1"]);
    cluster.begin_move(slot, to);
    cluster.migrate_keys(slot, to);
    let said = cluster.servers()[from].try_cli(&["GET", "job"]).expect_err("it has gone");
    assert!(said.code() == Some("ASK"), "{said}");
    cluster.end_move(slot, to);
    assert_eq!(cluster.primary(slot), to);
    assert_eq!(cluster.servers()[to].cli(&["GET", "job"]), Value::BulkString(b"1".to_vec()));
    let said = cluster.servers()[from].try_cli(&["GET", "job"]).expect_err("it is elsewhere");
    assert!(said.code() == Some("MOVED"), "{said}");
}
