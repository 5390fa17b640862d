//! A cluster: slots that move, and a primary that fails over.

use std::time::Duration;

use fencelock_testkit::{RedisCluster, eventually};

use crate::{
    APART, SHORT, between,
    crew::{self, Work},
    grants, lag,
    ledger::Order,
    world::{Fault, World, run},
};

/// The server that has a replica at the start, and that replica: each takes the other's place.
const PAIR: [usize; 2] = [0, 3];

/// As short as a busy machine lets the servers be taken for alive.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// The bound of what the servers have to agree on.
const AGREED_WITHIN: Duration = Duration::from_secs(120);

fn slots(cluster: &RedisCluster) -> [u16; 2] {
    crew::NAMES.map(|name| cluster.slot(format!("fencelock:{name}").as_bytes()))
}

/// Moves the slot of each lock to the next of some servers.
fn move_on(cluster: &RedisCluster, servers: &[usize]) {
    for slot in slots(cluster) {
        let from = cluster.primary(slot);
        let at = servers.iter().position(|server| *server == from).expect("one of these");
        cluster.move_slot(slot, servers[(at + 1) % servers.len()]);
    }
    cluster.wait_until_agreed();
}

/// A2 is broken: the clocks of the three servers are five seconds apart each, and with every move of
/// its slot a lock is judged by another one. Leans on the record, which goes whole, and on that it is
/// remembered (`retain`, ten minutes, is more than the clocks are apart). On no clock.
#[test]
fn tokens_grow_while_slots_move_between_servers_whose_clocks_differ() {
    let cluster = RedisCluster::builder().clock().start();
    cluster.servers()[1].clock().advance(APART);
    cluster.servers()[2].clock().advance(2 * APART);
    let world = World::new(cluster.url(), Order::RealTime)
        .between(between(25))
        .fault(Fault::new("the slots move", || move_on(&cluster, &[0, 1, 2])));
    run(&world, &Work::new(grants(25)).ttl(SHORT).strict_fifo());
}

/// The one of the pair that is the primary, and the other.
fn pair(cluster: &RedisCluster) -> (usize, usize) {
    let [one, other] = PAIR;
    if is_primary(cluster, one) { (one, other) } else { (other, one) }
}

fn says(cluster: &RedisCluster, server: usize, line: &str) -> bool {
    let answer = cluster.servers()[server].try_cli(&["INFO", "replication"]);
    let info = answer.ok().and_then(|it| redis::from_redis_value::<String>(it).ok());
    info.is_some_and(|info| info.lines().any(|said| said.trim() == line))
}

fn is_primary(cluster: &RedisCluster, server: usize) -> bool {
    says(cluster, server, "role:master")
}

fn await_swapped(cluster: &RedisCluster, old: usize, new: usize) {
    eventually(AGREED_WITHIN, "the old primary follows the new one", || {
        is_primary(cluster, new)
            && says(cluster, old, "role:slave")
            && says(cluster, old, "master_link_status:up")
    });
    cluster.wait_until_agreed();
}

/// A3 is broken: what had not reached the replica is forgotten. Leans on the clock of the promoted
/// replica, which is that of the primary here: it must not be behind by more than the time since the
/// last forgotten grant, which is the node timeout and what the election takes. `CLUSTER FAILOVER`
/// forgets nothing. And on that each grant is asked of the store.
#[test]
fn tokens_grow_over_fail_overs_of_the_primary_of_a_slot() {
    let cluster = RedisCluster::builder().replicas(1).node_timeout(NODE_TIMEOUT).start();
    for slot in slots(&cluster) {
        if cluster.primary(slot) != PAIR[0] {
            cluster.move_slot(slot, PAIR[0]);
        }
    }
    cluster.wait_until_agreed();
    let world = World::new(cluster.url(), Order::RealTime)
        .between(between(25))
        .fault(Fault::new("kill -9 of the primary, ahead of its replica", || {
            let (old, new) = pair(&cluster);
            lag::kill_ahead_of(&cluster.servers()[old], &cluster.servers()[new]);
            eventually(AGREED_WITHIN, "the replica is promoted", || is_primary(&cluster, new));
            cluster.servers()[old].restart();
            await_swapped(&cluster, old, new);
        }))
        .fault(Fault::new("CLUSTER FAILOVER", || {
            let (old, new) = pair(&cluster);
            // Refused while the replica catches up, and given up by itself where it takes too long.
            eventually(AGREED_WITHIN, "the replica takes over", || {
                let _ = cluster.servers()[new].try_cli(&["CLUSTER", "FAILOVER"]);
                is_primary(&cluster, new)
            });
            await_swapped(&cluster, old, new);
        }));
    run(&world, &Work::new(grants(25)).ttl(SHORT).strict_fifo());
}
