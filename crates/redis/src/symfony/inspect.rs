//! Looks at names, and lists them.

use std::sync::LazyLock;

use fencelock_core::{
    Holder, InspectRequest, Inspection, ListRequest, LockName, Moment, Page, Sharing,
};
use fencelock_store::{Reply, StoreResult};
use redis::Value;

use super::SHAPE;
use crate::{
    cluster::{Route, spread},
    lettered::{self, UNKNOWN_LETTER},
    reply::{Odd, bytes, foreign_type, list as elements, number, time_left},
    scan::scan,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/symfony/members.lua",
    "../scripts/symfony/look.lua",
    "../scripts/symfony/inspect.lua",
);

pub(crate) async fn inspect(
    wire: &Wire,
    request: &InspectRequest,
    by: Moment,
) -> StoreResult<Inspection> {
    let reply = look(wire, std::slice::from_ref(&request.name), by).await?;
    Ok(reply
        .map(|seen| seen.into_iter().next().unwrap_or(Inspection::Free { fencing_token: None })))
}

/// Reaches the server, or all primaries of a cluster, and proves that scripts may be run there.
pub(crate) async fn reach(wire: &Wire, by: Moment) -> StoreResult<()> {
    let mut reply = None;
    for (_, server) in wire.connections.primaries(&wire.clock, by).await? {
        let mut question = wire.script_on(&SCRIPT, std::iter::empty(), 0, 0);
        question.route = Route::Server(server);
        reply = Some(wire.ask(&mut question, by).await?);
    }
    match reply {
        Some(_) => Ok(Reply::new(())),
        None => Ok(look(wire, &[], by).await?.map(|_| ())),
    }
}

pub(crate) async fn list(wire: &Wire, request: &ListRequest, by: Moment) -> StoreResult<Page> {
    let found = scan(wire, request, by).await?;
    let reply = look(wire, &found.names, by).await?;
    let held = |(_, seen): &(LockName, Inspection)| !matches!(seen, Inspection::Free { .. });
    let locks = found.names.into_iter().zip(reply.answer.iter().cloned()).filter(held).collect();
    let next = found.next;
    Ok(reply.map(|_| Page::new(locks, next)))
}

async fn look(wire: &Wire, names: &[LockName], by: Moment) -> StoreResult<Vec<Inspection>> {
    let Some(groups) = wire.by_slot(names.iter()) else {
        return look_at(wire, names.iter(), by).await;
    };
    spread::gather(&groups, None, |number| {
        look_at(wire, groups[number].iter().map(|index| &names[*index]), by)
    })
    .await
}

/// The same where one server has all names.
async fn look_at<'n>(
    wire: &Wire,
    names: impl ExactSizeIterator<Item = &'n LockName> + Clone,
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let count = names.len();
    let mut question = wire.script_on(&SCRIPT, names, 0, 0);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| {
        let replies = elements(value)?;
        if replies.len() != 4 * count {
            return Err(Odd("a list of another length than asked for"));
        }
        replies.chunks_exact(4).map(seen).collect()
    })
}

/// What is at one name: `look.lua`.
pub(super) fn seen(fields: &[Value]) -> Result<Inspection, Odd> {
    let [letter, what, left, readers] = fields else { return Err(UNKNOWN_LETTER) };
    match bytes(letter)? {
        b"e" => Ok(Inspection::Free { fencing_token: None }),
        b"f" => Ok(Inspection::Foreign(foreign_type(bytes(what)?))),
        way @ (b"w" | b"r") => {
            let mut holder = Holder::new(time_left(left)?);
            holder.proof = Some(SHAPE.proof(bytes(what)?));
            if way == b"r" {
                let mut sharing = Sharing::default();
                sharing.holders = u32::try_from(number(readers)?.max(1)).unwrap_or(u32::MAX);
                sharing.used = sharing.holders;
                holder.sharing = Some(sharing);
            }
            Ok(Inspection::Held(holder))
        }
        _ => Err(UNKNOWN_LETTER),
    }
}
