//! Takes a lease that is provably ours elsewhere, where nobody holds it here.

use std::sync::LazyLock;

use fencelock_core::{Busy, HealRequest, Healed, Moment};
use fencelock_store::StoreResult;

use super::{
    UNKNOWN_LETTER, ahead_us, deadline_digits, fence_digits, refusal, retain_ms, ttl_digits,
};
use crate::{
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/heal.lua",
);

pub(crate) async fn heal(wire: &Wire, request: &HealRequest, by: Moment) -> StoreResult<Healed> {
    wire.check_ttl(request.ttl)?;
    let metadata = request.metadata.as_bytes();
    let mut question = wire.script(&SCRIPT, &request.names, 7, metadata.len() + 128);
    question.arg(&request.token.to_hex());
    question.arg(&ttl_digits(request.ttl));
    question.arg(retain_ms(request.retain).as_bytes());
    question.arg(metadata);
    question.arg(&deadline_digits(request.deadline));
    question.arg(&fence_digits(request.fencing_token));
    question.arg(ahead_us().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, mut fields, at| match letter {
        b'k' => Ok(Healed::Healed),
        b'b' => {
            let name = fields.name(&request.names)?.clone();
            Ok(Healed::Busy(Busy::new(name, fields.holder(at)?)))
        }
        b'f' => Ok(Healed::Foreign(fields.foreign(&request.names)?)),
        other => refusal(other).map(Healed::Refused).ok_or(UNKNOWN_LETTER),
    })
}
