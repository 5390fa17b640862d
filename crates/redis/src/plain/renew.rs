//! Prolongs leases, many at a time.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{Moment, RenewRequest, Renewed};
use fencelock_store::StoreResult;
use redis::Value;

use super::Format;
use crate::{
    lettered::{self, not_held},
    reply::{Odd, bytes, list, number, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../scripts/plain/is.lua", "../scripts/plain/held.lua", "../scripts/plain/renew.lua");

pub(crate) async fn renew(
    format: &Format,
    wire: &Wire,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let batch = wire.batch(batch);
    wire.in_steps(&batch, by, |part| step(format, wire, part, by)).await
}

async fn step(
    format: &Format,
    wire: &Wire,
    part: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let names = part.iter().flat_map(|request| request.names.iter());
    let mut question = wire.script_on(&SCRIPT, names, 3 * part.len(), 64 * part.len());
    for request in part {
        question.arg(request.names.len().to_string().as_bytes());
        question.arg(&format.value(&request.token));
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

pub(super) fn decode(
    request: &RenewRequest,
    value: &Value,
    refused: &mut Option<String>,
) -> Result<Renewed, Odd> {
    if number(value).is_ok() {
        let remaining = time_left(value)?.unwrap_or(request.ttl.as_duration());
        return match remaining {
            // It was compared and prolonged in the same step.
            Duration::ZERO => Err(Odd("no time left for a lease that it just prolonged")),
            remaining => Ok(Renewed::extended(remaining)),
        };
    }
    match bytes(value)? {
        [b'e', text @ ..] => {
            *refused = Some(String::from_utf8_lossy(text).into_owned());
            Ok(Renewed::Unknown)
        }
        why => Ok(Renewed::NotHeld(not_held(why)?)),
    }
}
