//! Writes or reads all names or none.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{AcquireRequest, Acquired, Fence, Grant, Moment, Novelty, Refusal};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Rw, keys, told};
use crate::{
    hearing,
    lettered::{self, UNKNOWN_LETTER, busy, foreign, lettered},
    looks,
    plug::Plug,
    redisson::own_field,
    reply::{Odd, time_left},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../../scripts/redisson/rw/acquire.lua");

pub(crate) async fn acquire(
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let is_fence_named = request.floor.is_some() || request.proposed.is_some();
    Rw.check(
        wire,
        &[
            (is_fence_named, "fencing tokens"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
            (!Rw.capabilities().modes.has(&request.mode), "locks of that kind"),
        ],
    )?;
    let answer = hearing::acquire(wire, request, by, told, || ask(wire, request, by)).await?;
    looks::of_acquire(wire, answer, by).await
}

async fn ask(wire: &Wire, request: &AcquireRequest, by: Moment) -> StoreResult<Acquired> {
    let keys = keys(wire, request.names.iter(), &request.token);
    let count = keys.names().to_string();
    let mut question = keys.ask(&SCRIPT);
    question.arg(count.as_bytes()).arg(&own_field(&request.token));
    question.arg(if request.mode.is_exclusive() { b"w" } else { b"r" });
    question.arg(request.ttl.as_millis().to_string().as_bytes());
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
        (b's', []) => Ok(Acquired::Refused(Refusal::TokenRetired)),
        (b'b', rest) => Ok(Acquired::Busy(busy(rest, &request.names)?)),
        (b'f', rest) => Ok(Acquired::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    }
}
