//! Makes the writer a reader.

use std::sync::LazyLock;

use fencelock_core::{DowngradeRequest, Downgraded, Moment};
use fencelock_store::{StoreError, StoreResult};

use super::{channel, how, keys};
use crate::{
    lettered::{self, UNKNOWN_LETTER, lettered, not_held, passed_on},
    redisson::own_field,
    reply::{bytes, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/redisson/rw/held.lua",
    "../../scripts/redisson/rw/free.lua",
    "../../scripts/redisson/rw/downgrade.lua",
);

pub(crate) async fn downgrade(
    wire: &Wire,
    request: &DowngradeRequest,
    by: Moment,
) -> StoreResult<Downgraded> {
    let mut question = keys(wire, [&request.name], &request.token).ask(&SCRIPT);
    question.arg(&own_field(&request.token)).arg(how(wire));
    question.arg(&channel(&wire.key(&request.name)));
    let answer = wire.ask(&mut question, by).await?;
    if let Ok((b'n', [why])) = lettered(&answer.value)
        && let Some(refused) = bytes(why).ok().and_then(passed_on)
    {
        return Err(Box::pin(rights::refused_inside(wire, &question, &refused, by)).await);
    }
    let endless = || StoreError::unknown("a lease of ours that never ends: somebody made it so");
    let reply = lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'd', [left]) => Ok(time_left(left)?.map(|remaining| Downgraded::Shared { remaining })),
        (b'n', [why]) => Ok(Some(Downgraded::NotHeld(not_held(bytes(why)?)?))),
        _ => Err(UNKNOWN_LETTER),
    })?;
    let answer = reply.answer.clone().ok_or_else(endless)?;
    Ok(reply.map(|_| answer))
}
