//! Frees a name whoever holds it.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Moment};
use fencelock_store::StoreResult;

use super::{UNKNOWN_LETTER, inspect::holder, retain_ms};
use crate::{
    connection::Again,
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
    "../scripts/native/force_release.lua",
);
static STRICT: LazyLock<Script> = script!(
    "../scripts/native/boot.lua",
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/force_release.lua",
);

pub(crate) async fn force_release(
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could hit the next holder.
    let names = std::iter::once(&request.name);
    let mut question = wire.handing_over(&SCRIPT, &STRICT, names, (1, 16)).again(Again::Never);
    question.arg(retain_ms(request.retain).as_bytes());
    wire.seal(&mut question);
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, fields, at| match letter {
        b'r' => Ok(Forced::Removed(holder(fields, at)?)),
        b'w' => Ok(Forced::WasFree),
        b'f' => Ok(Forced::Foreign(fields.foreign_kind()?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
