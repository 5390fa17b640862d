//! Exchanges the token of a lease for a fresh one.

use std::sync::LazyLock;

use fencelock_core::{ExchangeRequest, Exchanged, Grant, Moment, Novelty, Refusal};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Lock, acquire::digits};
use crate::{
    lettered::{self, UNKNOWN_LETTER, lettered, not_held, passed_on},
    plug::Plug,
    redisson::{Keys, names::hold, own_field},
    reply::{bytes, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/fence.lua",
    "../../scripts/redisson/lock/held.lua",
    "../../scripts/redisson/lock/exchange_token.lua",
);

pub(crate) async fn exchange_token(
    lock: &Lock,
    wire: &Wire,
    request: &ExchangeRequest,
    by: Moment,
) -> StoreResult<Exchanged> {
    lock.check(
        wire,
        &[
            (request.floor.is_some() && !lock.fences, "fencing tokens"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
        ],
    )?;
    let keys = Keys::new(wire, request.names.iter())
        .beside(|key| hold(key, &request.from))
        .beside(|key| hold(key, &request.to))
        .beside_if(lock.fences, Lock::counter);
    let count = keys.names().to_string();
    let mut question = keys.ask(&SCRIPT);
    question.arg(count.as_bytes());
    question.arg(&own_field(&request.from)).arg(&own_field(&request.to));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    question.arg(&digits(request.floor));
    let answer = wire.ask(&mut question, by).await?;
    if let Ok((b'n', [why])) = lettered(&answer.value)
        && let Some(refused) = bytes(why).ok().and_then(passed_on)
    {
        return Err(Box::pin(rights::refused_inside(wire, &question, &refused, by)).await);
    }
    let granted = |left: &Value, fence: &Value, novelty| {
        let left = time_left(left)?.unwrap_or(request.ttl.as_duration());
        Ok(Exchanged::Granted(Grant::new(lock.granted(fence)?, left, novelty)))
    };
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'g', [left, fence]) => granted(left, fence, Novelty::Fresh),
        (b'y', [left, fence]) => granted(left, fence, Novelty::Repeated),
        (b's', []) => Ok(Exchanged::Refused(Refusal::TokenRetired)),
        (b'o', []) => Ok(Exchanged::Refused(Refusal::FenceAhead)),
        (b'n', [why]) => Ok(Exchanged::NotHeld(not_held(bytes(why)?)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
