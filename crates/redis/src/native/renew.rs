//! Prolongs leases, many at a time.

use std::sync::LazyLock;

use fencelock_core::{Moment, RenewRequest, Renewed, StoreTime};
use fencelock_store::{StoreError, StoreResult};

use super::{UNKNOWN_LETTER, retain_ms, ttl_digits};
use crate::{
    reply::{Fields, Odd},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../scripts/native/record.lua", "../scripts/native/renew.lua");

pub(crate) async fn renew(
    wire: &Wire,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    wire.in_steps(batch, by, |part| step(wire, part, by)).await
}

async fn step(wire: &Wire, part: &[RenewRequest], by: Moment) -> StoreResult<Vec<Renewed>> {
    let names = part.iter().flat_map(|request| request.names.iter());
    let mut question = wire.script_on(&SCRIPT, names, 4 * part.len(), 80 * part.len());
    for request in part {
        question.arg(request.names.len().to_string().as_bytes());
        question.arg(&request.token.to_hex());
        question.arg(&ttl_digits(request.ttl));
        question.arg(retain_ms(request.retain).as_bytes());
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

pub(super) fn decode(
    letter: u8,
    mut fields: Fields<'_>,
    at: StoreTime,
    refused: &mut Option<String>,
) -> Result<Renewed, Odd> {
    match letter {
        b'k' => Ok(Renewed::extended(fields.lease()?.remaining(at))),
        b'n' => Ok(Renewed::NotHeld(fields.not_held()?)),
        b'e' => {
            *refused = Some(fields.text());
            Ok(Renewed::Unknown)
        }
        _ => Err(UNKNOWN_LETTER),
    }
}
