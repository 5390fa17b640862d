//! Who holds a name, as a store tells it; and what sits at a key that is no record.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use crate::{FencingToken, Kind, LockName, Metadata, Owner, Token};

/// The bytes by which a store knows the holder: our [`Token`] in written form, or whatever another
/// library wrote. A secret: `Debug` shows the length only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Proof(Vec<u8>);

impl Proof {
    /// Wraps the bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes. Never print them.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl From<Token> for Proof {
    fn from(token: Token) -> Self {
        Self(token.to_hex().to_vec())
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proof({} bytes)", self.0.len())
    }
}

/// Who holds a lock, as far as the store knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What kind of lock it holds.
    pub kind: Kind,
    /// What proves the hold; nothing in an answer to a contender.
    pub proof: Option<Proof>,
    /// What the holder said of itself.
    pub metadata: Metadata,
    /// The fencing token of the hold, where the store has such.
    pub fencing_token: Option<FencingToken>,
    /// The last fencing token of the range that the hold has, where it has one.
    pub last_fence: Option<FencingToken>,
    /// How long the lease has left; nothing when it never ends (another tool wrote it so).
    pub remaining: Option<Duration>,
    /// How many wait for the lock in the store's line.
    pub waiting: u32,
    /// Somebody asked for the lease back.
    pub revoked: bool,
    /// Nobody renews the lease.
    pub unattended: bool,
    /// How it is held by several together; nothing when it is held alone. What is above is then
    /// said of one of them, but for `remaining`, the time until the last of them is over, and
    /// `revoked` and `unattended`: whether any was asked, and none is renewed.
    pub sharing: Option<Sharing>,
}

impl Holder {
    /// A holder of whom nothing but the remaining time is known.
    #[must_use]
    pub fn new(remaining: Option<Duration>) -> Self {
        Self {
            kind: Kind::Lock,
            proof: None,
            metadata: Metadata::default(),
            fencing_token: None,
            last_fence: None,
            remaining,
            waiting: 0,
            revoked: false,
            unattended: false,
            sharing: None,
        }
    }
}

/// Those who hold a name together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sharing {
    /// How many there are.
    pub holders: u32,
    /// How much of the limit they have: permits, or steps of a latch.
    pub used: u32,
    /// How much there is; nothing for a kind without a limit.
    pub limit: Option<u32>,
    /// The owner of all of them, where they are those of a re-entrant mutex.
    pub owner: Option<Owner>,
    /// In an inspection, the others, the latest first: at most [`Sharing::MAX_OTHERS`].
    pub others: Vec<Holder>,
}

impl Sharing {
    /// How many holders an inspection tells besides the first: a page of a listing stays small.
    pub const MAX_OTHERS: usize = 15;
}

/// Something sits at the key that is not a record this store can read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Foreign {
    /// The name it sits at.
    pub name: LockName,
    /// What it looks like.
    pub kind: ForeignKind,
}

impl Foreign {
    /// A foreign value.
    #[must_use]
    pub const fn new(name: LockName, kind: ForeignKind) -> Self {
        Self { name, kind }
    }
}

/// What a foreign value looks like. It is never changed, not even by force.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForeignKind {
    /// A string that is not a record.
    String,
    /// A value of another type.
    Type(
        /// The store's word for the type, such as `hash` or `list`.
        Arc<str>,
    ),
    /// A value of another library's, in words.
    Looks(
        /// What it looks like, such as `a read lock of Redisson, held by ...`.
        Arc<str>,
    ),
    /// A record of another layout version.
    Version(
        /// The version it says it has.
        Arc<str>,
    ),
    /// A held record of another kind of lock.
    Kind(
        /// The kind it says it is.
        Arc<str>,
    ),
    /// Something is there, and the store would not say what.
    Unreadable,
}

impl fmt::Display for ForeignKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => write!(f, "a string that is not a fencelock record"),
            Self::Type(name) => write!(f, "a value of type {name}"),
            Self::Looks(words) => write!(f, "{words}"),
            Self::Version(version) => {
                write!(f, "a fencelock record of layout version {version}")
            }
            Self::Kind(kind) => write!(f, "a fencelock record of kind {kind}"),
            Self::Unreadable => write!(f, "something unreadable"),
        }
    }
}
