//! The plain family: a string with a ttl, compared before it is changed: what redislock, redsync,
//! redlock, redis-py and many others use. Both sides exclude each other on the same key.
//!
//! A [`Format`] says where a library has that key and how it writes a token; other clients' values
//! are any bytes. There is no fencing token, no metadata, and nothing is remembered of a lock that
//! was released. A key without a ttl is held by somebody for ever.

mod acquire;
mod exchange_token;
mod force_release;
mod format;
pub(crate) mod formats;
mod heal;
mod inspect;
mod list;
mod owner;
mod release;
mod renew;
mod shorten;
mod wake;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, Busy, ExchangeRequest, Exchanged, ForceReleaseRequest, Forced,
    Foreign, HealRequest, Healed, Holder, InspectRequest, Inspection, ListRequest, LockName,
    Moment, Names, NotHeld, Page, ReleaseRequest, Released, RenewRequest, Renewed, ShortenRequest,
    Shortened,
};
use fencelock_store::{
    BoxFuture, Capabilities, Hints, Reply, StoreError, Subscription, WakeupSink,
};
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
    connection::Answer,
    hearing,
    keys::KeyMapping,
    plug::Plug,
    reply::{Odd, bytes, foreign_type, number, time_left},
    wire::Wire,
};

pub(crate) use self::{format::Format, owner::Owner, wake::Wake};

/// Verbs that are a function of the module, `verb(format, wire, request, by)`.
macro_rules! verbs_of_format {
    ($($verb:ident($($request:ident: &$asked:ty)?) -> $answer:ty;)*) => {$(
        fn $verb<'a>(
            &'a self,
            wire: &'a Wire,
            $($request: &'a $asked,)?
            by: Moment,
        ) -> crate::plug::Call<'a, $answer> {
            Box::pin($verb(self, wire, $($request,)? by))
        }
    )*};
}

impl Plug for Format {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare(self.name);
        if self.wake == Wake::Channels {
            // Its spinning registries say nothing.
            (can.wakeups, can.hints) = (true, Hints::Some);
        }
        can
    }

    fn listen<'a>(
        &'a self,
        wire: &'a Wire,
        sink: Arc<dyn WakeupSink>,
        _: Moment,
    ) -> BoxFuture<'a, Result<Subscription, StoreError>> {
        let listening = match self.wake {
            Wake::Channels => hearing::listen(wire, sink),
            Wake::Nothing | Wake::List(_) => Err(self.refuse(wire, "wakeups")),
        };
        Box::pin(std::future::ready(listening))
    }

    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String> {
        let Some(prefix) = prefix.or(self.prefix) else {
            return Err(format!(
                "the {} dialect needs a key prefix: that of the application's configuration, in Spring \
                 the registry key",
                self.name
            ));
        };
        let of_registry = format!("{prefix}:");
        let prefix = match self.wake {
            Wake::Channels if prefix.contains(['*', '?', '[', ']']) => {
                let what = "a registry key with * ? [ or ] would be a pattern where Spring listens";
                return Err(what.to_owned());
            }
            Wake::Channels => &of_registry,
            _ => prefix,
        };
        KeyMapping::after(prefix).ok_or_else(|| "a key prefix has at most 128 bytes".to_owned())
    }

    verbs_of_format!(
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
