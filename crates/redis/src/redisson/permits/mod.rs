//! RPermitExpirableSemaphore: a number of free permits, and a set of those that are held with the ends of
//! their leases. A token of ours is a permit, or the first of several.

mod acquire;
mod inspect;
mod renew;
mod take_back;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, Forced, InspectRequest, Inspection, LimitSet,
    ListRequest, LockName, Moment, Page, ReleaseRequest, Released, RenewRequest, Renewed,
    SetLimitRequest, ShortenRequest, Shortened, Token,
};
use fencelock_store::{
    BoxFuture, Capabilities, Hints, Modes, StoreError, Subscription, WakeupSink,
};

use self::{
    acquire::{acquire, set_limit},
    inspect::{inspect, list, reach},
    renew::{renew, shorten},
    take_back::{force_release, release},
};
use super::{
    Keys,
    names::{prefixed, suffixed},
};
use crate::{
    connection::Channels,
    hearing::{self, By, ByKey, Told},
    keys::KeyMapping,
    plug::{Call, Plug},
    script::Question,
    wire::Wire,
};

/// One of the kinds of such a semaphore.
#[derive(Debug)]
pub(crate) struct Permits {
    /// As in [`Dialect::name`](crate::Dialect::name).
    name: &'static str,
    /// What the set of those who hold permits is called.
    set: &'static str,
    /// All who hold permits are in it.
    counts_all: bool,
}

/// `RedissonClient.getPermitExpirableSemaphore`.
pub(crate) static EXPIRABLE: Permits =
    Permits { name: "redisson-permits", set: "timeout", counts_all: true };
/// `RedissonClient.getSemaphore`: permits of Redisson's have no owner and no end. Ours have a lease, in a
/// set of our own, so that those of a process that died come back with the next question of ours.
pub(crate) static PLAIN: Permits =
    Permits { name: "redisson-semaphore", set: "fencelock_permits", counts_all: false };

fn channel(key: &[u8]) -> Vec<u8> {
    prefixed("redisson_sc", key)
}

/// Where Redisson says that permits are free: there may be some for many.
fn told(wire: &Wire, name: &LockName, _: &Token) -> ByKey {
    let key = wire.key(name);
    let kind = if wire.connections.is_cluster() { Channels::Sharded } else { Channels::Usual };
    let told = Told { kind: By::Channel(kind), is_for_all: true, ..Told::on(channel(&key)) };
    (key, vec![told])
}

/// How and where the scripts tell: what `permits.lua` wants to know.
fn tell(question: &mut Question, wire: &Wire, name: &LockName) {
    question.arg(if wire.connections.is_cluster() { b"c" } else { b"p" });
    question.arg(&channel(&wire.key(name)));
}

impl Permits {
    /// A name and its set.
    fn keys_of<'a>(&self, wire: &'a Wire, name: &'a LockName) -> Keys<'a> {
        Keys::new(wire, [name]).beside(|key| suffixed(key, self.set))
    }
}

/// Verbs that are a function of the module, `verb(permits, wire, request, by)`.
macro_rules! verbs_of_permits {
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

impl Plug for Permits {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare(self.name);
        can.modes = Modes::NONE;
        (can.modes.permits, can.modes.set_limit) = (true, self.counts_all);
        (can.wakeups, can.hints) = (true, Hints::All);
        can.max_names = 1;
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
        Box::pin(std::future::ready(hearing::listen(wire, sink, by)))
    }

    verbs_of_permits!(
        reach() -> ();
        acquire(request: &AcquireRequest) -> Acquired;
        renew(batch: &[RenewRequest]) -> Vec<Renewed>;
        release(request: &ReleaseRequest) -> Released;
        inspect(request: &InspectRequest) -> Inspection;
        list(request: &ListRequest) -> Page;
        force_release(request: &ForceReleaseRequest) -> Forced;
        shorten(request: &ShortenRequest) -> Shortened;
        set_limit(request: &SetLimitRequest) -> LimitSet;
    );
}
