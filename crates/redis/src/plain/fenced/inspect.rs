//! Looks at names and their counters, and lists them.

use std::sync::LazyLock;

use fencelock_core::{InspectRequest, Inspection, ListRequest, LockName, Moment, Page};
use fencelock_store::StoreResult;
use redis::Value;

use super::{Fenced, fence};
use crate::{
    cluster::spread,
    lettered::{self, UNKNOWN_LETTER},
    plain::inspect::seen,
    reply::{Odd, list as elements},
    scan::scan,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../../scripts/plain/fenced/inspect.lua");

pub(super) async fn inspect(
    fenced: &Fenced,
    wire: &Wire,
    request: &InspectRequest,
    by: Moment,
) -> StoreResult<Inspection> {
    let reply = look(fenced, wire, std::slice::from_ref(&request.name), by).await?;
    Ok(reply
        .map(|seen| seen.into_iter().next().unwrap_or(Inspection::Free { fencing_token: None })))
}

/// Counters are no locks.
pub(super) async fn list(
    fenced: &Fenced,
    wire: &Wire,
    request: &ListRequest,
    by: Moment,
) -> StoreResult<Page> {
    let mut found = scan(wire, request, by).await?;
    let is_counter =
        |name: &LockName| wire.fence_key.as_ref().is_some_and(|key| key.is(&wire.key(name)));
    found.names.retain(|name| !is_counter(name));
    let reply = look(fenced, wire, &found.names, by).await?;
    let held = |(_, seen): &(_, Inspection)| !matches!(seen, Inspection::Free { .. });
    let answer = reply.answer.iter().cloned();
    let locks = found.names.into_iter().zip(answer).filter(held).collect();
    let next = found.next;
    Ok(reply.map(|_| Page::new(locks, next)))
}

async fn look(
    fenced: &Fenced,
    wire: &Wire,
    names: &[LockName],
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let Some(groups) = wire.by_slot(names.iter()) else {
        return look_at(fenced, wire, names.iter(), by).await;
    };
    spread::gather(&groups, None, |number| {
        look_at(fenced, wire, groups[number].iter().map(|index| &names[*index]), by)
    })
    .await
}

/// The same where one server has all names.
async fn look_at<'n>(
    fenced: &Fenced,
    wire: &Wire,
    names: impl ExactSizeIterator<Item = &'n LockName> + Clone,
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let count = names.len();
    let mut question = Fenced::ask(wire, &SCRIPT, names);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| {
        let replies = elements(value)?;
        if replies.len() != 4 * count {
            return Err(Odd("a list of another length than asked for"));
        }
        replies.chunks_exact(4).map(|fields| seen_with_number(fenced, fields)).collect()
    })
}

/// What is at one name.
pub(super) fn seen_with_number(fenced: &Fenced, fields: &[Value]) -> Result<Inspection, Odd> {
    let [plain @ .., number] = fields else { return Err(UNKNOWN_LETTER) };
    let number = fence(number)?;
    Ok(match seen(fenced.format, plain)? {
        Inspection::Held(mut holder) => {
            holder.fencing_token = number;
            Inspection::Held(holder)
        }
        Inspection::Free { .. } => Inspection::Free { fencing_token: number },
        other => other,
    })
}
