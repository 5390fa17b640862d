//! Exchanges the token of a lease for a fresh one.

use std::sync::LazyLock;

use fencelock_core::{ExchangeRequest, Exchanged, Fence, Grant, Moment, Novelty, Refusal};
use fencelock_store::StoreResult;
use redis::Value;

use super::Format;
use crate::{
    lettered::{self, UNKNOWN_LETTER, lettered, not_held, passed_on},
    plug::Plug,
    reply::{bytes, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/plain/is.lua",
    "../scripts/plain/held.lua",
    "../scripts/plain/exchange_token.lua"
);

pub(crate) async fn exchange_token(
    format: &Format,
    wire: &Wire,
    request: &ExchangeRequest,
    by: Moment,
) -> StoreResult<Exchanged> {
    format.check(
        wire,
        &[
            (request.floor.is_some(), "fencing tokens"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
        ],
    )?;
    let mut question = wire.script(&SCRIPT, &request.names, 3, 96);
    question.arg(&format.value(&request.from));
    question.arg(&format.value(&request.to));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    question.arg(&format.whole(&request.to, &request.metadata));
    let answer = wire.ask(&mut question, by).await?;
    if let Ok((b'n', [why])) = lettered(&answer.value)
        && let Some(refused) = bytes(why).ok().and_then(passed_on)
    {
        return Err(Box::pin(rights::refused_inside(wire, &question, &refused, by)).await);
    }
    let granted = |left: &Value, novelty| {
        let left = time_left(left)?.unwrap_or(request.ttl.as_duration());
        Ok(Exchanged::Granted(Grant::new(Fence::None, left, novelty)))
    };
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'g', [left]) => granted(left, Novelty::Fresh),
        (b'y', [left]) => granted(left, Novelty::Repeated),
        (b's', []) => Ok(Exchanged::Refused(Refusal::TokenRetired)),
        (b'n', [why]) => Ok(Exchanged::NotHeld(not_held(bytes(why)?)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
