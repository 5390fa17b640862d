//! Takes all names or none. One name is taken by the very command that other libraries use, with
//! `GET` added to it: the reply then tells a repeated request from a busy lock.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, Busy, Fence, Foreign, Grant, Holder, Inspection, Moment, Novelty,
    Proof, Refusal,
};
use fencelock_store::{Reply, StoreErrorKind, StoreResult};
use redis::{Cmd, Value};

use super::{
    Format,
    inspect::look,
    wake::{Wake, python_list, spring_channels},
};
use crate::{
    connection::{Again, Order},
    hearing,
    lettered::{self, UNKNOWN_LETTER, lettered},
    looks,
    plug::Plug,
    reply::{Odd, bytes, time_left},
    script::{Question, Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../scripts/plain/is.lua", "../scripts/plain/acquire.lua");

pub(crate) async fn acquire(
    format: &Format,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let ask = || ask(format, wire, request, by);
    let answer = match format.wake {
        Wake::Nothing => ask().await?,
        Wake::Channels => hearing::acquire(wire, request, by, spring_channels, ask).await?,
        Wake::List(_) => hearing::acquire(wire, request, by, python_list, ask).await?,
    };
    looks::of_acquire(wire, answer, by).await
}

async fn ask(
    format: &Format,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    format.check(
        wire,
        &[
            (request.floor.is_some() || request.proposed.is_some(), "fencing tokens"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
            (!request.mode.is_exclusive(), "locks that several hold together"),
            (
                format.wake.is_apart(wire, &request.names),
                "place on a cluster for it: a lock and its signal are in one slot only by a hash tag",
            ),
        ],
    )?;
    if request.names.len() == 1 {
        return one(format, wire, request, by).await;
    }
    Box::pin(several(format, wire, request, by)).await
}

async fn several(
    format: &Format,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let mut question = wire.script(&SCRIPT, &request.names, 2, 64);
    question.arg(&format.value(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    question.arg(&format.whole(&request.token, &request.metadata));
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| decode(format, request, value))
}

fn decode(format: &Format, request: &AcquireRequest, value: &Value) -> Result<Acquired, Odd> {
    match lettered(value)? {
        (b'g', []) => Ok(fresh(request)),
        (b'y', [left]) => Ok(repeated(request, time_left(left)?)),
        (b's', []) => Ok(Acquired::Refused(Refusal::TokenRetired)),
        (b'b', rest) => Ok(Acquired::Busy(busy(format, request, rest)?)),
        (b'f', rest) => Ok(Acquired::Foreign(lettered::foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    }
}

fn fresh(request: &AcquireRequest) -> Acquired {
    Acquired::Granted(Grant::new(Fence::None, request.ttl.as_duration(), Novelty::Fresh))
}

/// A key of ours that never expires (somebody made it so) has at least the ttl left.
fn repeated(request: &AcquireRequest, left: Option<Duration>) -> Acquired {
    let left = left.unwrap_or(request.ttl.as_duration());
    Acquired::Granted(Grant::new(Fence::None, left, Novelty::Repeated))
}

async fn one(
    format: &Format,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    const OVERHEAD_BYTES: usize = 96;
    let name = request.names.first();
    let token = format.value(&request.token);
    let key = wire.key(name);
    let value = format.whole(&request.token, &request.metadata);
    let mut command = Cmd::with_capacity(7, key.len() + value.len() + OVERHEAD_BYTES);
    command.arg("SET").arg(&key[..]).arg(&value[..]).arg("NX").arg("PX");
    command.arg(request.ttl.as_millis()).arg("GET");
    let mut question = Question::command(command, Again::Harmless, Order::Any);
    question.route = wire.route(name);
    let answer = match wire.ask(&mut question, by).await {
        // A value of another type is an answer, not a failure.
        Err(error) if error.kind() == StoreErrorKind::Protocol => {
            return Box::pin(of_another_type(format, wire, request, by, error)).await;
        }
        other => other?,
    };
    if answer.value == Value::Nil {
        return Ok(Reply::new(fresh(request)).of(answer.greeting.incarnation));
    }
    let reply =
        lettered::read(wire, &answer, |value| bytes(value).map(|value| format.is(value, &token)))?;
    Box::pin(held(format, wire, request, reply.answer, by)).await
}

/// Somebody holds it: we, as the reply said, or another. How long it runs is a second question, and
/// the holder may have changed before it.
async fn held(
    format: &Format,
    wire: &Wire,
    request: &AcquireRequest,
    was_ours: bool,
    by: Moment,
) -> StoreResult<Acquired> {
    let (name, token) = (request.names.first(), Proof::from(request.token));
    let seen = look(format, wire, std::slice::from_ref(name), by).await?;
    let answer = match seen.answer.into_iter().next() {
        Some(Inspection::Held(holder)) => {
            let ours = holder.proof.as_ref() == Some(&token);
            match (was_ours, ours) {
                (true, true) => repeated(request, holder.remaining),
                (true, false) => Acquired::Refused(Refusal::TokenRetired),
                (false, _) => Acquired::Busy(Busy::new(name.clone(), unproven(holder))),
            }
        }
        Some(Inspection::Foreign(kind)) => Acquired::Foreign(Foreign::new(name.clone(), kind)),
        _ if was_ours => Acquired::Refused(Refusal::TokenRetired),
        _ => Acquired::Busy(Busy::new(name.clone(), Holder::new(Some(Duration::ZERO)))),
    };
    Ok(Reply::new(answer).of(seen.incarnation))
}

/// Who is in the way: which name, how long yet, and the value there.
pub(super) fn busy(format: &Format, request: &AcquireRequest, rest: &[Value]) -> Result<Busy, Odd> {
    let [which @ .., value] = rest else { return Err(UNKNOWN_LETTER) };
    let mut busy = lettered::busy(which, &request.names)?;
    busy.holder = unproven(format.holder(bytes(value)?, busy.holder.remaining));
    Ok(busy)
}

/// What a contender hears of a holder.
fn unproven(mut holder: Holder) -> Holder {
    holder.proof = None;
    holder
}

async fn of_another_type(
    format: &Format,
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
    error: fencelock_store::StoreError,
) -> StoreResult<Acquired> {
    let says = std::error::Error::source(&error).map(ToString::to_string);
    if !says.is_some_and(|says| says.starts_with("WRONGTYPE")) {
        return Err(error);
    }
    let name = request.names.first();
    let seen = look(format, wire, std::slice::from_ref(name), by).await?;
    let answer = match seen.answer.into_iter().next() {
        Some(Inspection::Foreign(kind)) => Acquired::Foreign(Foreign::new(name.clone(), kind)),
        // It went in between: the lock was not free when it was asked for.
        _ => Acquired::Busy(Busy::new(name.clone(), Holder::new(Some(Duration::ZERO)))),
    };
    Ok(Reply::new(answer).of(seen.incarnation))
}
