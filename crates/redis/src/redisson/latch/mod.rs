//! RCountDownLatch: a number of steps that are missing. An open latch is a key that is not there, and so is one
//! that nobody has set up: as in Redisson, whoever waits before that goes on at once.

mod look;
mod step;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, Forced, InspectRequest, Inspection, LimitSet,
    ListRequest, LockName, Moment, Page, ReleaseRequest, Released, RenewRequest, Renewed,
    SetLimitRequest, Token,
};
use fencelock_store::{
    BoxFuture, Capabilities, Hints, Modes, Reply, StoreError, Subscription, WakeupSink,
};

use self::{
    look::{force_release, inspect, list, reach},
    step::{acquire, set_limit},
};
use super::{Keys, names::suffixed};
use crate::{
    connection::Channels,
    hearing::{self, By, ByKey, Told},
    keys::KeyMapping,
    plug::{Call, Plug, verbs},
    script::Question,
    wire::Wire,
};

/// `RedissonClient.getCountDownLatch`.
#[derive(Debug)]
pub(crate) struct CountDown;

/// Always with braces, also around those of a name.
fn channel(key: &[u8]) -> Vec<u8> {
    [&b"redisson_countdownlatch__channel__{"[..], key, b"}"].concat()
}

/// Where Redisson says that a latch opened, or was shut: all who wait look.
fn told(wire: &Wire, name: &LockName, _: &Token) -> ByKey {
    let key = wire.key(name);
    let kind = if wire.connections.is_cluster() { Channels::Sharded } else { Channels::Usual };
    let told = Told { kind: By::Channel(kind), is_for_all: true, ..Told::on(channel(&key)) };
    (key, vec![told])
}

/// How and where the scripts tell: what `latch.lua` wants to know.
fn tell(question: &mut Question, wire: &Wire, name: &LockName) {
    question.arg(if wire.connections.is_cluster() { b"c" } else { b"p" });
    question.arg(&channel(&wire.key(name)));
}

/// A name and our steps.
fn keys_of<'a>(wire: &'a Wire, name: &'a LockName) -> Keys<'a> {
    Keys::new(wire, [name]).beside(|key| suffixed(key, "fencelock_steps"))
}

impl Plug for CountDown {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare("redisson-latch");
        can.modes = Modes::NONE;
        (can.modes.latch, can.modes.latch_set_up) = (true, true);
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

    /// Nothing is held: a step outlives the process that took it.
    fn renew<'a>(
        &'a self,
        wire: &'a Wire,
        _: &'a [RenewRequest],
        _: Moment,
    ) -> Call<'a, Vec<Renewed>> {
        let refused = self.refuse(wire, "leases: steps of a latch are never taken back");
        Box::pin(std::future::ready(Err(refused)))
    }

    fn release<'a>(
        &'a self,
        wire: &'a Wire,
        _: &'a ReleaseRequest,
        _: Moment,
    ) -> Call<'a, Released> {
        let open = wire.connections.check_open();
        Box::pin(std::future::ready(open.map(|()| Reply::new(Released::Expired))))
    }

    verbs!(
        reach() -> ();
        acquire(request: &AcquireRequest) -> Acquired;
        inspect(request: &InspectRequest) -> Inspection;
        list(request: &ListRequest) -> Page;
        force_release(request: &ForceReleaseRequest) -> Forced;
        set_limit(request: &SetLimitRequest) -> LimitSet;
    );
}
