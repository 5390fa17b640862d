//! Prolongs leases, many at a time.

use std::sync::LazyLock;

use fencelock_core::{AcquireRequest, ListenerId, Moment, RenewRequest, Renewed, StoreTime};
use fencelock_store::{StoreError, StoreResult};

use super::{
    UNKNOWN_LETTER, ahead_us, digits, listener_digits, mark_unattended, retain_ms, ttl_digits,
};
use crate::{
    reply::{Fields, Odd},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/renew.lua",
);

pub(crate) async fn renew(
    wire: &Wire,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    wire.in_steps(batch, by, |part| step(wire, part, by)).await
}

async fn step(wire: &Wire, part: &[RenewRequest], by: Moment) -> StoreResult<Vec<Renewed>> {
    let names = part.iter().flat_map(|request| request.names.iter());
    let mut question = wire.script_on(&SCRIPT, names, 1 + 5 * part.len(), 128 * part.len());
    question.arg(ahead_us().as_bytes());
    for request in part {
        question.arg(request.names.len().to_string().as_bytes());
        question.arg(&request.token.to_hex());
        question.arg(&ttl_digits(request.ttl));
        question.arg(retain_ms(request.retain).as_bytes());
        question.arg(&rest(request));
    }
    let answer = wire.ask(&mut question, by).await?;
    let mut refused = None;
    let reply = super::read_list(wire, answer, part.len(), |letter, fields, at| {
        decode(letter, fields, at, &mut refused)
    })?;
    // Where the server could say nothing at all, it was not asked to any effect.
    match refused {
        Some(text) if reply.answer.iter().all(|answer| *answer == Renewed::Unknown) => {
            Err(StoreError::from(wire.refused_inside(&text)))
        }
        _ => Ok(reply),
    }
}

/// What a renewal changes besides the end.
fn rest(request: &RenewRequest) -> Vec<u8> {
    let mut rest = Vec::with_capacity(5 + ListenerId::DIGITS);
    let reserve = request.reserve.min(AcquireRequest::MAX_RESERVE);
    rest.extend_from_slice(&digits::<4>(u64::from(reserve)));
    rest.push(mark_unattended(request.unattended));
    if request.listener.is_some() {
        rest.extend_from_slice(&listener_digits(request.listener));
    }
    rest
}

pub(super) fn decode(
    letter: u8,
    mut fields: Fields<'_>,
    at: StoreTime,
    refused: &mut Option<String>,
) -> Result<Renewed, Odd> {
    match letter {
        b'k' => Ok(Renewed::Extended {
            remaining: fields.lease()?.remaining(at),
            last_fence: fields.fencing_token()?,
            revoked: fields.flag()?,
            waiting: fields.waiting()?,
        }),
        b'n' => Ok(Renewed::NotHeld(fields.not_held()?)),
        b'e' => {
            *refused = Some(fields.text());
            Ok(Renewed::Unknown)
        }
        _ => Err(UNKNOWN_LETTER),
    }
}
