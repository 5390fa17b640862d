//! Answers of scripts that begin with a letter: what the formats of other libraries have in common.

use fencelock_core::{Busy, Foreign, Holder, LockName, Names, NotHeld};
use fencelock_store::{Reply, StoreError};
use redis::Value;

use crate::{
    connection::Answer,
    reply::{self, Odd, bytes, foreign_type, number, time_left},
    wire::Wire,
};

pub(crate) fn read<A>(
    wire: &Wire,
    answer: &Answer,
    decode: impl FnOnce(&Value) -> Result<A, Odd>,
) -> Result<Reply<A>, StoreError> {
    let decoded = decode(&answer.value).map_err(|odd| wire.odd(odd))?;
    Ok(Reply::new(decoded).of(answer.greeting.incarnation.clone()))
}

/// Splits a list into its letter and the rest.
pub(crate) fn lettered(value: &Value) -> Result<(u8, &[Value]), Odd> {
    let (letter, rest) = reply::list(value)?.split_first().ok_or(Odd("an empty list"))?;
    match bytes(letter)? {
        [letter] => Ok((*letter, rest)),
        _ => Err(UNKNOWN_LETTER),
    }
}

pub(crate) fn name<'n>(index: &Value, names: &'n Names) -> Result<&'n LockName, Odd> {
    let index = usize::try_from(number(index)?).ok().and_then(|index| index.checked_sub(1));
    index.and_then(|index| names.as_slice().get(index)).ok_or(Odd("a key that was not asked"))
}

pub(crate) fn busy(rest: &[Value], names: &Names) -> Result<Busy, Odd> {
    match rest {
        [index, left] => Ok(Busy::new(name(index, names)?.clone(), Holder::new(time_left(left)?))),
        _ => Err(UNKNOWN_LETTER),
    }
}

pub(crate) fn foreign(rest: &[Value], names: &Names) -> Result<Foreign, Odd> {
    match rest {
        [index, word] => Ok(Foreign::new(name(index, names)?.clone(), foreign_type(bytes(word)?))),
        _ => Err(UNKNOWN_LETTER),
    }
}

/// What `held.lua` says.
pub(crate) fn not_held(why: &[u8]) -> Result<NotHeld, Odd> {
    match why {
        b"a" => Ok(NotHeld::Absent),
        b"t" => Ok(NotHeld::Taken),
        [b'f', word @ ..] => Ok(NotHeld::Foreign(foreign_type(word))),
        _ => Err(UNKNOWN_LETTER),
    }
}

/// An error of the server that `held.lua` passes on.
pub(crate) fn passed_on(why: &[u8]) -> Option<String> {
    let text = why.strip_prefix(b"e")?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Something that no script writes.
pub(crate) const UNKNOWN_LETTER: Odd = Odd("an unknown answer");
