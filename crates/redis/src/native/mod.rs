//! The native format: one key for each lock, a fixed-width string that the scripts read and write;
//! a hash while somebody waits for it, or several hold it together.
//!
//! Layout, arguments and replies stand at the head of each script, above all of `acquire.lua`.
//! Each file here is one verb: what is asked, and how the answer is read.

mod acquire;
mod downgrade;
mod exchange_token;
mod force_release;
mod heal;
mod hints;
mod inspect;
mod join;
mod list;
mod listen;
mod raise_fence;
mod release;
mod renew;
mod revoke;
mod seed;
mod set_limit;
mod shorten;

use std::{sync::Arc, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged, FenceLimit,
    FencingToken, ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection,
    LimitSet, ListRequest, ListenerId, Moment, Page, RaiseFenceRequest, Raised, Refusal,
    ReleaseRequest, Released, RenewRequest, Renewed, Retain, RevokeRequest, Revoked,
    SetLimitRequest, ShortenRequest, Shortened, StoreTime, Ttl,
};
use fencelock_store::{
    BoxFuture, Capabilities, Modes, Reply, StoreError, Subscription, WakeupSink,
};

pub use self::seed::{IfUsed, Initialised};
use self::{
    acquire::acquire,
    downgrade::downgrade,
    exchange_token::exchange_token,
    force_release::force_release,
    heal::heal,
    inspect::{inspect, reach},
    list::list,
    raise_fence::raise_fence,
    release::release,
    renew::renew,
    revoke::revoke,
    set_limit::set_limit,
    shorten::shorten,
};
pub(crate) use self::{hints::LineHints, seed::seed};
use crate::{
    Dialect,
    connection::Answer,
    keys::{self, KeyMapping},
    plug::{Plug, verbs},
    reply::{Fields, Odd, bytes},
    wire::Wire,
};

/// How it is spoken.
#[derive(Debug)]
pub(crate) struct Native;

impl Plug for Native {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::full(Dialect::Native.name());
        (can.queue, can.revoke, can.wakeups) = (true, true, true);
        can.modes = Modes::ALL;
        can
    }

    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String> {
        KeyMapping::prefixed(prefix.unwrap_or(keys::DEFAULT_PREFIX))
            .ok_or_else(|| keys::PREFIX_LIMITS.into())
    }

    fn has_marker(&self) -> bool {
        true
    }

    fn listen<'a>(
        &'a self,
        wire: &'a Wire,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'a, Result<Subscription, StoreError>> {
        Box::pin(listen::listen(wire, sink, by))
    }

    verbs!(
        reach() -> ();
        acquire(request: &AcquireRequest) -> Acquired;
        renew(batch: &[RenewRequest]) -> Vec<Renewed>;
        release(request: &ReleaseRequest) -> Released;
        inspect(request: &InspectRequest) -> Inspection;
        list(request: &ListRequest) -> Page;
        force_release(request: &ForceReleaseRequest) -> Forced;
        shorten(request: &ShortenRequest) -> Shortened;
        exchange_token(request: &ExchangeRequest) -> Exchanged;
        downgrade(request: &DowngradeRequest) -> Downgraded;
        set_limit(request: &SetLimitRequest) -> LimitSet;
        raise_fence(request: &RaiseFenceRequest) -> Raised;
        heal(request: &HealRequest) -> Healed;
        revoke(request: &RevokeRequest) -> Revoked;
    );
}

/// The server counts expiry in whole milliseconds, from an instant just before it tells the time.
const ROUNDING_MS: u128 = 2;

/// A ttl as the record has it.
pub(crate) fn ttl_digits(ttl: Ttl) -> [u8; 8] {
    digits(u64::from(ttl.as_millis()))
}

/// How long a record outlives its last use, in ms.
fn retain_ms(retain: Retain) -> String {
    retain.as_duration().as_millis().to_string()
}

/// A fencing token as the record has it; all zeros for none.
fn fence_digits(token: Option<FencingToken>) -> [u8; 16] {
    digits(token.map_or(0, FencingToken::as_u64))
}

/// A deadline; all nines for none.
fn deadline_digits(deadline: Option<StoreTime>) -> [u8; 16] {
    const NEVER: u64 = 9_999_999_999_999_999;
    digits(deadline.map_or(NEVER, StoreTime::as_micros).min(NEVER))
}

/// How far a token that a client names may run ahead of the server's clock, in us.
fn ahead_us() -> String {
    FenceLimit::default().as_duration().as_micros().to_string()
}

/// The most that fits into a place: more than a day.
const LIVE_MS_MAX: u64 = 99_999_999;

/// A span in whole ms.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A listener as the record has it; all zeros for none.
fn listener_digits(listener: Option<ListenerId>) -> [u8; ListenerId::DIGITS] {
    let mut text = [b'0'; ListenerId::DIGITS];
    let mut bits = listener.map_or(0, ListenerId::as_u64);
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789abcdef"[usize::from(bits.to_le_bytes()[0] & 15)];
        bits >>= 4;
    }
    text
}

/// The marks of a lease that is new or renewed.
fn mark_unattended(unattended: bool) -> u8 {
    if unattended { b'2' } else { b'0' }
}

/// A number with leading zeros, cut at the left.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut text = [b'0'; N];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    text
}

fn refusal(letter: u8) -> Option<Refusal> {
    match letter {
        b's' => Some(Refusal::TokenRetired),
        b'd' => Some(Refusal::DeadlinePassed),
        b'a' => Some(Refusal::FenceAhead),
        b'l' => Some(Refusal::QueueFull),
        _ => None,
    }
}

/// Reads an answer of one string: time, letter and the rest.
fn read<A>(
    wire: &Wire,
    answer: Answer,
    decode: impl FnOnce(u8, Fields<'_>, StoreTime) -> Result<A, Odd>,
) -> Result<Reply<A>, StoreError> {
    let decoded = Fields::new(&answer.value).and_then(|mut fields| {
        let at = fields.time()?;
        let letter = fields.letter()?;
        Ok((decode(letter, fields, at)?, at))
    });
    let (decoded, at) = decoded.map_err(|odd| wire.odd(odd))?;
    Ok(Reply::new(decoded).at(at).of(answer.greeting.incarnation))
}

/// Reads an answer of a list: the time, then as many strings as were asked for.
fn read_list<A>(
    wire: &Wire,
    answer: Answer,
    count: usize,
    mut decode: impl FnMut(u8, Fields<'_>, StoreTime) -> Result<A, Odd>,
) -> Result<Reply<Vec<A>>, StoreError> {
    let decoded = crate::reply::list(&answer.value).and_then(|replies| {
        let (time, replies) = replies.split_first().ok_or(Odd("an empty list"))?;
        bytes(time)?;
        let at = Fields::new(time)?.time()?;
        if replies.len() != count {
            return Err(Odd("a list of another length than asked for"));
        }
        let each = |value| {
            let mut fields = Fields::new(value)?;
            let letter = fields.letter()?;
            decode(letter, fields, at)
        };
        Ok((replies.iter().map(each).collect::<Result<Vec<A>, Odd>>()?, at))
    });
    let (decoded, at) = decoded.map_err(|odd| wire.odd(odd))?;
    Ok(Reply::new(decoded).at(at).of(answer.greeting.incarnation))
}

/// A letter that no script writes.
const UNKNOWN_LETTER: Odd = Odd("an unknown answer");

#[cfg(test)]
mod tests;
