//! Looks at names, and lists them.

use std::sync::LazyLock;

use fencelock_core::{
    Holder, InspectRequest, Inspection, Kind, ListRequest, LockName, Moment, Page, Proof, Token,
};
use fencelock_store::{Reply, StoreResult};
use redis::Value;

use super::{
    Permits,
    acquire::{amount, held},
};
use crate::{
    cluster::{Route, spread},
    lettered::{self, UNKNOWN_LETTER},
    redisson::names::{asking, is_beside},
    reply::{Odd, bytes, foreign_type, list as elements, time_left},
    scan::scan,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../../scripts/redisson/permits/permits.lua",
    "../../scripts/redisson/permits/look.lua",
    "../../scripts/redisson/permits/inspect.lua"
);

pub(crate) async fn inspect(
    permits: &Permits,
    wire: &Wire,
    request: &InspectRequest,
    by: Moment,
) -> StoreResult<Inspection> {
    let reply = look(permits, wire, std::slice::from_ref(&request.name), by).await?;
    Ok(reply
        .map(|seen| seen.into_iter().next().unwrap_or(Inspection::Free { fencing_token: None })))
}

/// Reaches the server, or all primaries of a cluster, and proves that scripts may be run there.
pub(crate) async fn reach(permits: &Permits, wire: &Wire, by: Moment) -> StoreResult<()> {
    let mut reply = None;
    for (_, server) in wire.connections.primaries(&wire.clock, by).await? {
        let mut question = asking(&SCRIPT, &[]);
        question.route = Route::Server(server);
        reply = Some(wire.ask(&mut question, by).await?);
    }
    match reply {
        Some(_) => Ok(Reply::new(())),
        None => Ok(look(permits, wire, &[], by).await?.map(|_| ())),
    }
}

/// What is beside locks is none.
pub(crate) async fn list(
    permits: &Permits,
    wire: &Wire,
    request: &ListRequest,
    by: Moment,
) -> StoreResult<Page> {
    let found = scan(wire, request, by).await?;
    let reply = look(permits, wire, &found.names, by).await?;
    let held = |(name, seen): &(LockName, Inspection)| {
        !matches!(seen, Inspection::Free { .. }) && !is_beside(&wire.key(name))
    };
    let locks = found.names.into_iter().zip(reply.answer.iter().cloned()).filter(held).collect();
    let next = found.next;
    Ok(reply.map(|_| Page::new(locks, next)))
}

async fn look(
    permits: &Permits,
    wire: &Wire,
    names: &[LockName],
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let Some(groups) = wire.by_slot(names.iter()) else {
        return look_at(permits, wire, names.iter().collect(), by).await;
    };
    spread::gather(&groups, None, |number| {
        look_at(permits, wire, groups[number].iter().map(|index| &names[*index]).collect(), by)
    })
    .await
}

/// The same where one server has all names.
async fn look_at(
    permits: &Permits,
    wire: &Wire,
    names: Vec<&LockName>,
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let sets: Vec<_> = names.into_iter().map(|name| permits.keys_of(wire, name)).collect();
    let count = sets.len();
    let mut question = asking(&SCRIPT, &sets);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| {
        let replies = elements(value)?;
        if replies.len() != 5 * count {
            return Err(Odd("a list of another length than asked for"));
        }
        replies.chunks_exact(5).map(seen).collect()
    })
}

/// What is at one name: `look.lua`.
pub(super) fn seen(fields: &[Value]) -> Result<Inspection, Odd> {
    let [letter, what, left, used, limit] = fields else { return Err(UNKNOWN_LETTER) };
    match bytes(letter)? {
        b"e" => Ok(Inspection::Free { fencing_token: None }),
        b"f" => Ok(Inspection::Foreign(foreign_type(bytes(what)?))),
        b"h" => {
            let mut holder = Holder::new(time_left(left)?);
            holder.kind = Kind::Semaphore;
            let permit: Option<[u8; Token::BYTES]> = bytes(what)?.try_into().ok();
            holder.proof = permit.map(|permit| Proof::from(Token::from_bytes(permit)));
            holder.sharing = Some(held(amount(used)?, amount(limit)?));
            Ok(Inspection::Held(holder))
        }
        _ => Err(UNKNOWN_LETTER),
    }
}
