//! The [`Store`] trait of Fencelock and its [Contract](Store#contract), the in-memory store, and
//! the conformance suite that every store runs.
//!
//! A store is done when it passes the suite (feature `conformance`): the suite *is* the
//! definition. The rules themselves are in `fencelock-core`; this crate adds what they must not
//! know: clocks, futures, errors, and whatever needs a runtime, all of which is in [`rt`].
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod capabilities;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod faulty;
mod memory;
mod reply;
pub mod rt;
mod store;
mod sys;
mod wakeup;

pub use fencelock_core as core;

pub use self::{
    capabilities::{Capabilities, Hints, Modes},
    clock::{Clock, ManualClock},
    error::{Outcome, StoreError, StoreErrorKind},
    faulty::{Fault, FaultyStore, Verb},
    memory::MemoryStore,
    reply::Reply,
    store::{BoxFuture, Store, StoreResult},
    wakeup::{Subscription, WakeupSink},
};
