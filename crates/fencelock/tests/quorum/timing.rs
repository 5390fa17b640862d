//! From when validity counts, and what happens to grants that come too late and to futures that are
//! dropped.

use std::{sync::Arc, time::Duration};

use fencelock::{
    Attempt, Client, ErrorKind, LossReason, ManualClock, MemoryStore, Store,
    store::{
        Fault, FaultyStore, Verb,
        core::{InspectRequest, Inspection, LockName},
    },
};
use fencelock_quorum::QuorumStore;

const TTL: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(20);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

struct World {
    clock: ManualClock,
    memory: Vec<MemoryStore>,
    nodes: Vec<FaultyStore<MemoryStore>>,
    client: Client,
}

impl World {
    fn new(count: usize, node_timeout: Duration) -> Self {
        let clock = ManualClock::new();
        let memory: Vec<_> = (0..count).map(|_| MemoryStore::manual(clock.clone())).collect();
        let nodes: Vec<_> = memory.iter().cloned().map(FaultyStore::new).collect();
        let stores = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Store>);
        let store = QuorumStore::builder(stores).node_timeout(node_timeout).build().unwrap();
        Self { clock, memory, nodes, client: Client::with_store(Arc::new(store)) }
    }

    fn is_free(&self, node: usize) -> bool {
        let now = self.memory[node].store_now();
        let request = InspectRequest::new(LockName::new("job").unwrap());
        let seen = self.memory[node].with_table(|table| table.inspect(&request, now));
        matches!(seen, Inspection::Free { .. })
    }

    /// Waits, while threads act and short pauses pass, until all nodes are free.
    async fn until_free(&self) {
        let end = std::time::Instant::now() + PATIENCE;
        while !(0..self.nodes.len()).all(|node| self.is_free(node)) {
            assert!(std::time::Instant::now() < end, "all nodes are free in time");
            self.clock.advance(millis(1));
            tokio::time::sleep(millis(1)).await;
        }
    }
}

#[tokio::test]
async fn validity_counts_from_before_the_first_request_however_late_the_majority_is() {
    let world = World::new(3, millis(250));
    world.nodes[1].plan(Verb::Acquire, Fault::HoldReply);
    world.nodes[2].plan(Verb::Acquire, Fault::HoldReply);
    let mutex = world.client.mutex("job").ttl(TTL);
    let (attempt, ()) = tokio::join!(mutex.try_lock(), async {
        world.clock.advance(millis(40));
        world.nodes[1].let_go();
    });
    let guard = attempt.unwrap().granted().expect("two of three");
    let left = guard.validity_left();
    // 0.99 ttl - 2 ms, less the 40 ms.
    let expected = TTL.mul_f64(1.0 / 1.01) - millis(2) - millis(40);
    assert!(left <= expected && left + millis(1) > expected, "{left:?} of {expected:?}");
}

#[tokio::test]
async fn a_grant_that_comes_too_late_is_released_everywhere() {
    let world = World::new(3, millis(900));
    world.nodes[1].plan(Verb::Acquire, Fault::HoldReply);
    world.nodes[2].plan(Verb::Acquire, Fault::HoldReply);
    let mutex = world.client.mutex("job").ttl(millis(500));
    // Granted 20 ms before the lease ends, which is less than is worth having.
    let (attempt, ()) = tokio::join!(mutex.try_lock(), async {
        world.clock.advance(millis(480));
        world.nodes[1].let_go();
        world.nodes[2].let_go();
    });
    assert_eq!(attempt.unwrap_err().kind(), ErrorKind::TooLate);
    let now = world.clock.now();
    world.until_free().await;
    assert!(world.clock.now().saturating_since(now) < millis(20), "not by the end of the lease");
}

#[tokio::test]
async fn a_try_that_is_dropped_while_nodes_are_silent_leaves_nothing() {
    let world = World::new(5, millis(250));
    for node in &world.nodes[2..] {
        node.plan(Verb::Acquire, Fault::HoldReply);
    }
    {
        let mutex = world.client.mutex("job").ttl(TTL);
        let mut attempt = Box::pin(mutex.try_lock());
        tokio::select! {
            biased;
            _ = &mut attempt => panic!("a majority says nothing"),
            () = std::future::ready(()) => {}
        }
        // Before the drop: right after it the keeper gives back.
        assert!(!world.is_free(2), "the request was carried out");
    }
    world.until_free().await;
}

/// The holder knows at once, though some nodes still have its lease.
#[tokio::test]
async fn a_lease_that_a_majority_forgot_is_lost_at_the_next_renewal() {
    let world = World::new(3, millis(250));
    let mutex = world.client.mutex("job").ttl(TTL);
    let Attempt::Granted(guard) = mutex.try_lock().await.unwrap() else { panic!("it is free") };
    let name = LockName::new("job").unwrap();
    for memory in &world.memory[..2] {
        memory.with_table(|table| table.delete(&name));
    }
    let lost = guard.lost();
    tokio::pin!(lost);
    let end = std::time::Instant::now() + PATIENCE;
    let reason = loop {
        tokio::select! {
            reason = &mut lost => break reason,
            () = tokio::time::sleep(millis(1)) => world.clock.advance(millis(20)),
        }
        assert!(std::time::Instant::now() < end, "the loss is told in time");
    };
    assert_eq!(reason, LossReason::Disappeared);
    assert!(!guard.is_valid());
    world.until_free().await;
}
