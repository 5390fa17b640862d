//! Frees a name whoever holds it.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Inspection, Moment};
use fencelock_store::StoreResult;

use super::{UNKNOWN_LETTER, inspect::seen};
use crate::{
    connection::Again,
    reply::list,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../scripts/plain/force_release.lua");

pub(crate) async fn force_release(
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could hit the next holder.
    let names = std::iter::once(&request.name);
    let mut question = wire.script_on(&SCRIPT, names, 0, 0).again(Again::Never);
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, &answer, |value| match seen(list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
