//! Moves the ends of leases, and makes a writer a reader.

use std::sync::LazyLock;

use fencelock_core::{
    DowngradeRequest, Downgraded, Moment, RenewRequest, Renewed, ShortenRequest, Shortened,
};
use fencelock_store::StoreResult;
use redis::Value;

use super::member;
use crate::{
    lettered::{self, UNKNOWN_LETTER, lettered, not_held, passed_on},
    reply::{Odd, bytes, list, number, time_left},
    rights,
    script::{Script, script},
    wire::Wire,
};

static MOVE: LazyLock<Script> =
    script!("../scripts/symfony/members.lua", "../scripts/symfony/move.lua");
static DOWNGRADE: LazyLock<Script> =
    script!("../scripts/symfony/members.lua", "../scripts/symfony/downgrade.lua");

pub(crate) async fn renew(
    wire: &Wire,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let batch = wire.batch(batch);
    wire.in_steps(&batch, by, |part| step(wire, part, by)).await
}

async fn step(wire: &Wire, part: &[RenewRequest], by: Moment) -> StoreResult<Vec<Renewed>> {
    let names = part.iter().flat_map(|request| request.names.iter());
    let mut question = wire.script_on(&MOVE, names, 1 + 3 * part.len(), 64 * part.len());
    question.arg(b"l");
    for request in part {
        question.arg(request.names.len().to_string().as_bytes());
        question.arg(&member(&request.token));
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
    wire: &Wire,
    request: &ShortenRequest,
    by: Moment,
) -> StoreResult<Shortened> {
    let mut question = wire.script(&MOVE, &request.names, 4, 64);
    question.arg(b"n").arg(request.names.len().to_string().as_bytes());
    question.arg(&member(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    let value = match list(&answer.value).map_err(|odd| wire.odd(odd))? {
        [only] => only.clone(),
        _ => return Err(wire.odd(Odd("a list of another length than asked for"))),
    };
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

pub(crate) async fn downgrade(
    wire: &Wire,
    request: &DowngradeRequest,
    by: Moment,
) -> StoreResult<Downgraded> {
    let names = std::iter::once(&request.name);
    let mut question = wire.script_on(&DOWNGRADE, names, 1, 32);
    question.arg(&member(&request.token));
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'd', [left]) => {
            let remaining = time_left(left)?.ok_or(UNKNOWN_LETTER)?;
            Ok(Downgraded::Shared { remaining })
        }
        (b'n', [why]) => Ok(Downgraded::NotHeld(not_held(bytes(why)?)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
