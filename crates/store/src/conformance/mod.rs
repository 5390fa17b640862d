//! The conformance suite: what every store must do, and the only description of it that counts.
//!
//! A store crate implements [`Harness`] and calls [`conformance_suite!`](crate::conformance_suite)
//! in a test; each case becomes a test of its own. Cases never wait: time moves only through
//! [`Harness::advance`]. A case that needs a capability which the store does not have checks that
//! the store says so (rule 10 of the [Contract](crate::Store#contract)); none is passed over.
//!
//! ```text
//! struct Mine;
//!
//! impl Harness for Mine {
//!     type Store = MyStore;
//!     fn timing(&self) -> Timing { Timing::MANUAL }
//!     async fn fresh(&self) -> MyStore { .. }
//!     async fn another(&self, store: &MyStore) -> MyStore { .. }
//!     async fn advance(&self, store: &MyStore, by: Duration) { .. }
//!     async fn time(&self, store: &MyStore) -> StoreNow { .. }
//!     async fn plant_foreign(&self, store: &MyStore, name: &LockName) -> bool { .. }
//!     async fn read_foreign(&self, store: &MyStore, name: &LockName) -> Option<Vec<u8>> { .. }
//! }
//!
//! fencelock_store::conformance_suite!(Mine);
//! ```

// The name of a case is the sentence that it proves.
#![allow(missing_docs)]

use std::time::Duration;

use fencelock_core::{LockName, StoreNow};

use crate::Store;

pub mod acquire;
pub mod bounds;
pub mod differential;
pub mod exchange;
pub mod fence;
pub mod force;
pub mod foreign;
pub mod heal;
pub mod inspect;
pub mod limits;
pub mod line;
pub mod list;
mod macros;
pub mod ranges;
pub mod release;
pub mod renew;
pub mod repeat;
pub mod revoke;
pub mod runtimes;
pub mod sets;
pub mod sets_wait;
pub mod shorten;
mod support;
pub mod time;
pub mod together;
pub mod wakeups;

/// How the suite gets at a kind of store.
///
/// The futures need not be `Send`: each case runs on a runtime of one thread.
pub trait Harness {
    /// The kind of store.
    type Store: Store;

    /// How exactly time can be told.
    fn timing(&self) -> Timing;

    /// An empty store that no other case uses, with a client for it.
    fn fresh(&self) -> impl Future<Output = Self::Store>;

    /// Another client of the same locks: a second connection, a second process' view of the file.
    fn another(&self, store: &Self::Store) -> impl Future<Output = Self::Store>;

    /// Moves the store's time, both the clock of leases and the wall clock. Only this may wait.
    fn advance(&self, store: &Self::Store, by: Duration) -> impl Future<Output = ()>;

    /// What the store's clocks show now. The difference between the two must not change while a
    /// test runs: the [differential] test takes it from here, and the time of leases
    /// from the replies.
    fn time(&self, store: &Self::Store) -> impl Future<Output = StoreNow>;

    /// Puts something that is not a record where the record of a name would be; `false` when
    /// nothing but records can be there.
    fn plant_foreign(&self, store: &Self::Store, name: &LockName) -> impl Future<Output = bool>;

    /// What is where the record of a name would be, as bytes that differ when it does, its
    /// remaining life included; nothing when nothing is there.
    fn read_foreign(
        &self,
        store: &Self::Store,
        name: &LockName,
    ) -> impl Future<Output = Option<Vec<u8>>>;
}

/// How exactly time can be told in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How much time may pass unasked during a case: zero on a clock that stands still.
    pub slack: Duration,
    /// How much longer than its ttl a lease may last, because the store counts coarsely.
    pub grain: Duration,
}

impl Timing {
    /// Time moves only when the harness says so, and leases end to the microsecond.
    pub const MANUAL: Self = Self { slack: Duration::ZERO, grain: Duration::ZERO };

    /// A real clock under a shim: time goes on by itself, though no case takes as long as `slack`.
    /// Key expiry in whole milliseconds makes a `grain` of 2 ms.
    #[must_use]
    pub const fn running(slack: Duration, grain: Duration) -> Self {
        Self { slack, grain }
    }

    /// So long before the end of a lease it surely runs still: the least step of a clock that
    /// stands still, so that boundary instants are tested where they can be.
    #[must_use]
    pub fn before_end(self) -> Duration {
        self.slack.max(Duration::from_micros(1))
    }

    /// Whether a remaining time is what was expected.
    #[must_use]
    pub fn agrees(self, remaining: Duration, expected: Duration) -> bool {
        remaining <= expected + self.grain && remaining + self.slack >= expected
    }
}
