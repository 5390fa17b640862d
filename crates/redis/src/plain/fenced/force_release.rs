//! Frees a name whoever holds it; its counter goes on from where it is.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Inspection, Moment};
use fencelock_store::StoreResult;

use super::{Fenced, inspect::seen_with_number};
use crate::{
    connection::Again,
    lettered::{self, UNKNOWN_LETTER},
    reply::list,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/plain/delete.lua", "../../scripts/plain/fenced/force_release.lua",);

pub(super) async fn force_release(
    fenced: &Fenced,
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could hit the next holder.
    let names = std::slice::from_ref(&request.name);
    let mut question = Fenced::ask(wire, &SCRIPT, names.iter()).again(Again::Never);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match seen_with_number(fenced, list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
