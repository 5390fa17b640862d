//! Changes how many permits a semaphore has.

use std::sync::LazyLock;

use fencelock_core::{LimitSet, Moment, SetLimitRequest};
use fencelock_store::StoreResult;

use super::{UNKNOWN_LETTER, digits, retain_ms};
use crate::{
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/never_rests.lua",
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/set_limit.lua",
);
static STRICT: LazyLock<Script> = script!(
    "../scripts/native/boot.lua",
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/set_limit.lua",
);

pub(crate) async fn set_limit(
    wire: &Wire,
    request: &SetLimitRequest,
    by: Moment,
) -> StoreResult<LimitSet> {
    let names = std::iter::once(&request.name);
    let mut question = wire.handing_over(&SCRIPT, &STRICT, names, (2, 64));
    question.arg(&digits::<10>(u64::from(request.limit)));
    question.arg(retain_ms(request.retain).as_bytes());
    wire.seal(&mut question);
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, mut fields, _| match letter {
        b'k' => {
            let before = Some(fields.amount()?).filter(|&before| before > 0);
            Ok(LimitSet::Set { before, used: fields.amount()? })
        }
        b'f' => Ok(LimitSet::Foreign(fields.foreign_kind()?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
