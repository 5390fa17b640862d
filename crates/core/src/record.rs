//! What a store keeps about one name.
//!
//! ```text
//!   absent --acquire--> held --release--> free --retain passed--> absent
//!                        |  ^               |
//!             lease ended|  +---acquire-----+
//!                        v
//!                 held, but over: as free, for everybody but its old holder's late copies
//!                 (a forced release ends the lease, and comes here)
//! ```

use crate::{
    FencingToken, Holder, ListenerId, Metadata, NotHeld, Proof, Retain, StoreNow, StoreTime, Token,
};

/// The record of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whether somebody was granted it and has not released it.
    pub state: RecordState,
    /// The token of the holder, or the last released one while free. The rules always write one;
    /// nothing stands for a record whose token can't be read.
    pub token: Option<Token>,
    /// The highest fencing token so far.
    pub fencing_token: Option<FencingToken>,
    /// Whether `fencing_token` was written by `token`: only then is a re-sent raise to the same
    /// number ours.
    pub fence_by_token: bool,
    /// The first fencing token of the range that ends with `fencing_token`, where `token` has a
    /// range: the grant's own.
    pub first_fence: Option<FencingToken>,
    /// Where the holder hears what the store has to tell it.
    pub listener: Option<ListenerId>,
    /// Somebody asked for the lease back.
    pub revoked: bool,
    /// Nobody renews the lease: it ends with its ttl, and a request to give it back reaches nobody.
    pub unattended: bool,
    /// When the lease ends, on the store's lease clock.
    pub end: StoreTime,
    /// When the record is forgotten, on the store's wall clock.
    pub forget_at: StoreTime,
    /// What the holder said of itself.
    pub metadata: Metadata,
}

/// Whether a record is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// Granted and not released; it may have ended all the same.
    Held,
    /// Kept for the token of a set whose turn has come, until it has looked at its other names. For
    /// everybody else as held.
    Reserved,
    /// Released.
    Free,
}

impl Record {
    /// Whether a lease runs at this instant. The instant of its end is over already: renewing is
    /// refused and granting allowed, and the holder stopped before it by the drift.
    #[must_use]
    pub fn is_live(&self, now: StoreNow) -> bool {
        self.state != RecordState::Free && self.end > now.lease
    }

    /// Whether the token has a running lease here.
    #[must_use]
    pub fn is_live_for(&self, token: Token, now: StoreNow) -> bool {
        self.state == RecordState::Held && self.is_live(now) && self.token == Some(token)
    }

    /// Whether the name is kept for this token at the moment.
    #[must_use]
    pub fn is_reserved_for(&self, token: Token, now: StoreNow) -> bool {
        self.state == RecordState::Reserved && self.is_live(now) && self.token == Some(token)
    }

    /// The fencing token of the grant itself, where a range goes with it: the first.
    #[must_use]
    pub fn own_fence(&self) -> Option<FencingToken> {
        self.first_fence.filter(|_| self.fence_by_token).or(self.fencing_token)
    }

    /// Whether the store may forget the record.
    #[must_use]
    pub fn is_forgotten(&self, now: StoreNow) -> bool {
        now.wall > self.forget_at && !self.is_live(now)
    }

    /// When the record may be forgotten: after the lease and `retain`, and never before the wall
    /// clock has passed the fencing token, so that a token is never minted twice.
    #[must_use]
    pub fn forget_time(
        end: StoreTime,
        fencing_token: Option<FencingToken>,
        retain: Retain,
        now: StoreNow,
    ) -> StoreTime {
        let left = end.saturating_since(now.lease);
        let used = now.wall.saturating_add(left).saturating_add(retain.as_duration());
        let fence = fencing_token.map_or(0, FencingToken::as_u64);
        used.max(StoreTime::from_micros(fence))
    }

    /// Why a token that has no running lease here does not have one.
    #[must_use]
    pub fn not_held(record: Option<&Self>, token: Token) -> NotHeld {
        match record {
            Some(record) if record.token == Some(token) => match record.state {
                RecordState::Free => NotHeld::Released,
                RecordState::Held | RecordState::Reserved => NotHeld::Expired,
            },
            // Also free, and last used by another token: that one was granted after ours.
            Some(Self { token: Some(_), .. }) => NotHeld::Taken,
            Some(Self { token: None, .. }) | None => NotHeld::Absent,
        }
    }

    /// The holder, for a contender: without what proves the hold.
    #[must_use]
    pub fn holder_for_contender(&self, now: StoreNow) -> Holder {
        let mut holder = Holder::new(Some(self.end.saturating_since(now.lease)));
        holder.metadata = self.metadata.clone();
        holder.fencing_token = self.own_fence();
        holder.last_fence = self.fencing_token;
        holder.revoked = self.revoked;
        holder.unattended = self.unattended;
        holder
    }

    /// The holder, for an inspection.
    #[must_use]
    pub fn holder(&self, now: StoreNow) -> Holder {
        let mut holder = self.holder_for_contender(now);
        holder.proof = self.token.map(Proof::from);
        holder
    }
}
