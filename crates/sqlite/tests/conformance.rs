//! The conformance suite on files.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use fencelock_core::{LockName, StoreNow};
use fencelock_sqlite::SqliteStore;
use fencelock_store::{
    Clock, ManualClock, Store as _,
    conformance::{Harness, Timing},
    conformance_suite,
};

struct Files {
    folder: tempfile::TempDir,
    clock: ManualClock,
    made: std::cell::Cell<u32>,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: ManualClock::new(),
            made: std::cell::Cell::new(0),
        }
    }
}

impl Harness for Files {
    type Store = SqliteStore;

    fn timing(&self) -> Timing {
        Timing::MANUAL
    }

    async fn fresh(&self) -> SqliteStore {
        self.made.set(self.made.get() + 1);
        let path = self.folder.path().join(format!("{}.db", self.made.get()));
        common::manual(&path, &self.clock)
    }

    async fn another(&self, store: &SqliteStore) -> SqliteStore {
        common::manual(store.path(), &self.clock)
    }

    async fn advance(&self, store: &SqliteStore, by: Duration) {
        assert!(matches!(store.clock(), Clock::Manual(_)));
        self.clock.advance(by);
    }

    async fn time(&self, store: &SqliteStore) -> StoreNow {
        store.store_now()
    }

    /// A held turnstile: a record of a kind that this store does not keep.
    async fn plant_foreign(&self, store: &SqliteStore, name: &LockName) -> bool {
        let _ = store.connect(fencelock_core::Moment::NEVER).await.unwrap();
        let forever = i64::MAX;
        common::bare(store.path())
            .execute(
                "INSERT OR REPLACE INTO lock VALUES (?1, 'turnstile', 1, zeroblob(16), NULL, 0, \
                 ?2, ?2, zeroblob(16), 0, ?2, x'', NULL, NULL, ?2, NULL, NULL, 0, 0, 0, NULL)",
                rusqlite::params![name.as_bytes(), forever],
            )
            .unwrap();
        true
    }

    async fn read_foreign(&self, store: &SqliteStore, name: &LockName) -> Option<Vec<u8>> {
        let sql = common::bare(store.path());
        let mut select = sql
            .prepare(
                "SELECT concat_ws('|', kind, held, hex(token), fencing_token, fence_by_token, \
                 end_us, wall_end_us, hex(boot_id), time_namespace, forget_at_us, hex(metadata), \
                 hex(processes), pid_namespace, first_fence, listener, revoked, unattended, \
                 waiting) FROM lock WHERE name = ?1",
            )
            .unwrap();
        let mut rows = select.query([name.as_bytes()]).unwrap();
        rows.next().unwrap().map(|row| row.get::<_, String>(0).unwrap().into_bytes())
    }
}

conformance_suite!(Files::new());
