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
    hearing::{self, ByKey, Told},
    keys::KeyMapping,
    plug::{Plug, verbs},
    script::Question,
    wire::Wire,
};

/// `RedissonClient.getPermitExpirableSemaphore`.
#[derive(Debug)]
pub(crate) struct Permits;

fn channel(key: &[u8]) -> Vec<u8> {
    prefixed("redisson_sc", key)
}

/// Where Redisson says that permits are free: there may be some for many.
fn told(wire: &Wire, name: &LockName, _: &Token) -> ByKey {
    let key = wire.key(name);
    let kind = if wire.connections.is_cluster() { Channels::Sharded } else { Channels::Usual };
    let told = Told { kind, is_for_all: true, ..Told::on(channel(&key)) };
    (key, vec![told])
}

/// How and where the scripts tell: what `permits.lua` wants to know.
fn tell(question: &mut Question, wire: &Wire, name: &LockName) {
    question.arg(if wire.connections.is_cluster() { b"c" } else { b"p" });
    question.arg(&channel(&wire.key(name)));
}

/// A name and its set.
fn keys<'a>(wire: &'a Wire, name: &'a LockName) -> Keys<'a> {
    Keys::new(wire, [name]).beside(|key| suffixed(key, "timeout"))
}

impl Plug for Permits {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare("redisson-permits");
        can.modes = Modes::NONE;
        (can.modes.permits, can.modes.set_limit) = (true, true);
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

    verbs!(
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
