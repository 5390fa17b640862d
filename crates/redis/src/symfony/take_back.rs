//! Ends holds: that of a token, or of everybody.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Inspection, Moment, ReleaseRequest, Released};
use fencelock_store::StoreResult;

use super::{inspect::seen, member};
use crate::{
    connection::{Again, Order},
    lettered::{self, UNKNOWN_LETTER},
    reply::{bytes, list},
    script::{Script, script},
    wire::Wire,
};

static RELEASE: LazyLock<Script> =
    script!("../scripts/symfony/members.lua", "../scripts/symfony/release.lua");
static FORCE: LazyLock<Script> = script!(
    "../scripts/symfony/members.lua",
    "../scripts/symfony/look.lua",
    "../scripts/symfony/force_release.lua",
);

pub(crate) async fn release(
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    let mut question = wire.script(&RELEASE, &request.names, 1, 32).order(Order::Behind);
    question.arg(&member(&request.token));
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
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could hit the next holder.
    let names = std::iter::once(&request.name);
    let mut question = wire.script_on(&FORCE, names, 0, 0).again(Again::Never);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match seen(list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
