//! The plain dialect: a string with a ttl at the very name of the lock, compared before it is
//! changed: what redislock, redsync, redlock, redis-py and many others use. Both sides exclude each
//! other on the same key. Some write something of theirs before the name: the prefix, `mutex:` for
//! redis-semaphore, `redlock:` for pottery, `lock:` for python-redis-lock, the registry key and a
//! colon for Spring's RedisLockRegistry.
//!
//! The value is our token in 32 hexadecimal digits, other libraries' are any bytes. There is no
//! fencing token, no metadata, and nothing is remembered of a lock that was released.

mod acquire;
mod exchange_token;
mod force_release;
mod heal;
mod inspect;
mod list;
mod release;
mod renew;
mod shorten;

use fencelock_core::{
    AcquireRequest, Acquired, Busy, ExchangeRequest, Exchanged, ForceReleaseRequest, Forced,
    Foreign, HealRequest, Healed, Holder, InspectRequest, Inspection, ListRequest, LockName,
    Moment, Names, NotHeld, Page, ReleaseRequest, Released, RenewRequest, Renewed, ShortenRequest,
    Shortened,
};
use fencelock_store::{Capabilities, Reply, StoreError};
use redis::Value;

use self::{
    acquire::acquire,
    exchange_token::exchange_token,
    force_release::force_release,
    heal::heal,
    inspect::{inspect, reach},
    list::list,
    release::release,
    renew::renew,
    shorten::shorten,
};
use crate::{
    Dialect,
    connection::Answer,
    keys::KeyMapping,
    plug::{Plug, verbs},
    reply::{Odd, bytes, foreign_type, number, time_left},
    wire::Wire,
};

/// How it is spoken.
#[derive(Debug)]
pub(crate) struct Plain;

impl Plug for Plain {
    fn capabilities(&self) -> Capabilities {
        Capabilities::bare(Dialect::Plain.name())
    }

    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String> {
        KeyMapping::after(prefix.unwrap_or_default())
            .ok_or_else(|| "a key prefix has at most 128 bytes".to_owned())
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
        heal(request: &HealRequest) -> Healed;
    );
}

fn read<A>(
    wire: &Wire,
    answer: &Answer,
    decode: impl FnOnce(&Value) -> Result<A, Odd>,
) -> Result<Reply<A>, StoreError> {
    let decoded = decode(&answer.value).map_err(|odd| wire.odd(odd))?;
    Ok(Reply::new(decoded).of(answer.greeting.incarnation.clone()))
}

/// Splits a list into its letter and the rest.
fn lettered(value: &Value) -> Result<(u8, &[Value]), Odd> {
    let (letter, rest) = crate::reply::list(value)?.split_first().ok_or(Odd("an empty list"))?;
    match bytes(letter)? {
        [letter] => Ok((*letter, rest)),
        _ => Err(UNKNOWN_LETTER),
    }
}

fn name<'n>(index: &Value, names: &'n Names) -> Result<&'n LockName, Odd> {
    let index = usize::try_from(number(index)?).ok().and_then(|index| index.checked_sub(1));
    index.and_then(|index| names.as_slice().get(index)).ok_or(Odd("a key that was not asked"))
}

fn busy(rest: &[Value], names: &Names) -> Result<Busy, Odd> {
    match rest {
        [index, left] => Ok(Busy::new(name(index, names)?.clone(), Holder::new(time_left(left)?))),
        _ => Err(UNKNOWN_LETTER),
    }
}

fn foreign(rest: &[Value], names: &Names) -> Result<Foreign, Odd> {
    match rest {
        [index, word] => Ok(Foreign::new(name(index, names)?.clone(), foreign_type(bytes(word)?))),
        _ => Err(UNKNOWN_LETTER),
    }
}

/// What `held.lua` says.
fn not_held(why: &[u8]) -> Result<NotHeld, Odd> {
    match why {
        b"a" => Ok(NotHeld::Absent),
        b"t" => Ok(NotHeld::Taken),
        [b'f', word @ ..] => Ok(NotHeld::Foreign(foreign_type(word))),
        _ => Err(UNKNOWN_LETTER),
    }
}

/// An error of the server that `held.lua` passes on.
fn passed_on(why: &[u8]) -> Option<String> {
    let text = why.strip_prefix(b"e")?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Something that no script writes.
const UNKNOWN_LETTER: Odd = Odd("an unknown answer");

#[cfg(test)]
pub(crate) mod tests;
