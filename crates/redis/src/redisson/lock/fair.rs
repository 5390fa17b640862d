//! RFairLock: the same hash, with a queue of those who wait. A waiter has a place by its token, and a
//! channel of its own, on which it is called.
//!
//! Redisson waits for a waiter that does not come for as long as it said that it would wait, by default
//! five minutes; ours say [`WAITED_FOR`] and come again before that.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, ForceReleaseRequest, Forced, Inspection, LockName, Moment,
    ReleaseRequest, Released, Token,
};
use fencelock_store::StoreResult;

use super::{Lock, acquire::decode, inspect::seen};
use crate::{
    connection::{Again, Channels, Order},
    hearing::{By, ByKey, Told},
    lettered::{self, UNKNOWN_LETTER},
    redisson::{Keys, names::prefixed, own_field},
    reply::{bytes, list},
    script::{Script, script},
    wire::Wire,
};

static ACQUIRE: LazyLock<Script> = script!(
    "../../scripts/redisson/lock/queue.lua",
    "../../scripts/redisson/lock/fair_acquire.lua",
);
static RELEASE: LazyLock<Script> = script!(
    "../../scripts/redisson/lock/queue.lua",
    "../../scripts/redisson/lock/fair_release.lua",
);
static FORCE: LazyLock<Script> = script!(
    "../../scripts/redisson/lock/look.lua",
    "../../scripts/redisson/lock/queue.lua",
    "../../scripts/redisson/lock/fair_force.lua",
);

/// How long everybody waits for a waiter of ours that died: three of its looks.
const WAITED_FOR: Duration = Duration::from_secs(15);

fn keys<'a>(wire: &'a Wire, name: &'a LockName) -> Keys<'a> {
    Keys::new(wire, [name])
        .beside(|key| prefixed("redisson_lock_queue", key))
        .beside(|key| prefixed("redisson_lock_timeout", key))
}

/// The channel of one waiter, which is about nobody else.
pub(super) fn told(wire: &Wire, name: &LockName, token: &Token) -> ByKey {
    let mut channel = Lock::channel(&wire.key(name));
    channel.push(b':');
    channel.extend_from_slice(&own_field(token));
    let kind = if wire.connections.is_cluster() { Channels::Sharded } else { Channels::Usual };
    (channel.clone(), vec![Told { kind: By::Channel(kind), ..Told::on(channel) }])
}

pub(super) async fn acquire(
    lock: &Lock,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let mut question = keys(wire, request.names.first()).ask(&ACQUIRE);
    question.arg(&own_field(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    // Who is told has a place; who is not would be waited for in vain.
    let queues = request.place.is_some() && request.listener.is_some();
    let wait = if queues { WAITED_FOR.as_millis().to_string() } else { String::new() };
    question.arg(wait.as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| decode(lock, request, value))
}

pub(super) async fn release(
    lock: &Lock,
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    let name = request.names.first();
    let mut question = keys(wire, name).ask(&RELEASE).order(Order::Behind);
    question.arg(&own_field(&request.token));
    lock.tell(&mut question, wire, std::iter::once(name));
    question.arg(WAITED_FOR.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    let reply = lettered::read(wire, &answer, |value| match bytes(value)? {
        b"h" => Ok(Released::Held),
        b"x" => Ok(Released::Expired),
        b"t" => Ok(Released::Taken),
        _ => Err(UNKNOWN_LETTER),
    })?;
    wire.settle_release(reply, answer.resent)
}

pub(super) async fn force_release(
    lock: &Lock,
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could hit the next holder.
    let mut question = keys(wire, &request.name).ask(&FORCE).again(Again::Never);
    lock.tell(&mut question, wire, std::iter::once(&request.name));
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match seen(lock, list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
