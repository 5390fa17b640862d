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

use alloc::vec::Vec;

use crate::{
    Crowd, FencingToken, Holder, Kind, ListenerId, Metadata, NotHeld, Proof, Retain, Share,
    Sharing, StoreNow, StoreTime, Token,
};

/// The record of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What kind of lock it is, or was when it was last held.
    pub kind: Kind,
    /// Whether somebody was granted it and has not released it.
    pub state: RecordState,
    /// The token of the holder, or the last released one while free. The rules always write one
    /// where the name is or was held alone; nothing stands beside a crowd, and for a record whose
    /// token can't be read.
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
    /// Those who hold it together, or did: then what is above stands for nobody, but for the fencing
    /// token, the end (of the last of them) and when it is forgotten.
    pub crowd: Option<Crowd>,
}

/// Whether a record is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// Granted and not released; it may have ended all the same.
    Held,
    /// Kept for the token of a set whose turn has come, until it has looked at its other names. For
    /// everybody else as held.
    Reserved,
    /// Held by several together, each with a lease of its own: see [`Record::crowd`].
    Shared,
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
        let alone =
            self.state == RecordState::Held && self.is_live(now) && self.token == Some(token);
        alone || self.live_share(token, now).is_some()
    }

    /// The share of a token, if its lease runs.
    #[must_use]
    pub fn live_share(&self, token: Token, now: StoreNow) -> Option<&Share> {
        let crowd = self.crowd.as_ref()?;
        crowd.share(token).filter(|share| share.end > now.lease)
    }

    /// Those who hold it together at the moment.
    pub fn live_shares(&self, now: StoreNow) -> impl Iterator<Item = &Share> {
        let shares = self.crowd.iter().flat_map(|crowd| &crowd.shares);
        shares.filter(move |share| share.end > now.lease)
    }

    /// Makes the record say of its crowd what is so now: leases that are over are no shares any
    /// more, and without any the name is free.
    pub fn refresh(&mut self, now: StoreNow) {
        let Some(crowd) = &mut self.crowd else { return };
        crowd.shares.retain(|share| share.end > now.lease);
        match crowd.latest_end() {
            Some(end) => {
                self.state = RecordState::Shared;
                self.end = end;
            }
            None if self.state == RecordState::Shared => {
                self.state = RecordState::Free;
                crowd.owner = None;
                self.end = self.end.min(now.lease);
            }
            None => {}
        }
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
            Some(Self { crowd: Some(crowd), .. }) => {
                // That others hold it or held it says nothing of this one.
                if crowd.spent.contains(&token) { NotHeld::Released } else { NotHeld::Expired }
            }
            Some(record) if record.token == Some(token) => match record.state {
                RecordState::Free => NotHeld::Released,
                _ => NotHeld::Expired,
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
        holder.kind = self.kind;
        if let Some(crowd) = &self.crowd {
            return Self::sharing_holder(holder, crowd, self.live_shares(now));
        }
        holder.metadata = self.metadata.clone();
        holder.fencing_token = self.own_fence();
        holder.last_fence = self.fencing_token;
        holder.revoked = self.revoked;
        holder.unattended = self.unattended;
        holder
    }

    /// Of several holders, the [latest](Share::order); and how many they are.
    fn sharing_holder<'s>(
        mut holder: Holder,
        crowd: &Crowd,
        shares: impl Iterator<Item = &'s Share>,
    ) -> Holder {
        let (mut holders, mut used, mut revoked, mut unattended) = (0, 0_u32, false, true);
        let mut latest: Option<&Share> = None;
        for share in shares {
            holders += 1;
            used = used.saturating_add(share.weight);
            revoked |= share.revoked;
            unattended &= share.unattended;
            if latest.is_none_or(|latest| latest.order() < share.order()) {
                latest = Some(share);
            }
        }
        if let Some(latest) = latest {
            holder.metadata = latest.metadata.clone();
            holder.fencing_token = latest.fencing_token;
        }
        holder.revoked = revoked;
        holder.unattended = unattended;
        holder.sharing = Some(Sharing {
            holders,
            used,
            limit: crowd.limit,
            owner: crowd.owner.clone(),
            others: Vec::new(),
        });
        holder
    }

    /// The holder, for an inspection. Of several, the [latest](Share::order), and at most
    /// [`Sharing::MAX_OTHERS`] of the others.
    #[must_use]
    pub fn holder(&self, now: StoreNow) -> Holder {
        let mut holder = self.holder_for_contender(now);
        let Some(sharing) = &mut holder.sharing else {
            holder.proof = self.token.map(Proof::from);
            return holder;
        };
        let mut shares: Vec<_> = self.live_shares(now).collect();
        shares.sort_by_key(|share| share.order());
        holder.proof = shares.pop().map(|share| Proof::from(share.token));
        sharing.others = shares
            .into_iter()
            .rev()
            .take(Sharing::MAX_OTHERS)
            .map(|share| {
                let mut other = Holder::new(Some(share.end.saturating_since(now.lease)));
                other.kind = self.kind;
                other.proof = Some(Proof::from(share.token));
                other.metadata = share.metadata.clone();
                other.fencing_token = share.fencing_token;
                other.revoked = share.revoked;
                other.unattended = share.unattended;
                other
            })
            .collect();
        holder
    }
}
