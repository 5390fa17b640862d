//! Looks at names.

use std::sync::LazyLock;

use fencelock_core::{
    Holder, InspectRequest, Inspection, LockName, Moment, Proof, StoreTime, Token,
};
use fencelock_store::StoreResult;

use super::UNKNOWN_LETTER;
use crate::{
    cluster::{Route, spread},
    reply::{Fields, Odd},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/inspect.lua",
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
        Some(answer) => Ok(super::read_list(wire, answer, 0, decode)?.map(|_| ())),
        None => Ok(look(wire, &[], by).await?.map(|_| ())),
    }
}

/// Looks at several names, or at none.
pub(crate) async fn look(
    wire: &Wire,
    names: &[LockName],
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
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
    super::read_list(wire, answer, count, decode)
}

pub(super) fn decode(letter: u8, mut fields: Fields<'_>, at: StoreTime) -> Result<Inspection, Odd> {
    match letter {
        b'e' => Ok(Inspection::Free { fencing_token: fields.fencing_token()? }),
        b'h' => Ok(Inspection::Held(holder(fields, at)?)),
        b'f' => Ok(Inspection::Foreign(fields.foreign_kind()?)),
        _ => Err(UNKNOWN_LETTER),
    }
}

/// A holder with its proof.
pub(super) fn holder(mut fields: Fields<'_>, at: StoreTime) -> Result<Holder, Odd> {
    let proof = Proof::new(fields.take(Token::HEX_CHARACTERS)?);
    let mut holder = fields.holder(at)?;
    holder.proof = Some(proof);
    Ok(holder)
}
