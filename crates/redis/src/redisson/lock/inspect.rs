//! Looks at names, and lists them.

use std::sync::LazyLock;

use fencelock_core::{
    Holder, InspectRequest, Inspection, ListRequest, LockName, Moment, Owner, Page, Proof, Sharing,
};
use fencelock_store::{Reply, StoreResult};
use redis::Value;

use super::Lock;
use crate::{
    cluster::{Route, spread},
    lettered::{self, UNKNOWN_LETTER},
    redisson::{
        Keys,
        names::{is_beside, token_of},
    },
    reply::{Odd, bytes, foreign_type, list as elements, number, time_left},
    scan::scan,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/redisson/lock/look.lua", "../../scripts/redisson/lock/inspect.lua");

pub(crate) async fn inspect(
    lock: &Lock,
    wire: &Wire,
    request: &InspectRequest,
    by: Moment,
) -> StoreResult<Inspection> {
    let reply = look(lock, wire, std::slice::from_ref(&request.name), by).await?;
    Ok(reply
        .map(|seen| seen.into_iter().next().unwrap_or(Inspection::Free { fencing_token: None })))
}

/// Reaches the server, or all primaries of a cluster, and proves that scripts may be run there.
pub(crate) async fn reach(lock: &Lock, wire: &Wire, by: Moment) -> StoreResult<()> {
    let mut reply = None;
    for (_, server) in wire.connections.primaries(&wire.clock, by).await? {
        let mut question = Keys::new(wire, []).ask(&SCRIPT);
        question.arg(b"0");
        question.route = Route::Server(server);
        reply = Some(wire.ask(&mut question, by).await?);
    }
    match reply {
        Some(_) => Ok(Reply::new(())),
        None => Ok(look(lock, wire, &[], by).await?.map(|_| ())),
    }
}

/// What is beside locks is none.
pub(crate) async fn list(
    lock: &Lock,
    wire: &Wire,
    request: &ListRequest,
    by: Moment,
) -> StoreResult<Page> {
    let found = scan(wire, request, by).await?;
    let reply = look(lock, wire, &found.names, by).await?;
    let held = |(name, seen): &(LockName, Inspection)| {
        !matches!(seen, Inspection::Free { .. }) && !is_beside(&wire.key(name))
    };
    let locks = found.names.into_iter().zip(reply.answer.iter().cloned()).filter(held).collect();
    let next = found.next;
    Ok(reply.map(|_| Page::new(locks, next)))
}

async fn look(
    lock: &Lock,
    wire: &Wire,
    names: &[LockName],
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let Some(groups) = wire.by_slot(names.iter()) else {
        return look_at(lock, wire, names.iter().collect(), by).await;
    };
    spread::gather(&groups, None, |number| {
        look_at(lock, wire, groups[number].iter().map(|index| &names[*index]).collect(), by)
    })
    .await
}

/// The same where one server has all names.
async fn look_at(
    lock: &Lock,
    wire: &Wire,
    names: Vec<&LockName>,
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let keys = Keys::new(wire, names).beside_if(lock.fences, Lock::counter);
    let count = keys.names();
    let mut question = keys.ask(&SCRIPT);
    question.arg(count.to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| {
        let replies = elements(value)?;
        if replies.len() != 5 * count {
            return Err(Odd("a list of another length than asked for"));
        }
        replies.chunks_exact(5).map(|fields| seen(lock, fields)).collect()
    })
}

/// What is at one name: `look.lua`.
pub(super) fn seen(lock: &Lock, fields: &[Value]) -> Result<Inspection, Odd> {
    let [letter, what, holds, left, fence] = fields else { return Err(UNKNOWN_LETTER) };
    match bytes(letter)? {
        b"e" => Ok(Inspection::Free { fencing_token: lock.fence(fence)? }),
        b"h" => {
            let mut holder = held_by(bytes(what)?, number(holds)?);
            holder.remaining = time_left(left)?;
            holder.fencing_token = lock.fence(fence)?;
            Ok(Inspection::Held(holder))
        }
        b"f" => Ok(Inspection::Foreign(foreign_type(bytes(what)?))),
        _ => Err(UNKNOWN_LETTER),
    }
}

/// Who holds, by the field: one of our tokens, or an owner with so many holds.
fn held_by(field: &[u8], holds: i64) -> Holder {
    let mut holder = Holder::new(None);
    if let Some(token) = token_of(field) {
        holder.proof = Some(Proof::from(token));
        return holder;
    }
    holder.proof = Some(Proof::new(field));
    let holders = u32::try_from(holds.max(1)).unwrap_or(u32::MAX);
    let mut sharing = Sharing::default();
    (sharing.holders, sharing.used, sharing.owner) = (holders, holders, Owner::new(field).ok());
    holder.sharing = Some(sharing);
    holder
}
