//! Gives permits back: those of a token, or all.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Inspection, Moment, ReleaseRequest, Released};
use fencelock_store::StoreResult;

use super::{Permits, inspect::seen, tell};
use crate::{
    connection::{Again, Order},
    lettered::{self, UNKNOWN_LETTER},
    plug::Plug,
    reply::{bytes, list},
    script::{Script, script},
    wire::Wire,
};

static RELEASE: LazyLock<Script> = script!(
    "../../scripts/redisson/permits/permits.lua",
    "../../scripts/redisson/permits/release.lua",
);
static FORCE: LazyLock<Script> = script!(
    "../../scripts/redisson/permits/permits.lua",
    "../../scripts/redisson/permits/look.lua",
    "../../scripts/redisson/permits/force_release.lua",
);

pub(crate) async fn release(
    permits: &Permits,
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    permits.check(wire, &[(request.names.len() > 1, "sets of names")])?;
    let name = request.names.first();
    let mut question = permits.keys_of(wire, name).ask(&RELEASE).order(Order::Behind);
    question.arg(request.token.as_bytes());
    tell(&mut question, wire, name);
    let answer = wire.ask(&mut question, by).await?;
    let reply = lettered::read(wire, &answer, |value| match bytes(value)? {
        b"h" => Ok(Released::Held),
        b"x" => Ok(Released::Expired),
        b"t" => Ok(Released::Taken),
        _ => Err(UNKNOWN_LETTER),
    })?;
    wire.settle_release(reply, answer.resent)
}

pub(crate) async fn force_release(
    permits: &Permits,
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could hit the next holders.
    let mut question = permits.keys_of(wire, &request.name).ask(&FORCE).again(Again::Never);
    tell(&mut question, wire, &request.name);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match seen(list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
