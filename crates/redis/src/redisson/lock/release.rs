//! Ends one hold of every name that is still ours.

use std::sync::LazyLock;

use fencelock_core::{Moment, ReleaseRequest, Released};
use fencelock_store::StoreResult;

use super::{Lock, fair};
use crate::{
    connection::Order,
    lettered::{self, UNKNOWN_LETTER},
    plug::Plug,
    redisson::{Keys, names::hold, own_field},
    reply::bytes,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/redisson/lock/free.lua", "../../scripts/redisson/lock/release.lua");

pub(crate) async fn release(
    lock: &Lock,
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    if lock.queues {
        lock.check(wire, &[(request.names.len() > 1, "sets of names")])?;
        return fair::release(lock, wire, request, by).await;
    }
    let keys = Keys::new(wire, request.names.iter()).beside(|key| hold(key, &request.token));
    let count = keys.names().to_string();
    let mut question = keys.ask(&SCRIPT).order(Order::Behind);
    question.arg(count.as_bytes()).arg(&own_field(&request.token));
    lock.tell(&mut question, wire, request.names.iter());
    let answer = wire.ask(&mut question, by).await?;
    let reply = lettered::read(wire, &answer, |value| match bytes(value)? {
        b"h" => Ok(Released::Held),
        b"x" => Ok(Released::Expired),
        b"t" => Ok(Released::Taken),
        _ => Err(UNKNOWN_LETTER),
    })?;
    wire.settle_release(reply, answer.resent)
}
