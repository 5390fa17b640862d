//! The plain dialect: a string with a ttl at the very name of the lock, compared before it is
//! changed: what redislock, redsync, redlock, redis-py and many others use. Both sides exclude each
//! other on the same key.
//!
//! The value is our token in 32 hexadecimal digits, other libraries' are any bytes. There is no
//! fencing token, no metadata, and nothing is remembered of a lock that was released.

mod acquire;
mod downgrade;
mod exchange_token;
mod force_release;
mod heal;
mod inspect;
mod list;
mod listen;
mod raise_fence;
mod release;
mod renew;
mod revoke;
mod set_limit;
mod shorten;

use fencelock_core::{Busy, Foreign, Holder, LockName, Names, NotHeld};
use fencelock_store::{Reply, StoreError};
use redis::Value;

pub(crate) use self::{
    acquire::acquire,
    downgrade::downgrade,
    exchange_token::exchange_token,
    force_release::force_release,
    heal::heal,
    inspect::{inspect, reach},
    list::list,
    listen::listen,
    raise_fence::raise_fence,
    release::release,
    renew::renew,
    revoke::revoke,
    set_limit::set_limit,
    shorten::shorten,
};
use crate::{
    connection::Answer,
    reply::{Odd, bytes, foreign_type, number, time_left},
    wire::Wire,
};

/// Why nobody can hold a name beside others.
const ONE_HOLDER: &str = "the plain dialect of redis has no locks that several hold together";

/// Refuses what callers would rely on and this format can't keep.
fn refuse(wire: &Wire, asked: &[(bool, &str)]) -> Result<(), StoreError> {
    wire.connections.check_open()?;
    match asked.iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, what)) => {
            Err(StoreError::unsupported(format!("the plain dialect of redis has no {what}")))
        }
    }
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
