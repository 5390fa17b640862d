//! A quorum keeps the Contract, whatever number of nodes it has.

use std::{cell::RefCell, sync::Arc, time::Duration};

use fencelock_quorum::QuorumStore;
use fencelock_store::{
    Clock, ManualClock, MemoryStore, Store,
    conformance::{Harness, Timing},
    conformance_suite,
    core::{ForeignKind, InspectRequest, Inspection, LockName, StoreNow, Ttl},
};

/// A quorum of so many stores in memory, of which so many must hold a lock.
struct Several {
    count: usize,
    needed: usize,
    /// Of the store that the case was given last.
    nodes: RefCell<Vec<MemoryStore>>,
}

impl Several {
    fn new(count: usize, needed: usize) -> Self {
        Self { count, needed, nodes: RefCell::default() }
    }

    fn quorum(&self, nodes: &[MemoryStore]) -> QuorumStore {
        let nodes = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Store>);
        // The suite has leases of a day.
        let builder = QuorumStore::builder(nodes).max_ttl(Ttl::MAX.into()).quorum(self.needed);
        builder.build().expect("the settings can work")
    }
}

impl Harness for Several {
    type Store = QuorumStore;

    fn timing(&self) -> Timing {
        Timing::MANUAL
    }

    async fn fresh(&self) -> QuorumStore {
        let clock = ManualClock::new();
        let node = |_| MemoryStore::manual(clock.clone());
        *self.nodes.borrow_mut() = (0..self.count).map(node).collect();
        self.quorum(&self.nodes.borrow())
    }

    async fn another(&self, _: &QuorumStore) -> QuorumStore {
        let nodes: Vec<_> = self.nodes.borrow().iter().map(MemoryStore::another_client).collect();
        self.quorum(&nodes)
    }

    async fn advance(&self, store: &QuorumStore, by: Duration) {
        let Clock::Manual(clock) = store.clock() else { panic!("it is on a manual clock") };
        clock.advance(by);
    }

    async fn time(&self, _: &QuorumStore) -> StoreNow {
        self.nodes.borrow()[0].store_now()
    }

    async fn plant_foreign(&self, _: &QuorumStore, name: &LockName) -> bool {
        for node in self.nodes.borrow().iter() {
            node.with_table(|table| table.plant_foreign(name.clone(), ForeignKind::String));
        }
        true
    }

    async fn read_foreign(&self, _: &QuorumStore, name: &LockName) -> Option<Vec<u8>> {
        let mut seen = Vec::new();
        for node in self.nodes.borrow().iter() {
            let now = node.store_now();
            let request = InspectRequest::new(name.clone());
            match node.with_table(|table| table.inspect(&request, now)) {
                Inspection::Foreign(kind) => seen.extend(kind.to_string().into_bytes()),
                _ => return None,
            }
        }
        Some(seen)
    }
}

mod of_three {
    use super::*;

    conformance_suite!(Several::new(3, 2));
}

mod of_five {
    use super::*;

    conformance_suite!(Several::new(5, 3));
}

mod of_an_even_number {
    use super::*;

    conformance_suite!(Several::new(4, 3));
}

mod of_all_of_three {
    use super::*;

    conformance_suite!(Several::new(3, 3));
}

mod of_one {
    use super::*;

    conformance_suite!(Several::new(1, 1));
}
