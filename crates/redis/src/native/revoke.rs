//! Asks the holder of a name to give it back.

use std::sync::LazyLock;

use fencelock_core::{Moment, RevokeRequest, Revoked};
use fencelock_store::StoreResult;

use super::{UNKNOWN_LETTER, inspect::holder};
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
    "../scripts/native/revoke.lua",
);

pub(crate) async fn revoke(
    wire: &Wire,
    request: &RevokeRequest,
    by: Moment,
) -> StoreResult<Revoked> {
    let names = std::iter::once(&request.name);
    let mut question = wire.script_on(&SCRIPT, names, 1, 64);
    question.arg(&wire.channels(&request.name));
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, fields, at| match letter {
        b'r' => Ok(Revoked::Requested(holder(fields, at)?)),
        b'u' => Ok(Revoked::Unattended(holder(fields, at)?)),
        b'w' => Ok(Revoked::WasFree),
        b'f' => Ok(Revoked::Foreign(fields.foreign_kind()?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
