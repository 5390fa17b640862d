//! The same locks for threads: no runtime of the user's is needed, and none is used.
//!
//! ```text
//!   your thread      polls its own call, and sleeps in between ---+
//!   fencelock-blocking   one thread: sockets and timers of all calls -- wakes it
//!   fencelock-keeper     renewals, losses, releases of dropped guards (as ever)
//! ```
//! Types have the names and the verbs of their async siblings. A call is polled in the thread that
//! makes it, by [`Driver`](fencelock_store::rt::Driver), so it may be made inside a task of another
//! runtime, whose thread it then blocks. Nothing but the `wait` of a recipe ends a call that waits for
//! a lock.
//!
//! **How to add a type.** Each is made by `blocking!` (`wrap.rs`) from a list of what its async
//! sibling has: say the struct, then its functions under `settings` (`fn ttl(self, ..) -> Self`),
//! `gets` (what asks nobody), `calls` (the same without an answer), `waits` (`async fn(&self)`),
//! `within` (the same with a limit: `fn lost_within of lost -> ..`), `grants` and `tries` (those that end in a guard, which is a type made the same way) and `ends`
//! (`async fn(self)`). The docs refer to the sibling's. What all recipes, guards and views have
//! is in `common.rs`, and a guard that work is done under says so by `scope!` (`scope.rs`). An answer
//! of a new type needs a line in `in_child.rs`.

mod across;
mod client;
mod common;
mod composite;
mod election;
mod guard;
mod in_child;
mod iter;
mod meet;
mod mutex;
mod reentrant;
mod rwlock;
mod scope;
mod semaphore;
mod wrap;

#[cfg(feature = "quorum")]
pub use self::client::connect_quorum;
pub use self::{
    across::{AcrossGuard, AcrossHeld, AcrossSlots},
    client::{Client, Danger, connect},
    composite::{Composite, CompositeGuard, CompositeHeld},
    election::{Election, Leadership, Leading, Observation},
    guard::{Guard, Held, Queued, TokenLease},
    meet::{Barrier, Latch},
    mutex::Mutex,
    reentrant::{Reentrant, ReentrantGuard},
    rwlock::{ReadGuard, ReadHeld, RwLock, WriteGuard},
    semaphore::{Permit, PermitHeld, Semaphore},
};

/// The answer of one try.
pub type Attempt<G = Guard> = crate::Attempt<G>;

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/blocking.md")]
struct Guide;
