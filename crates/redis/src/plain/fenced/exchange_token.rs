//! Exchanges the token of a lease for a fresh one, with the next number.

use std::sync::LazyLock;

use fencelock_core::{ExchangeRequest, Exchanged, Grant, Moment, Novelty, Refusal};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Fenced, digits, granted};
use crate::{
    lettered::{self, UNKNOWN_LETTER, lettered, not_held, passed_on},
    plug::Plug,
    reply::{bytes, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/fence.lua",
    "../../scripts/plain/is.lua",
    "../../scripts/plain/held.lua",
    "../../scripts/plain/fenced/exchange_token.lua",
);

pub(super) async fn exchange_token(
    fenced: &Fenced,
    wire: &Wire,
    request: &ExchangeRequest,
    by: Moment,
) -> StoreResult<Exchanged> {
    fenced.check(
        wire,
        &[
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
            (request.names.len() > 1, "sets of names"),
        ],
    )?;
    let mut question = Fenced::ask(wire, &SCRIPT, request.names.iter());
    question.arg(&fenced.format.value(&request.from));
    question.arg(&fenced.format.value(&request.to));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    question.arg(&fenced.format.whole(&request.to, &request.metadata));
    question.arg(&digits(request.floor));
    let answer = wire.ask(&mut question, by).await?;
    if let Ok((b'n', [why])) = lettered(&answer.value)
        && let Some(refused) = bytes(why).ok().and_then(passed_on)
    {
        return Err(Box::pin(rights::refused_inside(wire, &question, &refused, by)).await);
    }
    let exchanged = |left: &Value, fence: &Value, novelty| {
        let left = time_left(left)?.unwrap_or(request.ttl.as_duration());
        Ok(Exchanged::Granted(Grant::new(granted(fence)?, left, novelty)))
    };
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'g', [left, fence]) => exchanged(left, fence, Novelty::Fresh),
        (b'y', [left, fence]) => exchanged(left, fence, Novelty::Repeated),
        (b'o', []) => Ok(Exchanged::Refused(Refusal::FenceAhead)),
        (b'n', [why]) => Ok(Exchanged::NotHeld(not_held(bytes(why)?)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
