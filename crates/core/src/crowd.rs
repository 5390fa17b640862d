//! Those who hold one name together: readers, permits, holds of one owner, steps of a latch.
//!
//! ```text
//!   record, state Shared
//!     |-- share  token, fencing token, weight, end   each with a lease of its own
//!     |-- share  ...                                 one that is over is no share any more
//!     `-- spent  the tokens that were released last  a late copy of theirs brings nothing back
//! ```

use alloc::vec::Vec;

use crate::{Binding, FencingToken, ListenerId, Metadata, Owner, StoreTime, Token};

/// What one of several holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its token.
    pub token: Token,
    /// The fencing token of the grant.
    pub fencing_token: Option<FencingToken>,
    /// How much of the limit it takes.
    pub weight: u32,
    /// When its lease ends, on the store's lease clock.
    pub end: StoreTime,
    /// Where its holder hears what the store has to tell it.
    pub listener: Option<ListenerId>,
    /// Somebody asked for it back.
    pub revoked: bool,
    /// Nobody renews it.
    pub unattended: bool,
    /// What its holder said of itself.
    pub metadata: Metadata,
    /// What its lease ends with besides its ttl.
    pub binding: Binding,
}

impl Share {
    /// The order in which shares are shown: by fencing token, and by token where that is the same.
    #[must_use]
    pub fn order(&self) -> (Option<FencingToken>, Token) {
        (self.fencing_token, self.token)
    }
}

/// What a record has besides, once several held its name together; until somebody holds it alone.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Crowd {
    /// Who holds it, in any order.
    pub shares: Vec<Share>,
    /// How much there is to hold; nothing for a kind without a limit.
    pub limit: Option<u32>,
    /// The owner of all shares, where they are those of a re-entrant mutex.
    pub owner: Option<Owner>,
    /// The tokens that were released last, the latest first: at most [`Crowd::MAX_SPENT`].
    pub spent: Vec<Token>,
}

impl Crowd {
    /// The most shares of one name: a step of the store looks at all of them, and must stay short.
    pub const MAX_SHARES: usize = 1_024;

    /// How many released tokens are remembered: enough for those whose release is sent twice.
    pub const MAX_SPENT: usize = 32;

    /// The share of a token, over or not.
    #[must_use]
    pub fn share(&self, token: Token) -> Option<&Share> {
        self.shares.iter().find(|share| share.token == token)
    }

    /// The same, to change it.
    pub fn share_mut(&mut self, token: Token) -> Option<&mut Share> {
        self.shares.iter_mut().find(|share| share.token == token)
    }

    /// How much of the limit is taken.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.shares.iter().fold(0, |sum, share| sum.saturating_add(share.weight))
    }

    /// When the last lease ends.
    #[must_use]
    pub fn latest_end(&self) -> Option<StoreTime> {
        self.shares.iter().map(|share| share.end).max()
    }

    /// When the first lease ends.
    #[must_use]
    pub fn first_end(&self) -> Option<StoreTime> {
        self.shares.iter().map(|share| share.end).min()
    }

    /// Whether as much is taken as there is: of a latch, whether it is open.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.used() >= limit)
    }

    /// Notes that a token was released.
    pub fn spend(&mut self, token: Token) {
        self.spent.insert(0, token);
        self.spent.truncate(Self::MAX_SPENT);
    }
}
