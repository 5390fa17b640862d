//! What a store answers: one enum for each verb.
//!
//! Every one of them is an *answer*: the store looked, and this is what it saw. That it could not
//! be asked, or that nobody knows what it did, is an error of the store, never one of these.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use crate::{Cursor, FencingToken, Foreign, ForeignKind, Holder, LockName};

/// One life of a store: changes when it was restarted or replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(Arc<str>);

impl Incarnation {
    /// Wraps the store's own name for its present life.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(Arc::from(id))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The answer to an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Acquired {
    /// All names are ours.
    Granted(Grant),
    /// Somebody holds at least one of them.
    Busy(Busy),
    /// The same, and the request has a place in the line of that name.
    Queued(Queued),
    /// The request itself was refused; nothing changed.
    Refused(Refusal),
    /// Something that is not ours sits at one of the keys.
    Foreign(Foreign),
}

/// A lease was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Grant {
    /// The fencing token.
    pub fence: Fence,
    /// How long the lease had to run when the store executed the request.
    pub remaining: Duration,
    /// Whether this request made the grant, or found that an earlier copy of it had.
    pub novelty: Novelty,
    /// The last fencing token of the range that belongs to the grant; nothing when its own is all.
    pub last_fence: Option<FencingToken>,
    /// How many wait for the lock in the store's line: of several names, the most.
    pub waiting: u32,
}

impl Grant {
    /// A grant.
    pub const fn new(fence: Fence, remaining: Duration, novelty: Novelty) -> Self {
        Self { fence, remaining, novelty, last_fence: None, waiting: 0 }
    }
}

/// Whether a grant is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// This request made it.
    Fresh,
    /// An earlier copy of this request had made it. Nothing changed.
    Repeated,
}

/// The fencing token of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fence {
    /// The store or dialect has no fencing tokens.
    None,
    /// The grant has this one, minted by the store or accepted as proposed.
    Token(FencingToken),
    /// The proposed one was not above the record's, which is this. The grant stands; a larger
    /// token must be written before anybody may use it.
    Behind(FencingToken),
}

impl Fence {
    /// The fencing token that the holder may use.
    #[must_use]
    pub const fn token(self) -> Option<FencingToken> {
        match self {
            Self::Token(token) => Some(token),
            Self::None | Self::Behind(_) => None,
        }
    }
}

/// Somebody holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// Which of the names.
    pub name: LockName,
    /// Who.
    pub holder: Holder,
}

impl Busy {
    /// A busy name.
    #[must_use]
    pub const fn new(name: LockName, holder: Holder) -> Self {
        Self { name, holder }
    }
}

/// A busy lock, and our place in its line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queued {
    /// What is waited for.
    pub busy: Busy,
    /// The place in the line: 1 is the next to be granted the lock. Places ahead whose waiters are
    /// gone may be counted.
    pub position: u32,
}

impl Queued {
    /// A place.
    #[must_use]
    pub const fn new(busy: Busy, position: u32) -> Self {
        Self { busy, position }
    }
}

/// Why a store refused a request. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It arrived after its deadline.
    DeadlinePassed,
    /// The token had a lease here that was released or ended: this is a late copy.
    TokenRetired,
    /// The floor or the proposed fencing token is too far ahead of the store's clock.
    FenceAhead,
    /// The line of a busy name has no room for another place.
    QueueFull,
    /// The name has as many holders as it can have.
    CrowdFull,
    /// The limit (of permits, steps or parties) is another than the one that is kept.
    LimitDiffers {
        /// The one that is kept.
        limit: u32,
    },
    /// The numbers of the mode can't be had: none, more than the limit, or more than there can be.
    Impossible,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeadlinePassed => "the request arrived after its deadline",
            Self::TokenRetired => "the token of the request was used up",
            Self::QueueFull => "too many wait for the lock already",
            Self::Impossible => "so many can't be had at once",
            Self::CrowdFull => "the lock has as many holders as it can have",
            Self::FenceAhead => "the fencing token is too far ahead of the store's clock",
            Self::LimitDiffers { limit } => {
                return write!(f, "the limit kept at the store is {limit}");
            }
        })
    }
}

/// Why a lease is not held any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotHeld {
    /// There is no record, or a free one that does not remember this token.
    Absent,
    /// This token was released.
    Released,
    /// The lease of this token had ended; nobody took the lock since.
    Expired,
    /// Another token was granted since.
    Taken,
    /// Something that is not a record sits at the key.
    Foreign(ForeignKind),
}

/// The answer to one renewal of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Renewed {
    /// It runs for at least the ttl from now.
    Extended {
        /// How long it has to run: of several names, the least.
        remaining: Duration,
        /// The last fencing token of the range that belongs to the lease; nothing when the grant's
        /// own is all, and for several names.
        last_fence: Option<FencingToken>,
        /// How many wait for it in the store's line: of several names, the most.
        waiting: u32,
        /// Somebody asked for it back.
        revoked: bool,
    },
    /// At least one name is not ours; nothing changed.
    NotHeld(NotHeld),
    /// The store could not say for this one, though it answered for others.
    Unknown,
}

impl Renewed {
    /// A renewal of a lease that nobody waits for.
    pub const fn extended(remaining: Duration) -> Self {
        Self::Extended { remaining, last_fence: None, waiting: 0, revoked: false }
    }

    /// How long the lease has to run, where it was prolonged.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Extended { remaining, .. } => Some(*remaining),
            _ => None,
        }
    }
}

/// The answer to a shorten.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Shortened {
    /// It runs for at most the ttl from now.
    Shortened {
        /// How long it has to run: of several names, the most.
        remaining: Duration,
    },
    /// At least one name is not ours; nothing changed.
    NotHeld(NotHeld),
}

/// The answer to a release. For several names, the worst: taken, then expired, then held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[must_use]
pub enum Released {
    /// It was not held yet: its place in the line was given up.
    Withdrawn,
    /// It was ours until now (or until an earlier copy of this request); it is free.
    Held,
    /// It had ended or vanished before; nobody was granted it since, as far as the store knows.
    Expired,
    /// Somebody else was granted it since (or something foreign was written over it).
    Taken,
}

/// The answer to an exchange of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Exchanged {
    /// The lease belongs to the new token.
    Granted(Grant),
    /// The old token does not hold the lock (any more).
    NotHeld(NotHeld),
    /// The request itself was refused; nothing changed.
    Refused(Refusal),
}

/// The answer to a raise of the fencing token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Raised {
    /// Every name has it now, written by this token.
    Raised,
    /// It is not above the record's, which is this.
    Behind(FencingToken),
    /// The token does not hold the lock.
    NotHeld(NotHeld),
    /// The request itself was refused; nothing changed.
    Refused(Refusal),
}

/// The answer to a downgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Downgraded {
    /// It is shared now, or was already.
    Shared {
        /// How long it has to run: a downgrade prolongs nothing.
        remaining: Duration,
    },
    /// The token does not hold the lock.
    NotHeld(NotHeld),
}

/// The answer to a change of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum LimitSet {
    /// It is kept now.
    Set {
        /// The one before; nothing when none was kept.
        before: Option<u32>,
        /// How much is taken of it: more than the limit, after a change to fewer.
        used: u32,
    },
    /// Another kind of lock is there, or something that is not a record.
    Foreign(ForeignKind),
}

/// The answer to a heal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Healed {
    /// Every name is ours: taken now, or found so.
    Healed,
    /// Somebody else holds at least one.
    Busy(Busy),
    /// The request itself was refused; nothing changed.
    Refused(Refusal),
    /// Something that is not ours sits at one of the keys.
    Foreign(Foreign),
}

/// The answer to an inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Inspection {
    /// Nobody holds it.
    Free {
        /// The highest fencing token that the store still remembers for it.
        fencing_token: Option<FencingToken>,
    },
    /// Somebody holds it.
    Held(Holder),
    /// Something that is not a record sits at the key.
    Foreign(ForeignKind),
}

/// The answer to a revoke.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Revoked {
    /// The request stands in the record; its holder is asked.
    Requested(Holder),
    /// Nobody holds it.
    WasFree,
    /// This holder does not renew its lease, so nothing would reach it: nothing was changed.
    Unattended(Holder),
    /// Something that is not a record sits at the key.
    Foreign(ForeignKind),
}

/// The answer to a list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[must_use]
pub struct Page {
    /// Names that are held, or have a foreign value.
    pub locks: Vec<(LockName, Inspection)>,
    /// Where to go on; nothing when this was the last page.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page.
    pub const fn new(locks: Vec<(LockName, Inspection)>, next: Option<Cursor>) -> Self {
        Self { locks, next }
    }
}

/// The answer to a forced release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Forced {
    /// It was taken away from this holder.
    Removed(Holder),
    /// Nobody held it.
    WasFree,
    /// Something that is not a record sits at the key; it was left alone.
    Foreign(ForeignKind),
}
