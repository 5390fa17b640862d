//! The rules of Fencelock, and nothing else.
//!
//! Names, tokens, fencing tokens, ttl, drift, validity, the state of a lease, when to renew, when
//! to try again, and [`LockTable`]: the executable specification of one store.
//!
//! This crate is `no_std + alloc`, has no dependency, and cannot read a clock, draw a random
//! number or do I/O: the moment is always a parameter (and always the last one), so is chance.
//! Everything here can therefore be tested at the boundary instant, and simulated.
//!
//! ```text
//!   t0 (sent)        t1 (answered)                          D               store's end
//!   |-----------------|======= guard is valid ===============|--- drift ------|
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backoff;
mod crowd;
mod drift;
mod fencing;
mod holder;
mod lease;
mod metadata;
mod mode;
mod name;
mod offset;
mod queue;
mod record;
mod renewal;
mod reply;
mod request;
mod rules;
mod table;
mod time;
mod token;
mod ttl;

pub use self::{
    backoff::{Backoff, Jitter, RetryStrategy},
    crowd::{Crowd, Share},
    drift::{Drift, min_validity},
    fencing::{FenceLimit, FencingToken, FencingTokenError},
    holder::{Foreign, ForeignKind, Holder, Proof, Sharing},
    lease::{Lease, LeaseState, LossReason},
    metadata::{Metadata, MetadataError},
    mode::{Kind, Mode, Owner, OwnerError},
    name::{LockName, Names, NamesError, ParseNameError},
    offset::{ClockStep, StoreOffset},
    queue::{HandOff, Lines, ListenerId, Place, PlaceRequest, Told, Wakeup},
    record::{Record, RecordState},
    renewal::RenewalSchedule,
    reply::{
        Acquired, Busy, Downgraded, Exchanged, Fence, Forced, Grant, Healed, Incarnation,
        Inspection, LimitSet, NotHeld, Novelty, Page, Queued, Raised, Refusal, Released, Renewed,
        Revoked, Shortened,
    },
    request::{
        AcquireRequest, Binding, Cursor, DowngradeRequest, ExchangeRequest, ForceReleaseRequest,
        HealRequest, InspectRequest, ListRequest, ProcessId, RaiseFenceRequest, ReleaseRequest,
        RenewRequest, Retain, RevokeRequest, SetLimitRequest, ShortenRequest,
    },
    rules::Rules,
    table::LockTable,
    time::{Moment, StoreNow, StoreTime},
    token::{ParseTokenError, Token},
    ttl::{Ttl, TtlError},
};
