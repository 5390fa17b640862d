//! Makes a lease that is held alone a shared one.

use std::sync::LazyLock;

use fencelock_core::{DowngradeRequest, Downgraded, Moment};
use fencelock_store::StoreResult;

use super::UNKNOWN_LETTER;
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
    "../scripts/native/place.lua",
    "../scripts/native/downgrade.lua",
);
static STRICT: LazyLock<Script> = script!(
    "../scripts/native/boot.lua",
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/place.lua",
    "../scripts/native/downgrade.lua",
);

pub(crate) async fn downgrade(
    wire: &Wire,
    request: &DowngradeRequest,
    by: Moment,
) -> StoreResult<Downgraded> {
    let names = std::iter::once(&request.name);
    let mut question = wire.handing_over(&SCRIPT, &STRICT, names, (2, 128));
    question.arg(&request.token.to_hex());
    question.arg(&wire.channels(&request.name));
    wire.seal(&mut question);
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, mut fields, at| match letter {
        b'k' => Ok(Downgraded::Shared { remaining: fields.lease()?.remaining(at) }),
        b'n' => Ok(Downgraded::NotHeld(fields.not_held()?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
