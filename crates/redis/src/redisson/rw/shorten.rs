//! Brings the end of a lease nearer.

use std::sync::LazyLock;

use fencelock_core::{Moment, ShortenRequest, Shortened};
use fencelock_store::StoreResult;

use super::keys;
use crate::{
    lettered::{self, not_held, passed_on},
    redisson::own_field,
    reply::{bytes, number, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/redisson/rw/held.lua", "../../scripts/redisson/rw/shorten.lua");

pub(crate) async fn shorten(
    wire: &Wire,
    request: &ShortenRequest,
    by: Moment,
) -> StoreResult<Shortened> {
    let keys = keys(wire, request.names.iter(), &request.token);
    let count = keys.names().to_string();
    let mut question = keys.ask(&SCRIPT);
    question.arg(count.as_bytes()).arg(&own_field(&request.token));
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
