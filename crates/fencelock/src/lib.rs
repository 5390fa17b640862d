//! Distributed locks that tell their holder when they are lost, and carry fencing tokens.
//!
//! A lock here is a lease: the store (Redis, Valkey, a file on this machine) gives it for a ttl,
//! and a keeper thread renews it for as long as the guard lives. The holder counts on less than
//! the store keeps, so that it knows of a loss before anybody else can be granted the lock. Each
//! grant has a larger fencing token than all before it, for the guarded resource to check.
//!
//! # Examples
//! Scoped work, which is dropped when the lock is lost:
//! ```
//! # async fn charge(token: Option<fencelock::FencingToken>) -> u32 { token.map_or(0, |_| 42) }
//! # async fn example() -> Result<(), fencelock::Error> {
//! let locks = fencelock::connect("memory:").await?;
//! let receipt = locks
//!     .mutex("invoice:42")
//!     .run(|held| async move { charge(held.fencing_token()).await })
//!     .await?;
//! assert_eq!(receipt, 42);
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//! A guard:
//! ```
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), fencelock::Error> {
//! let locks = fencelock::connect("memory:").await?;
//! let guard = locks.mutex("invoice:42").wait(Duration::from_secs(3)).lock().await?;
//! if guard.is_valid() {
//!     // ...
//! }
//! assert_eq!(guard.release().await, fencelock::Released::Held);
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # Which lock
//! | to | use |
//! |---|---|
//! | be the only one | [`Client::mutex`], [`Client::mutexes`] for several names in one step |
//! | read beside others, write alone | [`Client::rwlock`] |
//! | be one of so many | [`Client::semaphore`] |
//! | take again what the same job holds | [`Client::reentrant`] |
//! | go on when all of them are done | [`Client::latch`] |
//! | go on when all are there | [`Client::barrier`] |
//! | hold several of these as one | [`Client::all_of`] |
//!
//! # What is promised
//! One lease is exclusive while [`Guard::is_valid`], as long as clocks run at rates that differ by
//! less than the [`Drift`], and the store loses no record. It is *not* promised that work whose
//! effect comes later than its check is exclusive: that is what fencing tokens are for, and
//! [`fenced`] is how a resource checks them.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod across;
mod attempt;
mod barrier;
#[cfg(feature = "blocking")]
pub mod blocking;
mod cell;
mod client;
mod composite;
mod connect;
mod context;
mod danger;
mod election;
mod error;
pub mod fenced;
mod guard;
mod held;
mod holder;
#[cfg(feature = "redis")]
mod initialise;
mod keeper;
mod latch;
mod lease;
mod leave;
mod line;
mod listening;
mod metadata;
mod mutex;
mod plan;
mod policy;
mod possible;
mod process;
mod queued;
#[cfg(feature = "quorum")]
mod quorum;
mod recipe;
mod reentrant;
mod registry;
mod release;
mod revoke;
mod run;
mod rwlock;
mod semaphore;
mod shared;
mod state;
mod stream;
mod taken;
mod telemetry;
mod ticket;
#[cfg(feature = "tower")]
pub mod tower;
mod url;
mod waiting;

pub use fencelock_core::{
    Binding, Drift, FencingToken, FencingTokenError, ForeignKind, Jitter, Kind, LeaseState,
    LockName, LossReason, Moment, Names, NamesError, Owner, OwnerError, ParseNameError,
    ParseTokenError, ProcessId, RetryStrategy, Token, Ttl, TtlError,
};
pub use fencelock_store::{Capabilities, Clock, ManualClock, MemoryStore, Store};

#[cfg(feature = "redis")]
pub use self::initialise::{IfUsed, Initialised};
pub(crate) use self::mutex::Order;
#[cfg(feature = "quorum")]
pub use self::quorum::{ConnectQuorum, QuorumBuilder, connect_quorum};
#[cfg(feature = "metrics")]
pub use self::telemetry::describe_metrics;
pub use self::{
    across::{AcrossGuard, AcrossHeld, AcrossSlots},
    barrier::{Barrier, BarrierPass},
    client::Client,
    composite::{Composite, CompositeGuard, CompositeHeld, HeldPart, Part},
    connect::{ClientBuilder, Connect, RestartGuard, connect, dialects},
    danger::Danger,
    election::{Election, Leader, Leadership, Leading, Observation, Observed},
    error::{Error, ErrorKind, RetryAdvice},
    guard::Guard,
    held::Held,
    holder::{BusyView, HolderView, Inspection, SharingView, display_safe},
    latch::Latch,
    lease::TokenLease,
    mutex::{Attempt, Mutex, Renew, Wait},
    queued::Queued,
    reentrant::{Reentrant, ReentrantGuard},
    registry::{Registry, RegistryGuard, RegistryLock, RegistrySettings},
    release::Released,
    revoke::Revoked,
    rwlock::{ReadGuard, ReadHeld, RwLock, SharedToken, WriteGuard},
    semaphore::{LimitChange, Permit, PermitHeld, Semaphore},
    ticket::Ticket,
    waiting::Position,
};

/// What stores are made of, and what tests of lock users need: a store on a clock that a test
/// moves, and one that fails when told to.
pub mod store {
    pub use fencelock_store::*;
}

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/composite.md")]
    struct Composite;
    #[doc = include_str!("../../../docs/guide/latch.md")]
    struct Latch;
    #[doc = include_str!("../../../docs/guide/reentrant.md")]
    struct Reentrant;
    #[doc = include_str!("../../../docs/guide/registry.md")]
    struct Registry;
    #[doc = include_str!("../../../docs/guide/rwlock.md")]
    struct RwLock;
    #[doc = include_str!("../../../docs/guide/semaphore.md")]
    struct Semaphore;
}

/// Compiles and runs what the guide shows.
#[cfg(all(doctest, feature = "metrics", feature = "tower"))]
mod guide_of_features {
    #[doc = include_str!("../../../docs/guide/observability.md")]
    struct Observability;

    #[doc = include_str!("../../../docs/guide/tower.md")]
    struct Tower;

    #[doc = include_str!("../../../docs/guide/cron.md")]
    struct Cron;
}
/// Compiles what the pages for those who come from other libraries show.
#[cfg(all(doctest, feature = "quorum"))]
mod migrating {
    #[doc = include_str!("../../../docs/guide/migrating/go.md")]
    struct Go;
    #[doc = include_str!("../../../docs/guide/migrating/java.md")]
    struct Java;
    #[doc = include_str!("../../../docs/guide/migrating/python.md")]
    struct Python;
    #[doc = include_str!("../../../docs/guide/migrating/node.md")]
    struct Node;
    #[doc = include_str!("../../../docs/guide/migrating/others.md")]
    struct Others;
}

/// And those of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/election.md")]
struct ElectionGuide;
