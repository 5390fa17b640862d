//! Takes all names or none; also on a node that forgot a lease.

use std::sync::LazyLock;

use fencelock_core::{
    AcquireRequest, Acquired, Fence, Grant, HealRequest, Healed, Moment, Novelty, Refusal,
};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Symfony, member};
use crate::{
    lettered::{self, UNKNOWN_LETTER, busy, foreign, lettered},
    looks,
    plug::Plug,
    reply::{Odd, time_left},
    script::{Script, script},
    wire::Wire,
};

static ACQUIRE: LazyLock<Script> =
    script!("../scripts/symfony/members.lua", "../scripts/symfony/acquire.lua");
static HEAL: LazyLock<Script> =
    script!("../scripts/symfony/members.lua", "../scripts/symfony/heal.lua");

const NO_DEADLINES: &str = "deadlines: replies say nothing of the server's time";

pub(crate) async fn acquire(
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let is_fence_named = request.floor.is_some() || request.proposed.is_some();
    Symfony.check(
        wire,
        &[
            (is_fence_named, "fencing tokens"),
            (request.deadline.is_some(), NO_DEADLINES),
            (!Symfony.capabilities().modes.has(&request.mode), "locks of that kind"),
        ],
    )?;
    let mut question = wire.script(&ACQUIRE, &request.names, 3, 64);
    question.arg(&member(&request.token));
    question.arg(if request.mode.is_exclusive() { b"w" } else { b"r" });
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    let reply = lettered::read(wire, &answer, |value| decode(request, value))?;
    looks::of_acquire(wire, reply, by).await
}

fn decode(request: &AcquireRequest, value: &Value) -> Result<Acquired, Odd> {
    let ttl = request.ttl.as_duration();
    let grant = |left, novelty| Acquired::Granted(Grant::new(Fence::None, left, novelty));
    match lettered(value)? {
        (b'g', []) => Ok(grant(ttl, Novelty::Fresh)),
        (b'y', [left]) => Ok(grant(time_left(left)?.unwrap_or(ttl), Novelty::Repeated)),
        (b's', []) => Ok(Acquired::Refused(Refusal::TokenRetired)),
        (b'b', rest) => Ok(Acquired::Busy(busy(rest, &request.names)?)),
        (b'f', rest) => Ok(Acquired::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    }
}

pub(crate) async fn heal(wire: &Wire, request: &HealRequest, by: Moment) -> StoreResult<Healed> {
    Symfony.check(
        wire,
        &[
            (request.fencing_token.is_some(), "fencing tokens"),
            (request.deadline.is_some(), NO_DEADLINES),
        ],
    )?;
    let mut question = wire.script(&HEAL, &request.names, 2, 64);
    question.arg(&member(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'k', []) => Ok(Healed::Healed),
        (b'b', rest) => Ok(Healed::Busy(busy(rest, &request.names)?)),
        (b'f', rest) => Ok(Healed::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
