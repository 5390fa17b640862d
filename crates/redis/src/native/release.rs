//! Frees every name that is still ours.

use std::sync::LazyLock;

use fencelock_core::{Moment, ReleaseRequest, Released};
use fencelock_store::StoreResult;

use super::{ROUNDING_MS, UNKNOWN_LETTER};
use crate::{
    connection::Order,
    reply::Odd,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/never_rests.lua",
    "../scripts/native/give.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/release.lua",
);
static STRICT: LazyLock<Script> = script!(
    "../scripts/native/boot.lua",
    "../scripts/native/give.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/release.lua",
);

pub(crate) async fn release(
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    let names = request.names.iter();
    let mut question = wire.handing_over(&SCRIPT, &STRICT, names, (3, 64)).order(Order::Behind);
    question.arg(&request.token.to_hex());
    match request.retain.as_duration().as_millis() {
        0 => question.arg(b"0"),
        retain => question.arg((retain + ROUNDING_MS).to_string().as_bytes()),
    };
    if wire.lines.is_probable(&request.names) {
        question.arg(b"1");
    }
    wire.seal(&mut question);
    let answer = wire.ask(&mut question, by).await?;
    let resent = answer.resent;
    let reply = super::read(wire, answer, |letter, _, _| decode(letter))?;
    wire.settle_release(reply, resent)
}

pub(super) fn decode(letter: u8) -> Result<Released, Odd> {
    match letter {
        b'w' => Ok(Released::Withdrawn),
        b'h' => Ok(Released::Held),
        b'x' => Ok(Released::Expired),
        b't' => Ok(Released::Taken),
        _ => Err(UNKNOWN_LETTER),
    }
}
