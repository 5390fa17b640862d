//! Brings the end of a lease nearer.

use std::sync::LazyLock;

use fencelock_core::{Moment, ShortenRequest, Shortened};
use fencelock_store::StoreResult;

use super::{UNKNOWN_LETTER, retain_ms, ttl_digits};
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
    "../scripts/native/shorten.lua",
);

pub(crate) async fn shorten(
    wire: &Wire,
    request: &ShortenRequest,
    by: Moment,
) -> StoreResult<Shortened> {
    let mut question = wire.script(&SCRIPT, &request.names, 3, 64);
    question.arg(&request.token.to_hex());
    question.arg(&ttl_digits(request.ttl));
    question.arg(retain_ms(request.retain).as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, mut fields, at| match letter {
        b'k' => Ok(Shortened::Shortened { remaining: fields.lease()?.remaining(at) }),
        b'n' => Ok(Shortened::NotHeld(fields.not_held()?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
