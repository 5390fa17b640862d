//! Frees a name whoever holds it.

use std::sync::LazyLock;

use fencelock_core::{ForceReleaseRequest, Forced, Inspection, Moment};
use fencelock_store::StoreResult;

use super::{Format, inspect::seen, wake::Deleting};
use crate::{
    connection::Again,
    lettered::{self, UNKNOWN_LETTER},
    reply::list,
    script::{Script, script},
    wire::Wire,
};

static DELETING: Deleting = Deleting { alone: &ALONE, signals: &SIGNALS, publishes: &PUBLISHES };
static ALONE: LazyLock<Script> =
    script!("../scripts/plain/delete.lua", "../scripts/plain/force_release.lua");
static SIGNALS: LazyLock<Script> =
    script!("../scripts/plain/signal.lua", "../scripts/plain/force_release.lua");
static PUBLISHES: LazyLock<Script> =
    script!("../scripts/plain/publish.lua", "../scripts/plain/force_release.lua");

pub(crate) async fn force_release(
    format: &Format,
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could hit the next holder.
    let names = std::slice::from_ref(&request.name);
    let mut question = DELETING.question(format, wire, names, &[]).again(Again::Never);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match seen(format, list(value)?)? {
        Inspection::Held(holder) => Ok(Forced::Removed(holder)),
        Inspection::Free { .. } => Ok(Forced::WasFree),
        Inspection::Foreign(kind) => Ok(Forced::Foreign(kind)),
        _ => Err(UNKNOWN_LETTER),
    })
}
