//! Exchanges the token of a lease for a fresh one.

use std::sync::LazyLock;

use fencelock_core::{ExchangeRequest, Exchanged, Fence, Grant, Moment, Novelty};
use fencelock_store::StoreResult;

use super::{
    UNKNOWN_LETTER, ahead_us, deadline_digits, fence_digits, listener_digits, refusal, retain_ms,
    ttl_digits,
};
use crate::{
    reply::Odd,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/exchange_token.lua",
);

pub(crate) async fn exchange_token(
    wire: &Wire,
    request: &ExchangeRequest,
    by: Moment,
) -> StoreResult<Exchanged> {
    wire.check_ttl(request.ttl)?;
    let metadata = request.metadata.as_bytes();
    let mut question = wire.script(&SCRIPT, &request.names, 9, metadata.len() + 192);
    question.arg(&request.from.to_hex());
    question.arg(&request.to.to_hex());
    question.arg(&ttl_digits(request.ttl));
    question.arg(retain_ms(request.retain).as_bytes());
    question.arg(metadata);
    question.arg(&deadline_digits(request.deadline));
    question.arg(&fence_digits(request.floor));
    question.arg(ahead_us().as_bytes());
    question.arg(&listener_digits(request.listener));
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, mut fields, at| match letter {
        b'g' => {
            let fence = fields.fencing_token()?.ok_or(Odd("a grant without a fencing token"))?;
            let remaining = fields.lease()?.remaining(at);
            let grant = Grant::new(Fence::Token(fence), remaining, Novelty::Fresh);
            Ok(Exchanged::Granted(grant))
        }
        b'y' => Ok(Exchanged::Granted(fields.repeated(at)?)),
        b'n' => Ok(Exchanged::NotHeld(fields.not_held()?)),
        other => refusal(other).map(Exchanged::Refused).ok_or(UNKNOWN_LETTER),
    })
}
