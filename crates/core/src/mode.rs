//! How a lease lives beside others at the same name, and what kind of lock that makes the name.
//!
//! ```text
//!   kind        modes                     together
//!   Lock        Exclusive                 nobody else
//!               Shared                    any number of Shared
//!               Owned(owner)              any number of the same owner
//!   Semaphore   Permits                   as many permits as the limit
//!   Latch       CountDown                 until `count` of them came: then it is open
//!               Opening                   waits for that and holds nothing
//!   Barrier     Meeting                   waits until `parties` of them wait
//! ```
//! One name is one lock: a mode of another kind than what is there is refused as foreign.

use alloc::vec::Vec;
use core::fmt;

/// How a lease lives beside others at the same name. All but [`Mode::Exclusive`] are for one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Alone: a mutex, the writer of a read-write lock.
    #[default]
    Exclusive,
    /// Beside others that are shared: a reader.
    Shared,
    /// Beside others of the same owner, and with the same fencing token: a re-entrant mutex.
    Owned(Owner),
    /// Some of the permits of a semaphore.
    Permits {
        /// How many: 1 to `limit`.
        permits: u32,
        /// How many there are. Who says another number than is kept is refused.
        limit: u32,
    },
    /// One step of a latch. Steps stay until the latch is forgotten, each prolongs those before it.
    CountDown {
        /// How many steps open the latch.
        count: u32,
    },
    /// Waits until a latch is open. The grant holds nothing.
    Opening {
        /// How many steps open the latch.
        count: u32,
    },
    /// Waits at a barrier until all parties do.
    Meeting {
        /// How many parties there are.
        parties: u32,
    },
}

impl Mode {
    /// The most permits of a semaphore: a number that every store and wire format can write.
    pub const MAX_LIMIT: u32 = 1_000_000;

    /// The most steps of a latch, and parties of a barrier: as many as a name can have shares.
    pub const MAX_PARTIES: u32 = 1_024;

    /// What kind of lock has this mode.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Exclusive | Self::Shared | Self::Owned(_) => Kind::Lock,
            Self::Permits { .. } => Kind::Semaphore,
            Self::CountDown { .. } | Self::Opening { .. } => Kind::Latch,
            Self::Meeting { .. } => Kind::Barrier,
        }
    }

    /// How much of the limit a lease of this mode takes.
    #[must_use]
    pub const fn weight(&self) -> u32 {
        match self {
            Self::Permits { permits, .. } => *permits,
            Self::Opening { .. } => 0,
            _ => 1,
        }
    }

    /// How much there is; nothing for a kind that has no limit.
    #[must_use]
    pub const fn limit(&self) -> Option<u32> {
        match self {
            Self::Permits { limit, .. } => Some(*limit),
            Self::CountDown { count } | Self::Opening { count } => Some(*count),
            Self::Meeting { parties } => Some(*parties),
            Self::Exclusive | Self::Shared | Self::Owned(_) => None,
        }
    }

    /// Whether its numbers can be had at all: at least one and at most as many as there are, which
    /// is at most what a name can have.
    #[must_use]
    pub const fn is_possible(&self) -> bool {
        match self {
            Self::Permits { permits, limit } => {
                *permits >= 1 && *permits <= *limit && *limit <= Self::MAX_LIMIT
            }
            Self::CountDown { count: of }
            | Self::Opening { count: of }
            | Self::Meeting { parties: of } => *of >= 1 && *of <= Self::MAX_PARTIES,
            Self::Exclusive | Self::Shared | Self::Owned(_) => true,
        }
    }

    /// Whether it is the mode of a mutex.
    #[must_use]
    pub const fn is_exclusive(&self) -> bool {
        matches!(self, Self::Exclusive)
    }
}

/// What kind of lock a name is, while anybody holds it or waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A mutex, a read-write lock, a re-entrant mutex: one kind, since they exclude each other.
    #[default]
    Lock,
    /// A semaphore.
    Semaphore,
    /// A latch.
    Latch,
    /// A barrier.
    Barrier,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lock, Self::Semaphore, Self::Latch, Self::Barrier];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Semaphore => "semaphore",
            Self::Latch => "latch",
            Self::Barrier => "barrier",
        }
    }

    /// Whether anybody holds such a name. A latch and a barrier are only gone through.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Lock | Self::Semaphore)
    }

    /// The letter that stands for it in records.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Lock => 'm',
            Self::Semaphore => 's',
            Self::Latch => 'l',
            Self::Barrier => 'b',
        }
    }

    /// The kind of a letter.
    #[must_use]
    pub fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.letter() == letter)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who holds a re-entrant mutex: 1 to 64 bytes that the caller chose. Never a thread or a process
/// by itself: whoever says the same owner enters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(Vec<u8>);

impl Owner {
    /// The most bytes.
    pub const MAX_BYTES: usize = 64;

    /// Takes the bytes.
    ///
    /// # Errors
    /// When there are none, or more than [`Owner::MAX_BYTES`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, OwnerError> {
        let bytes = bytes.into();
        match bytes.len() {
            1..=Self::MAX_BYTES => Ok(Self(bytes)),
            length => Err(OwnerError { length }),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.0.escape_ascii())
    }
}

/// The owner is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerError {
    length: usize,
}

impl fmt::Display for OwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, length) = (Owner::MAX_BYTES, self.length);
        write!(f, "the owner of a re-entrant lock has 1 to {most} bytes, this has {length}")
    }
}

impl core::error::Error for OwnerError {}
