//! Writes a larger fencing token to a lease that we hold.

use std::sync::LazyLock;

use fencelock_core::{Moment, RaiseFenceRequest, Raised, Refusal};
use fencelock_store::StoreResult;

use super::{UNKNOWN_LETTER, ahead_us, fence_digits};
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
    "../scripts/native/raise_fence.lua",
);

pub(crate) async fn raise_fence(
    wire: &Wire,
    request: &RaiseFenceRequest,
    by: Moment,
) -> StoreResult<Raised> {
    let mut question = wire.script(&SCRIPT, &request.names, 3, 80);
    question.arg(&request.token.to_hex());
    question.arg(&fence_digits(Some(request.fencing_token)));
    question.arg(ahead_us().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, mut fields, _| match letter {
        b'k' => Ok(Raised::Raised),
        b'h' => fields.fencing_token()?.map(Raised::Behind).ok_or(Odd("no fencing token")),
        b'a' => Ok(Raised::Refused(Refusal::FenceAhead)),
        b'n' => Ok(Raised::NotHeld(fields.not_held()?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
