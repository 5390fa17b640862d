//! Looks at names.

use std::sync::LazyLock;

use fencelock_core::{
    Holder, InspectRequest, Inspection, LockName, Moment, Proof, StoreTime, Token,
};
use fencelock_store::StoreResult;

use super::UNKNOWN_LETTER;
use crate::{
    reply::{Fields, Odd},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
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

/// Looks at several names, or at none, which only reaches the server.
pub(crate) async fn look(
    wire: &Wire,
    names: &[LockName],
    by: Moment,
) -> StoreResult<Vec<Inspection>> {
    let mut question = wire.script_on(&SCRIPT, names.iter(), 0, 0);
    let answer = wire.ask(&mut question, by).await?;
    super::read_list(wire, answer, names.len(), decode)
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
