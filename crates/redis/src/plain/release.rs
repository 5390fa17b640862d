//! Frees every name that is still ours.

use std::sync::LazyLock;

use fencelock_core::{Moment, ReleaseRequest, Released};
use fencelock_store::StoreResult;
use redis::Value;

use super::UNKNOWN_LETTER;
use crate::{
    connection::Order,
    reply::{Odd, bytes},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../scripts/plain/release.lua");

pub(crate) async fn release(
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    let mut question = wire.script(&SCRIPT, &request.names, 1, 48).order(Order::Behind);
    question.arg(&request.token.to_hex());
    let answer = wire.ask(&mut question, by).await?;
    let reply = super::read(wire, &answer, decode)?;
    wire.settle_release(reply, answer.resent)
}

pub(super) fn decode(value: &Value) -> Result<Released, Odd> {
    match bytes(value)? {
        b"h" => Ok(Released::Held),
        b"x" => Ok(Released::Expired),
        b"t" => Ok(Released::Taken),
        _ => Err(UNKNOWN_LETTER),
    }
}
