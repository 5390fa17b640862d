//! Takes all names or none.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{AcquireRequest, Acquired, FencingToken, Grant, Moment, Novelty, Refusal};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Lock, fair, field_of, told};
use crate::{
    hearing,
    lettered::{self, UNKNOWN_LETTER, busy, foreign, lettered},
    looks,
    plug::Plug,
    redisson::{Keys, names::hold, own_field},
    reply::{Odd, time_left},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/fence.lua", "../../scripts/redisson/lock/acquire.lua");

pub(crate) async fn acquire(
    lock: &Lock,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let field = field_of(&request.mode);
    lock.check(
        wire,
        &[
            (request.floor.is_some() && !lock.fences, "fencing tokens"),
            (request.proposed.is_some(), "fencing tokens of a quorum"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
            (!lock.capabilities().modes.has(&request.mode), "locks of that kind"),
            (field.is_err(), field.err().unwrap_or_default()),
            (lock.queues && request.names.len() > 1, "sets of names"),
        ],
    )?;
    if lock.queues {
        let ask = || fair::acquire(lock, wire, request, by);
        let answer = hearing::acquire(wire, request, by, fair::told, ask).await?;
        return looks::of_acquire(wire, answer, by).await;
    }
    let ask = || ask(lock, wire, request, by);
    let answer = match lock.tells {
        true => hearing::acquire(wire, request, by, told, ask).await?,
        false => ask().await?,
    };
    looks::of_acquire(wire, answer, by).await
}

async fn ask(
    lock: &Lock,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let keys = Keys::new(wire, request.names.iter())
        .beside(|key| hold(key, &request.token))
        .beside_if(lock.fences, Lock::counter);
    let count = keys.names().to_string();
    let mut question = keys.ask(&SCRIPT);
    question.arg(count.as_bytes()).arg(&own_field(&request.token));
    question.arg(field_of(&request.mode).unwrap_or_default());
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    question.arg(&digits(request.floor));
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| decode(lock, request, value))
}

pub(super) fn digits(fence: Option<FencingToken>) -> Vec<u8> {
    fence.map(|fence| fence.as_u64().to_string().into_bytes()).unwrap_or_default()
}

pub(super) fn decode(
    lock: &Lock,
    request: &AcquireRequest,
    value: &Value,
) -> Result<Acquired, Odd> {
    let ttl = request.ttl.as_duration();
    let grant = |fence, left: Option<Duration>, novelty| {
        Acquired::Granted(Grant::new(fence, left.unwrap_or(ttl), novelty))
    };
    match lettered(value)? {
        (b'g', [fence]) => Ok(grant(lock.granted(fence)?, None, Novelty::Fresh)),
        (b'y', [left, fence]) => {
            Ok(grant(lock.granted(fence)?, time_left(left)?, Novelty::Repeated))
        }
        (b's', []) => Ok(Acquired::Refused(Refusal::TokenRetired)),
        (b'o', []) => Ok(Acquired::Refused(Refusal::FenceAhead)),
        (b'b', [rest @ .., fence]) => {
            let mut busy = busy(rest, &request.names)?;
            busy.holder.fencing_token = lock.fence(fence)?;
            Ok(Acquired::Busy(busy))
        }
        (b'f', rest) => Ok(Acquired::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    }
}
