//! Looks at latches, lists those that are shut, and opens one by force.

use std::sync::LazyLock;

use fencelock_core::{
    ForceReleaseRequest, Forced, ForeignKind, Holder, InspectRequest, Inspection, Kind,
    ListRequest, LockName, Moment, Page, Sharing,
};
use fencelock_store::{Reply, StoreResult};
use redis::Value;

use super::{keys_of, tell};
use crate::{
    cluster::{Route, spread},
    connection::Again,
    lettered,
    redisson::{Keys, names::is_beside},
    reply::{Odd, bytes, foreign_type, list as elements, number},
    scan::scan,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/redisson/latch/latch.lua", "../../scripts/redisson/latch/inspect.lua",);
static FORCE: LazyLock<Script> = script!(
    "../../scripts/redisson/latch/latch.lua",
    "../../scripts/redisson/latch/force_release.lua",
);

/// What is at a name.
#[derive(Clone)]
pub(super) enum Seen {
    /// Nothing.
    Open,
    /// So many steps are missing.
    Shut(u32),
    Other(ForeignKind),
}

impl Seen {
    fn read(value: &Value) -> Result<Self, Odd> {
        match number(value) {
            Ok(0) => Ok(Self::Open),
            Ok(left) => Ok(Self::Shut(u32::try_from(left).unwrap_or(u32::MAX))),
            Err(_) => Ok(Self::Other(foreign_type(bytes(value)?))),
        }
    }

    fn inspection(self) -> Inspection {
        match self {
            Self::Open => Inspection::Free { fencing_token: None },
            Self::Shut(left) => Inspection::Held(shut(left)),
            Self::Other(kind) => Inspection::Foreign(kind),
        }
    }
}

/// A latch of which so many steps are missing: how many there were is not kept.
pub(super) fn shut(left: u32) -> Holder {
    let mut holder = Holder::new(None);
    holder.kind = Kind::Latch;
    let mut sharing = Sharing::default();
    sharing.limit = Some(left);
    holder.sharing = Some(sharing);
    holder
}

pub(super) async fn inspect(
    wire: &Wire,
    request: &InspectRequest,
    by: Moment,
) -> StoreResult<Inspection> {
    let reply = look(wire, std::slice::from_ref(&request.name), by).await?;
    Ok(reply.map(|seen| seen.into_iter().next().unwrap_or(Seen::Open).inspection()))
}

/// Reaches the server, or all primaries of a cluster, and proves that scripts may be run there.
pub(super) async fn reach(wire: &Wire, by: Moment) -> StoreResult<()> {
    let mut reply = None;
    for (_, server) in wire.connections.primaries(&wire.clock, by).await? {
        let mut question = Keys::new(wire, []).ask(&SCRIPT);
        question.route = Route::Server(server);
        reply = Some(wire.ask(&mut question, by).await?);
    }
    match reply {
        Some(_) => Ok(Reply::new(())),
        None => Ok(look(wire, &[], by).await?.map(|_| ())),
    }
}

/// What is beside latches is none.
pub(super) async fn list(wire: &Wire, request: &ListRequest, by: Moment) -> StoreResult<Page> {
    let found = scan(wire, request, by).await?;
    let reply = look(wire, &found.names, by).await?;
    let next = found.next;
    Ok(reply.map(|seen| {
        let seen = seen.into_iter().map(Seen::inspection);
        let is_shut = |(name, seen): &(LockName, Inspection)| {
            !matches!(seen, Inspection::Free { .. }) && !is_beside(&wire.key(name))
        };
        Page::new(found.names.into_iter().zip(seen).filter(is_shut).collect(), next)
    }))
}

pub(super) async fn look(wire: &Wire, names: &[LockName], by: Moment) -> StoreResult<Vec<Seen>> {
    let Some(groups) = wire.by_slot(names.iter()) else {
        return look_at(wire, names.iter().collect(), by).await;
    };
    spread::gather(&groups, None, |number| {
        look_at(wire, groups[number].iter().map(|index| &names[*index]).collect(), by)
    })
    .await
}

/// The same where one server has all names.
async fn look_at(wire: &Wire, names: Vec<&LockName>, by: Moment) -> StoreResult<Vec<Seen>> {
    let count = names.len();
    let answer = wire.ask(&mut Keys::new(wire, names).ask(&SCRIPT), by).await?;
    lettered::read(wire, &answer, |value| {
        let replies = elements(value)?;
        if replies.len() != count {
            return Err(Odd("a list of another length than asked for"));
        }
        replies.iter().map(Seen::read).collect()
    })
}

pub(super) async fn force_release(
    wire: &Wire,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    // Never twice: the second copy could open the next use.
    let mut question = keys_of(wire, &request.name).ask(&FORCE).again(Again::Never);
    tell(&mut question, wire, &request.name);
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| {
        let [seen] = elements(value)? else { return Err(Odd("not one answer")) };
        Ok(match Seen::read(seen)? {
            Seen::Open => Forced::WasFree,
            Seen::Shut(left) => Forced::Removed(shut(left)),
            Seen::Other(kind) => Forced::Foreign(kind),
        })
    })
}
