//! Moves the ends of leases: later, many at a time, or nearer.

use std::sync::LazyLock;

use fencelock_core::{Moment, NotHeld, RenewRequest, Renewed, ShortenRequest, Shortened};
use fencelock_store::StoreResult;
use redis::Value;

use super::Permits;
use crate::{
    lettered::{self, not_held, passed_on},
    plug::Plug,
    redisson::names::asking,
    reply::{Odd, bytes, list, number, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/redisson/permits/permits.lua",
    "../../scripts/redisson/permits/renew.lua",
);

pub(crate) async fn renew(
    permits: &Permits,
    wire: &Wire,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let batch = wire.batch(batch);
    wire.in_steps(&batch, by, |part| step(permits, wire, part, by)).await
}

async fn step(
    permits: &Permits,
    wire: &Wire,
    part: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let sets: Vec<_> =
        part.iter().map(|request| permits.keys_of(wire, request.names.first())).collect();
    let mut question = asking(&SCRIPT, &sets);
    question.arg(b"l");
    for request in part {
        question.arg(request.token.as_bytes());
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
    // A set of names is never granted.
    if request.names.len() > 1 {
        return Ok(Renewed::NotHeld(NotHeld::Absent));
    }
    if number(value).is_ok() {
        let remaining = time_left(value)?.unwrap_or(request.ttl.as_duration());
        return Ok(Renewed::extended(remaining));
    }
    let why = bytes(value)?;
    match passed_on(why) {
        Some(text) => {
            *refused = Some(text);
            Ok(Renewed::Unknown)
        }
        None => Ok(Renewed::NotHeld(not_held(why)?)),
    }
}

pub(crate) async fn shorten(
    permits: &Permits,
    wire: &Wire,
    request: &ShortenRequest,
    by: Moment,
) -> StoreResult<Shortened> {
    permits.check(wire, &[(request.names.len() > 1, "sets of names")])?;
    let mut question = permits.keys_of(wire, request.names.first()).ask(&SCRIPT);
    question.arg(b"n").arg(request.token.as_bytes());
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    let only = |value: &Value| match list(value)? {
        [only] => Ok(only.clone()),
        _ => Err(Odd("a list of another length than asked for")),
    };
    let value = only(&answer.value).map_err(|odd| wire.odd(odd))?;
    if let Some(refused) = bytes(&value).ok().and_then(passed_on) {
        return Err(Box::pin(rights::refused_inside(wire, &question, &refused, by)).await);
    }
    lettered::read(wire, &answer, |_| {
        if number(&value).is_ok() {
            let remaining = time_left(&value)?.unwrap_or(request.ttl.as_duration());
            return Ok(Shortened::Shortened { remaining });
        }
        Ok(Shortened::NotHeld(not_held(bytes(&value)?)?))
    })
}
