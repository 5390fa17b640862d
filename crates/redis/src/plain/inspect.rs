//! Looks at names.

use std::sync::LazyLock;

use fencelock_core::{InspectRequest, Inspection, LockName, Moment};
use fencelock_store::{Reply, StoreResult};
use redis::Value;

use super::Format;
use crate::{
    cluster::{Route, spread},
    lettered::{self, UNKNOWN_LETTER},
    reply::{Odd, bytes, foreign_type, list, time_left},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../scripts/plain/inspect.lua");

pub(crate) async fn inspect(
    format: &Format,
    wire: &Wire,
    request: &InspectRequest,
    by: Moment,
) -> StoreResult<Inspection> {
    let reply = look(format, wire, std::slice::from_ref(&request.name), by).await?;
    Ok(reply
        .map(|seen| seen.into_iter().next().unwrap_or(Inspection::Free { fencing_token: None })))
}

/// Reaches the server, or all primaries of a cluster, and proves that scripts may be run there.
pub(crate) async fn reach(format: &Format, wire: &Wire, by: Moment) -> StoreResult<()> {
    let mut reply = None;
    for (_, server) in wire.connections.primaries(&wire.clock, by).await? {
        let mut question = wire.script_on(&SCRIPT, std::iter::empty(), 0, 0);
        question.route = Route::Server(server);
        reply = Some(wire.ask(&mut question, by).await?);
    }
    match reply {
        Some(_) => Ok(Reply::new(())),
        None => Ok(look(format, wire, &[], by).await?.map(|_| ())),
    }
}

/// Looks at several names, or at none.
pub(crate) async fn look(
    format: &Format,
    wire: &Wire,
    names: &[LockName],
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let Some(groups) = wire.by_slot(names.iter()) else {
        return look_at(format, wire, names.iter(), by).await;
    };
    spread::gather(&groups, None, |number| {
        look_at(format, wire, groups[number].iter().map(|index| &names[*index]), by)
    })
    .await
}

/// The same where one server has all names.
async fn look_at<'n>(
    format: &Format,
    wire: &Wire,
    names: impl ExactSizeIterator<Item = &'n LockName> + Clone,
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let count = names.len();
    let mut question = wire.script_on(&SCRIPT, names, 0, 0);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| {
        let replies = list(value)?;
        if replies.len() != 3 * count {
            return Err(Odd("a list of another length than asked for"));
        }
        replies.chunks_exact(3).map(|fields| seen(format, fields)).collect()
    })
}

/// What is at one name.
pub(super) fn seen(format: &Format, fields: &[Value]) -> Result<Inspection, Odd> {
    let [letter, what, left] = fields else { return Err(UNKNOWN_LETTER) };
    match bytes(letter)? {
        b"e" => Ok(Inspection::Free { fencing_token: None }),
        b"h" => Ok(Inspection::Held(format.holder(bytes(what)?, time_left(left)?))),
        b"f" => Ok(Inspection::Foreign(foreign_type(bytes(what)?))),
        _ => Err(UNKNOWN_LETTER),
    }
}
