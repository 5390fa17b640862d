//! The in-memory store keeps the Contract, and the suite has no case that nobody runs.

use std::time::Duration;

use fencelock_store::{
    Clock, ManualClock, MemoryStore, Store as _,
    conformance::{Harness, Timing, differential},
    conformance_suite,
    core::{ForeignKind, Inspection, LockName, StoreNow},
    rt,
};

struct Memory;

impl Harness for Memory {
    type Store = MemoryStore;

    fn timing(&self) -> Timing {
        Timing::MANUAL
    }

    async fn fresh(&self) -> MemoryStore {
        MemoryStore::manual(ManualClock::new())
    }

    async fn another(&self, store: &MemoryStore) -> MemoryStore {
        store.another_client()
    }

    async fn advance(&self, store: &MemoryStore, by: Duration) {
        let Clock::Manual(clock) = store.clock() else { panic!("it is on a manual clock") };
        clock.advance(by);
    }

    async fn time(&self, store: &MemoryStore) -> StoreNow {
        store.store_now()
    }

    async fn plant_foreign(&self, store: &MemoryStore, name: &LockName) -> bool {
        store.with_table(|table| table.plant_foreign(name.clone(), ForeignKind::String));
        true
    }

    async fn read_foreign(&self, store: &MemoryStore, name: &LockName) -> Option<Vec<u8>> {
        let now = store.store_now();
        let request = fencelock_store::core::InspectRequest::new(name.clone());
        match store.with_table(|table| table.inspect(&request, now)) {
            Inspection::Foreign(kind) => Some(kind.to_string().into_bytes()),
            _ => None,
        }
    }
}

conformance_suite!(Memory);

mod on_a_clock_that_runs {
    //! The same with a clock as real servers have it: more time passes than was asked for.

    use super::*;

    struct Running;

    impl Harness for Running {
        type Store = MemoryStore;

        fn timing(&self) -> Timing {
            Timing::running(Duration::from_secs(5), Duration::from_millis(2))
        }

        async fn fresh(&self) -> MemoryStore {
            Memory.fresh().await
        }

        async fn another(&self, store: &MemoryStore) -> MemoryStore {
            Memory.advance(store, Duration::from_micros(700)).await;
            Memory.another(store).await
        }

        async fn advance(&self, store: &MemoryStore, by: Duration) {
            Memory.advance(store, by + Duration::from_millis(3)).await;
        }

        async fn time(&self, store: &MemoryStore) -> StoreNow {
            Memory.time(store).await
        }

        async fn plant_foreign(&self, store: &MemoryStore, name: &LockName) -> bool {
            Memory.plant_foreign(store, name).await
        }

        async fn read_foreign(&self, store: &MemoryStore, name: &LockName) -> Option<Vec<u8>> {
            Memory.read_foreign(store, name).await
        }
    }

    conformance_suite!(Running);
}

#[test]
fn every_case_of_the_suite_is_run() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let listed = std::fs::read_to_string(folder.join("macros.rs")).expect("the list is there");
    let mut groups = 0;
    for entry in std::fs::read_dir(&folder).expect("the suite is there") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        let cases = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        let cases = cases.filter_map(|rest| rest.split('(').next());
        // What is generic over more than a harness is no case.
        let cases: Vec<_> = cases.filter(|case| !case.contains('<')).collect();
        if cases.is_empty() {
            continue;
        }
        groups += 1;
        let group = path.file_stem().and_then(|stem| stem.to_str()).expect("a module");
        let (_, rest) = listed.split_once(&format!(" {group} {{")).expect("the group is listed");
        let (run, _) = rest.split_once('}').expect("the group ends");
        let run: Vec<_> = run.split_whitespace().collect();
        assert_eq!(run, cases, "{group}: the list and the file differ");
    }
    assert!(groups > 15, "the suite was not found");
}

proptest::proptest! {
    // A quarter of the usual number, for each case is a sequence; PROPTEST_CASES raises it.
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: proptest::prelude::ProptestConfig::default().cases.div_ceil(4),
        ..Default::default()
    })]

    #[test]
    fn the_memory_store_answers_as_the_table_where_names_are_held_together(
        operations in differential::operations_together()
    ) {
        let result = rt::block_on(async {
            let store = Memory.fresh().await;
            differential::run(&Memory, &store, &operations).await
        });
        proptest::prop_assert_eq!(result, Ok(operations.len()));
    }

    #[test]
    fn the_memory_store_answers_as_the_table(operations in differential::operations()) {
        let result = rt::block_on(async {
            let store = Memory.fresh().await;
            differential::run(&Memory, &store, &operations).await
        });
        proptest::prop_assert_eq!(result, Ok(operations.len()));
    }
}
