//! RReadWriteLock: a hash of its mode, of readers, each with a lease of its own beside it, or of a writer.

mod acquire;
mod downgrade;
mod exchange_token;
mod force_release;
mod heal;
mod inspect;
mod release;
mod renew;
mod shorten;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    ForceReleaseRequest, Forced, HealRequest, Healed, InspectRequest, Inspection, ListRequest,
    LockName, Moment, Page, ReleaseRequest, Released, RenewRequest, Renewed, ShortenRequest,
    Shortened, Token,
};
use fencelock_store::{
    BoxFuture, Capabilities, Hints, Modes, StoreError, Subscription, WakeupSink,
};

use self::{
    acquire::acquire,
    downgrade::downgrade,
    exchange_token::exchange_token,
    force_release::force_release,
    heal::heal,
    inspect::{inspect, list, reach},
    release::release,
    renew::renew,
    shorten::shorten,
};
use super::{
    Keys,
    names::{own_field, prefixed, suffixed},
};
use crate::{
    connection::Channels,
    hearing::{self, By, ByKey, Told},
    keys::KeyMapping,
    plug::{Plug, verbs},
    wire::Wire,
};

/// `RedissonClient.getReadWriteLock`.
#[derive(Debug)]
pub(crate) struct Rw;

fn channel(key: &[u8]) -> Vec<u8> {
    prefixed("redisson_rwlock", key)
}

/// Where Redisson says that a lock is free: a writer that goes makes room for many.
fn told(wire: &Wire, name: &LockName, _: &Token) -> ByKey {
    let key = wire.key(name);
    let kind = if wire.connections.is_cluster() { Channels::Sharded } else { Channels::Usual };
    let told = Told { kind: By::Channel(kind), is_for_all: true, ..Told::on(channel(&key)) };
    (key, vec![told])
}

/// How the scripts tell: what `free.lua` wants to know.
fn how(wire: &Wire) -> &'static [u8] {
    if wire.connections.is_cluster() { b"c" } else { b"p" }
}

/// The key of the lease of a reader.
fn lease(key: &[u8], token: &Token) -> Vec<u8> {
    let field = own_field(token);
    suffixed(key, &format!("{}:rwlock_timeout:1", String::from_utf8_lossy(&field)))
}

fn keys<'a>(
    wire: &'a Wire,
    names: impl IntoIterator<Item = &'a LockName>,
    token: &Token,
) -> Keys<'a> {
    Keys::new(wire, names).beside(|key| lease(key, token))
}

impl Plug for Rw {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::bare("redisson-rw");
        can.modes = Modes::EXCLUSIVE;
        (can.modes.shared, can.modes.downgrade) = (true, true);
        (can.wakeups, can.hints) = (true, Hints::All);
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
        exchange_token(request: &ExchangeRequest) -> Exchanged;
        downgrade(request: &DowngradeRequest) -> Downgraded;
        heal(request: &HealRequest) -> Healed;
    );
}
