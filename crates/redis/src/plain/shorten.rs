//! Brings the end of a lease nearer.

use std::sync::LazyLock;

use fencelock_core::{Moment, ShortenRequest, Shortened};
use fencelock_store::StoreResult;

use super::Format;
use crate::{
    lettered::{self, not_held, passed_on},
    reply::{bytes, number, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../scripts/plain/is.lua", "../scripts/plain/held.lua", "../scripts/plain/shorten.lua");

pub(crate) async fn shorten(
    format: &Format,
    wire: &Wire,
    request: &ShortenRequest,
    by: Moment,
) -> StoreResult<Shortened> {
    let mut question = wire.script(&SCRIPT, &request.names, 2, 64);
    question.arg(&format.value(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    if let Some(refused) = bytes(&answer.value).ok().and_then(passed_on) {
        return Err(Box::pin(rights::refused_inside(wire, &question, &refused, by)).await);
    }
    lettered::read(wire, &answer, |value| {
        if number(value).is_ok() {
            let remaining = time_left(value)?.unwrap_or(request.ttl.as_duration());
            return Ok(Shortened::Shortened { remaining });
        }
        Ok(Shortened::NotHeld(not_held(bytes(value)?)?))
    })
}
