//! Takes all names or none.

use std::sync::LazyLock;

use fencelock_core::{
    AcquireRequest, Acquired, Busy, Fence, Grant, Moment, Novelty, Queued, Refusal,
};
use fencelock_store::StoreResult;

use super::{
    LIVE_MS_MAX, ROUNDING_MS, UNKNOWN_LETTER, ahead_us, deadline_digits, digits, fence_digits,
    join::join, listener_digits, mark_unattended, millis, refusal, ttl_digits,
};
use crate::{
    reply::{Fields, Odd},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/never_rests.lua",
    "../scripts/native/take.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/place.lua",
    "../scripts/native/acquire.lua",
);
static STRICT: LazyLock<Script> = script!(
    "../scripts/native/boot.lua",
    "../scripts/native/rest.lua",
    "../scripts/native/take.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/place.lua",
    "../scripts/native/acquire.lua",
);

pub(crate) async fn acquire(
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    const HEAD_BYTES: usize = 64;
    if !request.mode.is_exclusive() {
        return join(wire, request, by).await;
    }
    wire.check_ttl(request.ttl)?;
    let metadata = request.metadata.as_bytes();
    let life = request.ttl.as_duration() + request.retain.as_duration();
    let sizes = (8, metadata.len() + 3 * HEAD_BYTES);
    let mut question = wire.granting(&SCRIPT, &STRICT, &request.names, sizes);
    question.listener = request.listener;
    question.arg(&request.token.to_hex());
    question.arg((life.as_millis() + ROUNDING_MS).to_string().as_bytes());
    question.arg(&lease(request));
    let names_a_fence = request.floor.is_some() || request.proposed.is_some();
    let wishes = request.place.is_some() || request.barging || request.reserve > 0;
    if names_a_fence || wishes || request.deadline.is_some() {
        question.arg(&deadline_digits(request.deadline));
    }
    if names_a_fence || wishes {
        question.arg(&wish(wire, request));
    }
    if names_a_fence {
        question.arg(&fence_digits(request.floor));
        question.arg(&fence_digits(request.proposed));
        question.arg(ahead_us().as_bytes());
    }
    wire.seal(&mut question);
    let answer = wire.ask(&mut question, by).await?;
    if let Some(refusal) = wire.refused_by_guard(&answer) {
        return Err(refusal);
    }
    let reply =
        super::read(wire, answer, |letter, fields, at| decode(request, letter, fields, at))?;
    match &reply.answer {
        Acquired::Queued(_) => wire.lines.learn(&request.names, true),
        Acquired::Busy(busy) => wire.lines.learn(&request.names, busy.holder.waiting > 0),
        Acquired::Granted(grant) => wire.lines.learn(&request.names, grant.waiting > 0),
        _ => {}
    }
    Ok(reply)
}

/// How the lease runs, and what its holder says of itself.
pub(super) fn lease(request: &AcquireRequest) -> Vec<u8> {
    let metadata = request.metadata.as_bytes();
    let mut lease = Vec::with_capacity(metadata.len() + 25);
    lease.extend_from_slice(&ttl_digits(request.ttl));
    lease.extend_from_slice(&listener_digits(request.listener));
    lease.push(mark_unattended(request.unattended));
    lease.extend_from_slice(metadata);
    lease
}

/// The place that is wanted, and what else goes with a hand-over.
pub(super) fn wish(wire: &Wire, request: &AcquireRequest) -> Vec<u8> {
    let mut wish = Vec::with_capacity(64);
    let (claim, live) = match &request.place {
        Some(place) => (place.claim.min(request.ttl).as_millis(), millis(place.live)),
        None => (0, 0),
    };
    wish.extend_from_slice(&digits::<8>(u64::from(claim)));
    wish.extend_from_slice(&digits::<8>(live.min(LIVE_MS_MAX)));
    wish.extend_from_slice(&digits::<10>(millis(request.retain.as_duration())));
    wish.push(match request.barging {
        true => b'1',
        false if wire.lines.is_probable(&request.names) => b'2',
        false => b'0',
    });
    let reserve = request.reserve.min(AcquireRequest::MAX_RESERVE);
    wish.extend_from_slice(&digits::<4>(u64::from(reserve)));
    wish.extend_from_slice(&wire.channels(request.names.first()));
    wish
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
                let mut grant = Grant::new(fence, request.ttl.as_duration(), Novelty::Fresh);
                if !fields.is_empty() {
                    grant.last_fence =
                        fields.fencing_token()?.filter(|last| Some(*last) != fence.token());
                    grant.waiting = fields.waiting()?;
                }
                Ok(Acquired::Granted(grant))
            }
        },
        b'y' => Ok(Acquired::Granted(fields.repeated(at)?)),
        b'b' => {
            let name = fields.name(&request.names)?.clone();
            Ok(Acquired::Busy(Busy::new(name, fields.holder(at)?)))
        }
        b'q' => {
            let name = fields.name(&request.names)?.clone();
            let position = fields.waiting()?;
            Ok(Acquired::Queued(Queued::new(Busy::new(name, fields.holder(at)?), position)))
        }
        b'f' => Ok(Acquired::Foreign(fields.foreign(&request.names)?)),
        b'c' => Ok(Acquired::Refused(Refusal::CrowdFull)),
        b'i' => Ok(Acquired::Refused(Refusal::Impossible)),
        b'o' => Ok(Acquired::Refused(Refusal::LimitDiffers { limit: fields.amount()? })),
        other => refusal(other).map(Acquired::Refused).ok_or(UNKNOWN_LETTER),
    }
}
