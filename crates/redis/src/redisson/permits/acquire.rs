//! Takes permits, and says how many there are.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, Busy, Fence, Grant, Holder, Kind, LimitSet, Mode, Moment, Novelty,
    Refusal, SetLimitRequest, Sharing,
};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Permits, tell, told};
use crate::{
    hearing,
    lettered::{self, UNKNOWN_LETTER, foreign, lettered},
    looks,
    plug::Plug,
    reply::{Odd, bytes, foreign_type, number, time_left},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/redisson/permits/permits.lua",
    "../../scripts/redisson/permits/acquire.lua",
);
static SET_LIMIT: LazyLock<Script> = script!(
    "../../scripts/redisson/permits/permits.lua",
    "../../scripts/redisson/permits/set_limit.lua",
);

pub(crate) async fn acquire(
    permits: &Permits,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let is_fence_named = request.floor.is_some() || request.proposed.is_some();
    permits.check(
        wire,
        &[
            (is_fence_named, "fencing tokens"),
            (request.deadline.is_some(), "deadlines: replies say nothing of the server's time"),
            (!permits.capabilities().modes.has(&request.mode), "locks: it is one of semaphores"),
            (request.names.len() > 1, "sets of names"),
        ],
    )?;
    let answer =
        hearing::acquire(wire, request, by, told, || ask(permits, wire, request, by)).await?;
    looks::of_acquire(wire, answer, by).await
}

async fn ask(
    permits: &Permits,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let name = request.names.first();
    let (wanted, limit) = match request.mode {
        Mode::Permits { permits, limit } => (permits, limit),
        _ => (1, 1),
    };
    let mut question = permits.keys_of(wire, name).ask(&SCRIPT);
    question.arg(request.token.as_bytes());
    question.arg(wanted.to_string().as_bytes()).arg(limit.to_string().as_bytes());
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    tell(&mut question, wire, name);
    question.arg(if permits.counts_all { b"a" } else { b"o" });
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| decode(request, value))
}

fn decode(request: &AcquireRequest, value: &Value) -> Result<Acquired, Odd> {
    let ttl = request.ttl.as_duration();
    let grant = |left: Option<Duration>, novelty| {
        Acquired::Granted(Grant::new(Fence::None, left.unwrap_or(ttl), novelty))
    };
    match lettered(value)? {
        (b'g', []) => Ok(grant(None, Novelty::Fresh)),
        (b'y', [left]) => Ok(grant(time_left(left)?, Novelty::Repeated)),
        (b'l', [limit]) => Ok(Acquired::Refused(Refusal::LimitDiffers { limit: amount(limit)? })),
        (b'b', [left, used, limit]) => {
            let mut holder = Holder::new(time_left(left)?);
            holder.kind = Kind::Semaphore;
            holder.sharing = Some(held(amount(used)?, amount(limit)?));
            Ok(Acquired::Busy(Busy::new(request.names.first().clone(), holder)))
        }
        (b'f', rest) => Ok(Acquired::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    }
}

/// Those who hold permits; whose are several is not to be seen.
pub(super) fn held(used: u32, limit: u32) -> Sharing {
    let mut sharing = Sharing::default();
    (sharing.holders, sharing.used, sharing.limit) = (used, used, Some(limit));
    sharing
}

pub(super) fn amount(value: &Value) -> Result<u32, Odd> {
    u32::try_from(number(value)?).map_err(|_| Odd("a number of permits that can't be one"))
}

pub(crate) async fn set_limit(
    permits: &Permits,
    wire: &Wire,
    request: &SetLimitRequest,
    by: Moment,
) -> StoreResult<LimitSet> {
    permits.check(wire, &[(!permits.counts_all, "limit that can be changed")])?;
    let mut question = permits.keys_of(wire, &request.name).ask(&SET_LIMIT);
    question.arg(request.limit.to_string().as_bytes());
    tell(&mut question, wire, &request.name);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b's', [before, used]) => {
            let before = u32::try_from(number(before)?).ok();
            Ok(LimitSet::Set { before, used: amount(used)? })
        }
        (b'f', [_, word]) => Ok(LimitSet::Foreign(foreign_type(bytes(word)?))),
        _ => Err(UNKNOWN_LETTER),
    })
}
