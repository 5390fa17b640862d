//! Exchanges the token of a lease for a fresh one.

use std::sync::LazyLock;

use fencelock_core::{ExchangeRequest, Exchanged, Fence, Grant, Moment, Novelty, Refusal};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Symfony, member};
use crate::{
    lettered::{self, UNKNOWN_LETTER, lettered, not_held},
    plug::Plug,
    reply::{bytes, time_left},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../scripts/symfony/members.lua", "../scripts/symfony/exchange_token.lua");

pub(crate) async fn exchange_token(
    wire: &Wire,
    request: &ExchangeRequest,
    by: Moment,
) -> StoreResult<Exchanged> {
    Symfony.check(
        wire,
        &[
            (request.floor.is_some(), "fencing tokens"),
            (request.deadline.is_some(), "deadlines: replies say nothing of the server's time"),
        ],
    )?;
    let mut question = wire.script(&SCRIPT, &request.names, 3, 96);
    question.arg(&member(&request.from)).arg(&member(&request.to));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
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
