//! Takes a name, and the next number.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{AcquireRequest, Acquired, Grant, Moment, Novelty, Refusal};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Fenced, digits, fence, granted};
use crate::{
    lettered::{self, UNKNOWN_LETTER, foreign, lettered},
    looks,
    plain::{Format, acquire::busy},
    plug::Plug,
    reply::{Odd, time_left},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/fence.lua",
    "../../scripts/plain/is.lua",
    "../../scripts/plain/fenced/acquire.lua",
);

pub(super) async fn acquire(
    fenced: &Fenced,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let name = request.names.first();
    let is_apart = wire.fence_key.as_ref().is_some_and(|key| key.is_apart(wire, name));
    fenced.check(
        wire,
        &[
            (request.proposed.is_some(), "fencing tokens of a quorum"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
            (!request.mode.is_exclusive(), "locks that several hold together"),
            (request.names.len() > 1, "sets of names"),
            (
                is_apart,
                "place on a cluster for it: a lock and its counter are in one slot only by a hash tag",
            ),
        ],
    )?;
    let mut question = Fenced::ask(wire, &SCRIPT, request.names.iter());
    question.arg(&fenced.format.value(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    question.arg(&fenced.format.whole(&request.token, &request.metadata));
    question.arg(&digits(request.floor));
    let answer = wire.ask(&mut question, by).await?;
    let answer = lettered::read(wire, &answer, |value| decode(fenced.format, request, value))?;
    looks::of_acquire(wire, answer, by).await
}

fn decode(format: &Format, request: &AcquireRequest, value: &Value) -> Result<Acquired, Odd> {
    let ttl = request.ttl.as_duration();
    let grant = |fence, left: Option<Duration>, novelty| {
        Acquired::Granted(Grant::new(fence, left.unwrap_or(ttl), novelty))
    };
    match lettered(value)? {
        (b'g', [fence]) => Ok(grant(granted(fence)?, None, Novelty::Fresh)),
        (b'y', [left, fence]) => Ok(grant(granted(fence)?, time_left(left)?, Novelty::Repeated)),
        (b'o', []) => Ok(Acquired::Refused(Refusal::FenceAhead)),
        (b'b', [rest @ .., number]) => {
            let mut busy = busy(format, request, rest)?;
            busy.holder.fencing_token = fence(number)?;
            Ok(Acquired::Busy(busy))
        }
        (b'f', rest) => Ok(Acquired::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    }
}
