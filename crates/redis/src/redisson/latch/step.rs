//! Counts down, looks whether it is open, and sets it up.

use std::sync::LazyLock;

use fencelock_core::{
    AcquireRequest, Acquired, Busy, Fence, Grant, LimitSet, Mode, Moment, Novelty, SetLimitRequest,
};
use fencelock_store::StoreResult;

use super::{
    CountDown, keys_of,
    look::{Seen, look, shut},
    tell, told,
};
use crate::{
    hearing,
    lettered::{self, UNKNOWN_LETTER, foreign, lettered},
    looks,
    plug::Plug,
    reply::{bytes, foreign_type, number},
    script::{Script, script},
    wire::Wire,
};

static STEP: LazyLock<Script> =
    script!("../../scripts/redisson/latch/latch.lua", "../../scripts/redisson/latch/step.lua",);
static SET_UP: LazyLock<Script> =
    script!("../../scripts/redisson/latch/latch.lua", "../../scripts/redisson/latch/set_up.lua",);

pub(super) async fn acquire(
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let is_fence_named = request.floor.is_some() || request.proposed.is_some();
    CountDown.check(
        wire,
        &[
            (is_fence_named, "fencing tokens"),
            (request.deadline.is_some(), "deadlines: replies say nothing of the server's time"),
            (!CountDown.capabilities().modes.has(&request.mode), "locks: it is one of latches"),
            (request.names.len() > 1, "sets of names"),
        ],
    )?;
    let answer = match request.mode {
        Mode::Opening { .. } => {
            hearing::acquire(wire, request, by, told, || opening(wire, request, by)).await?
        }
        _ => step(wire, request, by).await?,
    };
    looks::of_acquire(wire, answer, by).await
}

fn granted(request: &AcquireRequest, novelty: Novelty) -> Acquired {
    Acquired::Granted(Grant::new(Fence::None, request.ttl.as_duration(), novelty))
}

async fn step(wire: &Wire, request: &AcquireRequest, by: Moment) -> StoreResult<Acquired> {
    let name = request.names.first();
    let mut question = keys_of(wire, name).ask(&STEP);
    question.arg(&request.token.to_hex()[..]);
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    tell(&mut question, wire, name);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'g', []) => Ok(granted(request, Novelty::Fresh)),
        (b'y', []) => Ok(granted(request, Novelty::Repeated)),
        (b'f', rest) => Ok(Acquired::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}

async fn opening(wire: &Wire, request: &AcquireRequest, by: Moment) -> StoreResult<Acquired> {
    let name = request.names.first();
    let reply = look(wire, std::slice::from_ref(name), by).await?;
    Ok(reply.map(|seen| match seen.into_iter().next() {
        Some(Seen::Shut(left)) => Acquired::Busy(Busy::new(name.clone(), shut(left))),
        Some(Seen::Other(kind)) => {
            Acquired::Foreign(fencelock_core::Foreign::new(name.clone(), kind))
        }
        Some(Seen::Open) | None => granted(request, Novelty::Fresh),
    }))
}

/// Sets it up, where it is open: what is before is told where it is not.
pub(super) async fn set_limit(
    wire: &Wire,
    request: &SetLimitRequest,
    by: Moment,
) -> StoreResult<LimitSet> {
    let mut question = keys_of(wire, &request.name).ask(&SET_UP);
    question.arg(request.limit.to_string().as_bytes());
    tell(&mut question, wire, &request.name);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b's', [before]) => {
            Ok(LimitSet::Set { before: u32::try_from(number(before)?).ok(), used: 0 })
        }
        (b'f', [_, word]) => Ok(LimitSet::Foreign(foreign_type(bytes(word)?))),
        _ => Err(UNKNOWN_LETTER),
    })
}
