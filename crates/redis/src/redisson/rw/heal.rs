//! Takes a lease that is provably ours elsewhere, where nobody holds it here.

use std::sync::LazyLock;

use fencelock_core::{HealRequest, Healed, Moment};
use fencelock_store::StoreResult;

use super::{Rw, keys};
use crate::{
    lettered::{self, UNKNOWN_LETTER, busy, foreign, lettered},
    plug::Plug,
    redisson::own_field,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../../scripts/redisson/rw/heal.lua");

pub(crate) async fn heal(wire: &Wire, request: &HealRequest, by: Moment) -> StoreResult<Healed> {
    Rw.check(
        wire,
        &[
            (request.fencing_token.is_some(), "fencing tokens"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
        ],
    )?;
    let keys = keys(wire, request.names.iter(), &request.token);
    let count = keys.names().to_string();
    let mut question = keys.ask(&SCRIPT);
    question.arg(count.as_bytes()).arg(&own_field(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'k', []) => Ok(Healed::Healed),
        (b'b', rest) => Ok(Healed::Busy(busy(rest, &request.names)?)),
        (b'f', rest) => Ok(Healed::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
