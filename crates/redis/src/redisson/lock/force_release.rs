//! Frees a name whoever holds it.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Inspection, Moment};
use fencelock_store::StoreResult;

use super::{Lock, fair, inspect::seen};
use crate::{
    connection::Again,
    lettered::{self, UNKNOWN_LETTER},
    redisson::Keys,
    reply::list,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/redisson/lock/look.lua",
    "../../scripts/redisson/lock/free.lua",
    "../../scripts/redisson/lock/force_release.lua",
);

pub(crate) async fn force_release(
    lock: &Lock,
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    if lock.queues {
        return fair::force_release(lock, wire, request, by).await;
    }
    let keys = Keys::new(wire, [&request.name]).beside_if(lock.fences, Lock::counter);
    // Never twice: the second copy could hit the next holder.
    let mut question = keys.ask(&SCRIPT).again(Again::Never);
    lock.tell(&mut question, wire, std::iter::once(&request.name));
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match seen(lock, list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
