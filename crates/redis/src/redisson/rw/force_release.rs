//! Frees a name whoever holds it.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Inspection, Moment};
use fencelock_store::StoreResult;

use super::{channel, how, inspect::seen};
use crate::{
    connection::Again,
    lettered::{self, UNKNOWN_LETTER},
    redisson::Keys,
    reply::list,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/redisson/rw/look.lua",
    "../../scripts/redisson/rw/free.lua",
    "../../scripts/redisson/rw/force_release.lua",
);

pub(crate) async fn force_release(
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    let keys = Keys::new(wire, [&request.name]);
    // Never twice: the second copy could hit the next holder.
    let mut question = keys.ask(&SCRIPT).again(Again::Never);
    question.arg(how(wire)).arg(&channel(&wire.key(&request.name)));
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match seen(list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
