//! Prolongs leases, many at a time.

use std::sync::LazyLock;

use fencelock_core::{Moment, RenewRequest, Renewed};
use fencelock_store::StoreResult;
use redis::Value;

use super::keys;
use crate::{
    lettered::{self, not_held},
    redisson::{names::asking, own_field},
    reply::{Odd, bytes, list, number, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/redisson/rw/held.lua", "../../scripts/redisson/rw/renew.lua");

pub(crate) async fn renew(
    wire: &Wire,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let batch = wire.batch(batch);
    wire.in_steps(&batch, by, |part| step(wire, part, by)).await
}

async fn step(wire: &Wire, part: &[RenewRequest], by: Moment) -> StoreResult<Vec<Renewed>> {
    let sets = part.iter().map(|request| keys(wire, request.names.iter(), &request.token));
    let mut question = asking(&SCRIPT, &sets.collect::<Vec<_>>());
    for request in part {
        question.arg(request.names.len().to_string().as_bytes());
        question.arg(&own_field(&request.token));
        question.arg(request.ttl.as_millis().to_string().as_bytes());
    }
    let answer = wire.ask(&mut question, by).await?;
    let mut refused = None;
    let reply = lettered::read(wire, &answer, |value| {
        let replies = list(value)?;
        if replies.len() != part.len() {
            return Err(Odd("a list of another length than asked for"));
        }
        let decode = |(request, value): (&RenewRequest, _)| decode(request, value, &mut refused);
        part.iter().zip(replies).map(decode).collect::<Result<Vec<_>, Odd>>()
    })?;
    match refused {
        Some(text) if wire.refused_inside(&text).voids(&reply.answer) => {
            Err(Box::pin(rights::refused_inside(wire, &question, &text, by)).await)
        }
        _ => Ok(reply),
    }
}

fn decode(
    request: &RenewRequest,
    value: &Value,
    refused: &mut Option<String>,
) -> Result<Renewed, Odd> {
    if number(value).is_ok() {
        let remaining = time_left(value)?.unwrap_or(request.ttl.as_duration());
        return Ok(Renewed::extended(remaining));
    }
    match bytes(value)? {
        [b'e', text @ ..] => {
            *refused = Some(String::from_utf8_lossy(text).into_owned());
            Ok(Renewed::Unknown)
        }
        why => Ok(Renewed::NotHeld(not_held(why)?)),
    }
}
