//! Ends the hold of every name that is still ours.

use std::sync::LazyLock;

use fencelock_core::{Moment, ReleaseRequest, Released};
use fencelock_store::StoreResult;

use super::{channel, how, keys};
use crate::{
    connection::Order,
    lettered::{self, UNKNOWN_LETTER},
    redisson::{names::suffixed, own_field},
    reply::bytes,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> =
    script!("../../scripts/redisson/rw/free.lua", "../../scripts/redisson/rw/release.lua");

pub(crate) async fn release(
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    let keys = keys(wire, request.names.iter(), &request.token);
    let count = keys.names().to_string();
    let mut question = keys.ask(&SCRIPT).order(Order::Behind);
    question.arg(count.as_bytes()).arg(&own_field(&request.token)).arg(how(wire));
    for name in request.names.iter() {
        let key = wire.key(name);
        question.arg(&channel(&key)).arg(&suffixed(&key, ""));
    }
    let answer = wire.ask(&mut question, by).await?;
    let reply = lettered::read(wire, &answer, |value| match bytes(value)? {
        b"h" => Ok(Released::Held),
        b"x" => Ok(Released::Expired),
        b"t" => Ok(Released::Taken),
        _ => Err(UNKNOWN_LETTER),
    })?;
    wire.settle_release(reply, answer.resent)
}
