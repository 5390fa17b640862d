//! RLock, RFencedLock and RedissonSpinLock: a hash of one owner and how often it holds.

mod acquire;
mod exchange_token;
mod fair;
mod force_release;
mod heal;
mod inspect;
mod release;
mod renew;
mod shorten;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, ExchangeRequest, Exchanged, Fence, FencingToken, ForceReleaseRequest,
    Forced, HealRequest, Healed, InspectRequest, Inspection, ListRequest, LockName, Mode, Moment,
    Page, ReleaseRequest, Released, RenewRequest, Renewed, ShortenRequest, Shortened, Token,
};
use fencelock_store::{BoxFuture, Capabilities, Hints, StoreError, Subscription, WakeupSink};
use redis::Value;

use self::{
    acquire::acquire,
    exchange_token::exchange_token,
    force_release::force_release,
    heal::heal,
    inspect::{inspect, list, reach},
    release::release,
    renew::renew,
    shorten::shorten,
};
use super::names::prefixed;
use crate::{
    connection::Channels,
    hearing::{self, By, ByKey, Told},
    keys::KeyMapping,
    plug::{Call, Plug},
    reply::{Odd, bytes},
    script::Question,
    wire::Wire,
};

/// One of the kinds of such a lock.
#[derive(Debug)]
pub(crate) struct Lock {
    /// As in [`Dialect::name`](crate::Dialect::name).
    name: &'static str,
    /// A release tells those who wait.
    tells: bool,
    /// There is a counter of fencing tokens beside it.
    fences: bool,
    /// Those who wait have a queue.
    queues: bool,
}

/// `RedissonClient.getLock`.
pub(crate) static LOCK: Lock = Lock { name: "redisson", tells: true, fences: false, queues: false };
/// `getFencedLock`.
pub(crate) static FENCED: Lock =
    Lock { name: "redisson-fenced", tells: true, fences: true, queues: false };
/// `getSpinLock`, whose waiters ask again and again.
pub(crate) static SPIN: Lock =
    Lock { name: "redisson-spin", tells: false, fences: false, queues: false };
/// `getFairLock`.
pub(crate) static FAIR: Lock =
    Lock { name: "redisson-fair", tells: true, fences: false, queues: true };

impl Lock {
    /// The channel of a lock's waiters.
    fn channel(key: &[u8]) -> Vec<u8> {
        prefixed("redisson_lock__channel", key)
    }

    fn counter(key: &[u8]) -> Vec<u8> {
        prefixed("redisson_lock_token", key)
    }

    /// Says how a lock that becomes free is told, and where: what `free.lua` wants to know.
    fn tell<'n>(
        &self,
        question: &mut Question,
        wire: &Wire,
        names: impl Iterator<Item = &'n LockName>,
    ) {
        question.arg(match (self.tells, wire.connections.is_cluster()) {
            (false, _) => b"",
            (true, false) => b"p",
            (true, true) => b"c",
        });
        for name in names {
            question.arg(&Self::channel(&wire.key(name)));
        }
    }

    /// A fencing token as the scripts say it; nothing where there are none.
    fn fence(&self, value: &Value) -> Result<Option<FencingToken>, Odd> {
        if !self.fences {
            return Ok(None);
        }
        let text = std::str::from_utf8(bytes(value)?).ok();
        let number = text.and_then(|text| text.parse().ok());
        Ok(number.and_then(|number| FencingToken::new(number).ok()))
    }

    fn granted(&self, value: &Value) -> Result<Fence, Odd> {
        Ok(self.fence(value)?.map_or(Fence::None, Fence::Token))
    }
}

/// Where Redisson says that a lock is free. On a cluster it uses the channels of slots, since 3.22.
fn told(wire: &Wire, name: &LockName, _: &Token) -> ByKey {
    let key = wire.key(name);
    let kind = if wire.connections.is_cluster() { Channels::Sharded } else { Channels::Usual };
    let told = Told { kind: By::Channel(kind), ..Told::on(Lock::channel(&key)) };
    (key, vec![told])
}

/// The field of an owner, as it is; nothing for one that Redisson would take for something else.
fn field_of(mode: &Mode) -> Result<&[u8], &'static str> {
    let Mode::Owned(owner) = mode else { return Ok(b"") };
    let field = owner.as_bytes();
    let is_taken = field == b"mode" || field.ends_with(b":write") || field.ends_with(b":0");
    if is_taken || field.is_empty() { Err("owner of that name") } else { Ok(field) }
}

/// Verbs that are a function of the module, `verb(lock, wire, request, by)`.
macro_rules! verbs_of_lock {
    ($($verb:ident($($request:ident: &$asked:ty)?) -> $answer:ty;)*) => {$(
        fn $verb<'a>(
            &'a self,
            wire: &'a Wire,
            $($request: &'a $asked,)?
            by: Moment,
        ) -> Call<'a, $answer> {
            Box::pin($verb(self, wire, $($request,)? by))
        }
    )*};
}

impl Plug for Lock {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare(self.name);
        can.fencing = self.fences;
        (can.modes.exclusive, can.modes.owned) = (true, !self.queues);
        if self.queues {
            can.max_names = 1;
        }
        if self.tells {
            (can.wakeups, can.hints) = (true, Hints::All);
        }
        can
    }

    fn keys(&self, prefix: Option<&str>) -> Result<KeyMapping, String> {
        let prefix = prefix.unwrap_or_default();
        KeyMapping::after(prefix).ok_or_else(|| "a key prefix has at most 128 bytes".to_owned())
    }

    fn listen<'a>(
        &'a self,
        wire: &'a Wire,
        sink: Arc<dyn WakeupSink>,
        by: Moment,
    ) -> BoxFuture<'a, Result<Subscription, StoreError>> {
        let listening = match self.tells {
            true => hearing::listen(wire, sink, by),
            false => Err(self.refuse(wire, "wakeups")),
        };
        Box::pin(std::future::ready(listening))
    }

    verbs_of_lock!(
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
