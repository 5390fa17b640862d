//! Who waits for a name at the store, and what they are told.
//!
//! ```text
//!                     busy                       at the head, lease over
//!   acquire + place --------> place in the line ------------------------> held for `claim`
//!        ^                      |    |      |         offer: Granted          |
//!        |  poll (same token):  |    |      | lapsed, or nobody hears         | renew
//!        +----------------------+    |      v                                 v
//!                        withdraw    +---> gone                          held for `ttl`
//! ```
//! A message is a hint: whoever waits also has a timer. What is true stands in the record.

use alloc::vec::Vec;
use core::{fmt, time::Duration};

use crate::{Binding, Drift, FencingToken, Metadata, Mode, Moment, Retain, StoreTime, Token, Ttl};

/// Where a process hears what the store has to tell it: 64 random bits, 16 hexadecimal digits in
/// stores. The name of a channel or of a socket, so it is never made of anything a user wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(u64);

impl ListenerId {
    /// How many digits its written form has.
    pub const DIGITS: usize = 16;

    /// A listener of 64 bits, which the caller drew at random.
    #[must_use]
    pub const fn from_u64(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Reads the written form.
    #[must_use]
    pub fn from_hex(hex: &[u8]) -> Option<Self> {
        let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != Self::DIGITS || !hex.iter().all(lower) {
            return None;
        }
        let text = core::str::from_utf8(hex).ok()?;
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The wish for a place in the line, should the lock be busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlaceRequest {
    /// How long a lease runs that is handed to this place, unless its waiter renews it: the price
    /// of a waiter that died unnoticed. Never more than the ttl.
    pub claim: Ttl,
    /// The place lapses when its waiter did not ask again for so long. Whole milliseconds.
    pub live: Duration,
}

impl PlaceRequest {
    /// How long a place outlives the last word of its waiter, by default. Waiters that are told
    /// ask again after a third of it.
    pub const LIVE: Duration = Duration::from_secs(30);

    /// A place with these times.
    #[must_use]
    pub fn new(claim: Ttl, live: Duration) -> Self {
        Self { claim, live }
    }
}

/// A place in the line of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The token of the acquire that left it.
    pub token: Token,
    /// That acquire wants several names: at its turn the name is only reserved for it.
    pub is_set: bool,
    /// Where its waiter is told; nothing when it only asks.
    pub listener: Option<ListenerId>,
    /// When its waiter last asked, on the store's lease clock.
    pub seen: StoreTime,
    /// See [`PlaceRequest::live`].
    pub live: Duration,
    /// See [`PlaceRequest::claim`].
    pub claim: Ttl,
    /// How long the record outlives the lease.
    pub retain: Retain,
    /// What the waiter says of itself.
    pub metadata: Metadata,
    /// What its lease ends with besides its ttl.
    pub binding: Binding,
    /// The highest fencing token that the waiter has seen.
    pub floor: Option<FencingToken>,
    /// How many fencing tokens above its own the grant shall have.
    pub reserve: u32,
    /// It does not insist on its turn: at the head it is told that the lock is free, and asks.
    pub barging: bool,
    /// How its lease will live beside others.
    pub mode: Mode,
}

impl Place {
    /// Whether the waiter was not heard of for too long.
    #[must_use]
    pub fn is_lapsed(&self, now: StoreTime) -> bool {
        self.seen.saturating_add(self.live) < now
    }
}

/// A lease was handed to a waiter by whoever ended the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOff {
    /// The token of the waiter: the lease is its.
    pub token: Token,
    /// The fencing token of the grant.
    pub fencing_token: Option<FencingToken>,
    /// The last fencing token of the range that belongs to it.
    pub last_fence: Option<FencingToken>,
    /// When the waiter last asked, as the store saw it. Validity counts from the sending of that
    /// request, and only if the waiter knows its answer.
    pub seen: StoreTime,
    /// When the lease was handed over, on the same clock.
    pub at: StoreTime,
    /// How long it runs from then, unless renewed.
    pub claim: Duration,
    /// How many wait behind.
    pub waiting: u32,
}

impl HandOff {
    /// A lease for `token` from `at` on.
    #[must_use]
    pub const fn new(token: Token, seen: StoreTime, at: StoreTime, claim: Duration) -> Self {
        Self { token, fencing_token: None, last_fence: None, seen, at, claim, waiting: 0 }
    }

    /// How long the lease runs, counted from `sent`, when the waiter sent the question that the
    /// store saw at `seen`; the message came at `heard`.
    ///
    /// Nothing when the message does not belong to the last answered question, or when more time
    /// passed at the store than here: then its clock was stepped, and the waiter has to ask.
    ///
    /// The store ended the lease before at `at`, so at the real end of this one its clock shows
    /// `at + claim`, and `at - seen` of that was between question and hand-over. As the hand-over
    /// was before `heard`, the deadline is never later than the claim counted from `heard`.
    #[must_use]
    pub fn left(
        &self,
        seen: StoreTime,
        sent: Moment,
        heard: Moment,
        drift: Drift,
    ) -> Option<Duration> {
        let there = self.at.saturating_since(seen);
        let here = drift.longest(heard.saturating_since(sent));
        let is_answered = self.seen == seen && self.at >= seen;
        (is_answered && there <= here).then(|| there.saturating_add(self.claim))
    }
}

/// What a store tells a process. A hint: it may be late, lost or doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wakeup {
    /// The lease belongs to a waiter.
    Granted(HandOff),
    /// It makes sense that the waiter with this token asks again: its turn has come.
    Turn(Token),
    /// The waiter with this token is the first in line now, and the lease before it ends in so long
    /// at the latest, unless renewed: it is the one to look then.
    Next(Token, Duration),
    /// Somebody began to wait for the lease of this token.
    Waiting(Token),
    /// Somebody asked for the lease of this token back.
    Revoked(Token),
}

impl Wakeup {
    /// The token it is for.
    #[must_use]
    pub const fn token(&self) -> Token {
        match self {
            Self::Granted(hand_off) => hand_off.token,
            Self::Turn(token)
            | Self::Next(token, _)
            | Self::Waiting(token)
            | Self::Revoked(token) => *token,
        }
    }
}

/// Whether a message had a hearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Somebody listens there, or nobody can say.
    Perhaps,
    /// Certainly nobody listens there any more.
    Nobody,
}

/// The lines of a request's names, wherever a store keeps them. `index` is the place of the name in
/// the request.
///
/// Each call is part of the step that it belongs to: all of it happens, or none.
pub trait Lines {
    /// How many places there are.
    fn len(&mut self, index: usize) -> u32;
    /// The first place.
    fn first(&mut self, index: usize) -> Option<Place>;
    /// All places, the first in front.
    fn all(&mut self, index: usize) -> Vec<Place>;
    /// Whether a token has a place.
    fn has(&mut self, index: usize, token: Token) -> bool;
    /// Writes a place over the one with the same token, or at the end; and says where it is.
    fn put(&mut self, index: usize, place: Place) -> u32;
    /// Removes the place of a token; whether there was one.
    fn remove(&mut self, index: usize, token: Token) -> bool;
    /// Tells the waiter of a place that the lease is its (or, to a set, that its turn has come).
    /// When certainly nobody hears it, the place is passed over.
    fn offer(&mut self, index: usize, place: &Place, wakeup: Wakeup) -> Told;
    /// Tells anybody anything else.
    fn tell(&mut self, listener: ListenerId, wakeup: Wakeup);
}
