//! A replicated service starts, fails over, and takes its old primary back.

use fencelock_testkit::{Replicated, eventually};
use std::time::Duration;

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let service = Replicated::start(2);
    let old = service.primary().port();
    service.primary().cli(&["SET", "k", "v"]);
    service.primary().cli(&["WAIT", "2", "5000"]);
    service.primary().kill();
    service.await_failover_from(old);
    let new = service.primary();
    assert_ne!(new.port(), old);
    let value: String = redis::from_redis_value(new.cli(&["GET", "k"])).expect("a string");
    assert_eq!(value, "v");
    let old = service.servers().iter().find(|server| server.port() == old).expect("it is ours");
    old.restart();
    service.settle();
    assert_eq!(service.replicas().len(), 2);
}

#[test]
fn a_frozen_primary_is_replaced_and_made_a_replica_when_it_thaws() {
    let service = Replicated::start(1);
    let old = service.primary();
    old.stop_signal();
    service.await_failover_from(old.port());
    old.cont();
    eventually(Duration::from_secs(20), "the old primary becomes a replica", || {
        // The sentinels also close the connections to it.
        format!("{:?}", old.try_cli(&["ROLE"])).contains("slave")
    });
}
