//! Takes all names or none.

use std::sync::LazyLock;

use fencelock_core::{AcquireRequest, Acquired, Busy, Fence, Grant, Moment, Novelty};
use fencelock_store::StoreResult;

use super::{
    ROUNDING_MS, UNKNOWN_LETTER, ahead_us, deadline_digits, fence_digits, refusal, ttl_digits,
};
use crate::{
    reply::{Fields, Odd},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../scripts/native/acquire.lua");

pub(crate) async fn acquire(
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    const HEAD_BYTES: usize = 64;
    let metadata = request.metadata.as_bytes();
    let life = request.ttl.as_duration() + request.retain.as_duration();
    let mut question = wire.script(&SCRIPT, &request.names, 7, metadata.len() + 2 * HEAD_BYTES);
    question.arg(&request.token.to_hex());
    question.arg((life.as_millis() + ROUNDING_MS).to_string().as_bytes());
    let mut lease = Vec::with_capacity(metadata.len() + 8);
    lease.extend_from_slice(&ttl_digits(request.ttl));
    lease.extend_from_slice(metadata);
    question.arg(&lease);
    let names_a_fence = request.floor.is_some() || request.proposed.is_some();
    if names_a_fence || request.deadline.is_some() {
        question.arg(&deadline_digits(request.deadline));
    }
    if names_a_fence {
        question.arg(&fence_digits(request.floor));
        question.arg(&fence_digits(request.proposed));
        question.arg(ahead_us().as_bytes());
    }
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, fields, at| decode(request, letter, fields, at))
}

pub(super) fn decode(
    request: &AcquireRequest,
    letter: u8,
    mut fields: Fields<'_>,
    at: fencelock_core::StoreTime,
) -> Result<Acquired, Odd> {
    match letter {
        b'g' => match fields.fence()? {
            Fence::None => Err(Odd("a grant without a fencing token")),
            fence => {
                let grant = Grant::new(fence, request.ttl.as_duration(), Novelty::Fresh);
                Ok(Acquired::Granted(grant))
            }
        },
        b'y' => Ok(Acquired::Granted(fields.repeated(at)?)),
        b'b' => {
            let name = fields.name(&request.names)?.clone();
            Ok(Acquired::Busy(Busy::new(name, fields.holder(at)?)))
        }
        b'f' => Ok(Acquired::Foreign(fields.foreign(&request.names)?)),
        other => refusal(other).map(Acquired::Refused).ok_or(UNKNOWN_LETTER),
    }
}
