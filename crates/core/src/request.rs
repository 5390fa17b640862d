//! What is asked of a store: one struct for each verb.
//!
//! Each has a constructor with what is required; everything else is a public field with a default.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    FencingToken, ListenerId, LockName, Metadata, Mode, Names, PlaceRequest, StoreTime, Token, Ttl,
};

/// How long a store remembers a name after its last use: the fencing token and the last released
/// token. Whole milliseconds, at most 30 days.
///
/// Minutes, not days, by default: a fleet that locks a million names a day must not fill its
/// server. With a time-based fencing token the loss of the record does no harm unless the store's
/// clock steps back further than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Retain(Duration);

impl Retain {
    /// Forget at once.
    pub const NOTHING: Self = Self(Duration::ZERO);
    /// Ten minutes.
    pub const DEFAULT: Self = Self(Duration::from_secs(600));
    /// Thirty days.
    pub const MAX: Self = Self(Duration::from_secs(30 * 86_400));

    /// A span, rounded up to whole milliseconds and cut at [`Retain::MAX`].
    #[must_use]
    pub fn new(span: Duration) -> Self {
        let millis = span.min(Self::MAX.0).as_nanos().div_ceil(1_000_000);
        Self(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// The span.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }
}

impl Default for Retain {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A process that a lease is bound to: its id, and when it started, so that a reused id is not
/// taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// Its start time in clock ticks since boot, as the kernel reports it.
    pub started: u64,
}

/// What a lease ends with, besides its ttl.
///
/// Only a store on the holder's own machine can see that a process is gone; others ignore this.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Binding {
    /// Nothing: it may be renewed and released from anywhere.
    #[default]
    Unbound,
    /// It is free as soon as *all* these processes are gone.
    Processes(Vec<ProcessId>),
}

/// Take one or several names, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct AcquireRequest {
    /// The names.
    pub names: Names,
    /// The token of this attempt. A re-sent request carries the same one.
    pub token: Token,
    /// How long the lease runs unless renewed.
    pub ttl: Ttl,
    /// How long the record outlives the lease.
    pub retain: Retain,
    /// What the holder says of itself.
    pub metadata: Metadata,
    /// What the lease ends with besides its ttl.
    pub binding: Binding,
    /// The highest fencing token that the caller has seen for these names: the new one is above.
    pub floor: Option<FencingToken>,
    /// The fencing token that the caller proposes (quorum): taken when it is above the record's.
    pub proposed: Option<FencingToken>,
    /// After this instant of the store's lease clock the request must not be executed.
    pub deadline: Option<StoreTime>,
    /// How many fencing tokens above its own the grant shall have, for holders that follow each
    /// other under the same lease. At most [`AcquireRequest::MAX_RESERVE`]; for one name only.
    pub reserve: u32,
    /// Where the caller hears what the store has to tell it.
    pub listener: Option<ListenerId>,
    /// When the lock is busy, take a place in its line, or say that the place is still wanted.
    pub place: Option<PlaceRequest>,
    /// Do not mind those who wait: a free lock is taken at once.
    pub barging: bool,
    /// Nobody will renew the lease.
    pub unattended: bool,
    /// How the lease lives beside others. All but [`Mode::Exclusive`] are for one name, and without
    /// `proposed` and `reserve`.
    pub mode: Mode,
}

impl AcquireRequest {
    /// The most fencing tokens that a grant or a renewal can reserve.
    pub const MAX_RESERVE: u32 = 4_096;

    /// A request with the defaults for all the rest.
    pub fn new(names: impl Into<Names>, token: Token, ttl: Ttl) -> Self {
        Self {
            names: names.into(),
            token,
            ttl,
            retain: Retain::DEFAULT,
            metadata: Metadata::default(),
            binding: Binding::Unbound,
            floor: None,
            proposed: None,
            deadline: None,
            reserve: 0,
            listener: None,
            place: None,
            barging: false,
            unattended: false,
            mode: Mode::Exclusive,
        }
    }
}

/// Prolong one lease. Stores take a batch of these.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct RenewRequest {
    /// The names of the lease: all of them are renewed, or none.
    pub names: Names,
    /// Its token.
    pub token: Token,
    /// It will run for at least so long from now.
    pub ttl: Ttl,
    /// How long the record outlives the lease.
    pub retain: Retain,
    /// Where the holder hears what the store has to tell it; nothing: as before.
    pub listener: Option<ListenerId>,
    /// How many more fencing tokens the lease shall have, at the end of its range. For one name
    /// only.
    pub reserve: u32,
    /// Nobody will renew the lease after this.
    pub unattended: bool,
}

impl RenewRequest {
    /// The most leases in one batch: a batch is one step of the store, which must stay short.
    pub const MAX_BATCH: usize = 200;

    /// A request with the default retention.
    pub fn new(names: impl Into<Names>, token: Token, ttl: Ttl) -> Self {
        Self {
            names: names.into(),
            token,
            ttl,
            retain: Retain::DEFAULT,
            listener: None,
            reserve: 0,
            unattended: false,
        }
    }
}

/// Bring the end of a lease nearer. (A renewal never does.)
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ShortenRequest {
    /// The names of the lease.
    pub names: Names,
    /// Its token.
    pub token: Token,
    /// It will run for at most so long from now.
    pub ttl: Ttl,
    /// How long the record outlives the lease.
    pub retain: Retain,
}

impl ShortenRequest {
    /// A request with the default retention.
    pub fn new(names: impl Into<Names>, token: Token, ttl: Ttl) -> Self {
        Self { names: names.into(), token, ttl, retain: Retain::DEFAULT }
    }
}

/// Make the lease of one name that is held alone a shared one, under the same token and with the
/// same fencing token: a writer becomes a reader, and nobody writes in between.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct DowngradeRequest {
    /// The name.
    pub name: LockName,
    /// The token of the lease.
    pub token: Token,
}

impl DowngradeRequest {
    /// A request.
    pub const fn new(name: LockName, token: Token) -> Self {
        Self { name, token }
    }
}

/// Change how many permits a semaphore has. Those that are held stay; with fewer permits than are
/// held, nobody is granted any until enough came back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct SetLimitRequest {
    /// The name.
    pub name: LockName,
    /// How many there are from now on: 1 to [`Mode::MAX_LIMIT`].
    pub limit: u32,
    /// How long the limit is remembered while nobody uses the name.
    pub retain: Retain,
}

impl SetLimitRequest {
    /// A request with the default retention.
    pub const fn new(name: LockName, limit: u32) -> Self {
        Self { name, limit, retain: Retain::DEFAULT }
    }
}

/// Give a lease back: every name of it that is still ours.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ReleaseRequest {
    /// The names of the lease.
    pub names: Names,
    /// Its token.
    pub token: Token,
    /// How long the record outlives the release.
    pub retain: Retain,
}

impl ReleaseRequest {
    /// A request with the default retention.
    pub fn new(names: impl Into<Names>, token: Token) -> Self {
        Self { names: names.into(), token, retain: Retain::DEFAULT }
    }
}

/// Exchange the token of a lease for a fresh one, with a larger fencing token: a new grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ExchangeRequest {
    /// The names of the lease.
    pub names: Names,
    /// The token it has.
    pub from: Token,
    /// The token it gets. A re-sent request carries the same one.
    pub to: Token,
    /// It will run for at least so long from now.
    pub ttl: Ttl,
    /// How long the record outlives the lease.
    pub retain: Retain,
    /// What the new holder says of itself.
    pub metadata: Metadata,
    /// What the lease ends with besides its ttl.
    pub binding: Binding,
    /// The highest fencing token that the caller has seen for these names.
    pub floor: Option<FencingToken>,
    /// After this instant of the store's lease clock the request must not be executed.
    pub deadline: Option<StoreTime>,
    /// Where the new holder hears what the store has to tell it.
    pub listener: Option<ListenerId>,
}

impl ExchangeRequest {
    /// A request with the defaults for all the rest.
    pub fn new(names: impl Into<Names>, from: Token, to: Token, ttl: Ttl) -> Self {
        Self {
            names: names.into(),
            from,
            to,
            ttl,
            retain: Retain::DEFAULT,
            metadata: Metadata::default(),
            binding: Binding::Unbound,
            floor: None,
            deadline: None,
            listener: None,
        }
    }
}

/// Write a larger fencing token to a lease that we hold (quorum: the write-back).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct RaiseFenceRequest {
    /// The names of the lease: all of them are raised, or none.
    pub names: Names,
    /// Its token.
    pub token: Token,
    /// Accepted when it is above the record's, or equal and written by this very token.
    pub fencing_token: FencingToken,
}

impl RaiseFenceRequest {
    /// A request.
    pub fn new(names: impl Into<Names>, token: Token, fencing_token: FencingToken) -> Self {
        Self { names: names.into(), token, fencing_token }
    }
}

/// Take a lease that we provably hold elsewhere on a store that lost it (quorum).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct HealRequest {
    /// The names of the lease.
    pub names: Names,
    /// Its token.
    pub token: Token,
    /// How long it runs unless renewed.
    pub ttl: Ttl,
    /// How long the record outlives the lease.
    pub retain: Retain,
    /// What the holder says of itself.
    pub metadata: Metadata,
    /// The fencing token of the lease, where it has one.
    pub fencing_token: Option<FencingToken>,
    /// After this instant of the store's lease clock the request must not be executed.
    pub deadline: Option<StoreTime>,
}

impl HealRequest {
    /// A request with the defaults for all the rest.
    pub fn new(names: impl Into<Names>, token: Token, ttl: Ttl) -> Self {
        Self {
            names: names.into(),
            token,
            ttl,
            retain: Retain::DEFAULT,
            metadata: Metadata::default(),
            fencing_token: None,
            deadline: None,
        }
    }
}

/// Look at one name. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct InspectRequest {
    /// The name.
    pub name: LockName,
}

impl InspectRequest {
    /// A request.
    pub const fn new(name: LockName) -> Self {
        Self { name }
    }
}

/// Where a listing goes on. Opaque: only the store that gave it can read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor(Vec<u8>);

impl Cursor {
    /// Wraps what a store needs to go on.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// What the store put in.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// List held locks (and foreign values) whose names begin with a prefix, a page at a time.
///
/// A lock that is held for the whole listing appears at least once; the order is not promised.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ListRequest {
    /// What the names begin with; empty for all.
    pub prefix: Vec<u8>,
    /// Where to go on; nothing for the first page.
    pub cursor: Option<Cursor>,
    /// About how many entries a page has. A page may have fewer, even none, and not be the last.
    pub limit: usize,
}

impl ListRequest {
    /// The most entries that a page can ask for.
    pub const MAX_LIMIT: usize = 1_000;

    /// The first page of names with a prefix.
    pub fn new(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), cursor: None, limit: 100 }
    }
}

/// Free a name whoever holds it. This breaks mutual exclusion on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ForceReleaseRequest {
    /// The name.
    pub name: LockName,
    /// How long the record outlives the release.
    pub retain: Retain,
}

impl ForceReleaseRequest {
    /// A request with the default retention.
    pub const fn new(name: LockName) -> Self {
        Self { name, retain: Retain::DEFAULT }
    }
}

/// Ask the holder of a name to give it back. It never ends a lease by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct RevokeRequest {
    /// The name.
    pub name: LockName,
}

impl RevokeRequest {
    /// A request.
    pub const fn new(name: LockName) -> Self {
        Self { name }
    }
}
