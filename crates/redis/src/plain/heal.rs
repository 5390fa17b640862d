//! Takes a lease that is provably ours elsewhere, where nobody holds it here.

use std::sync::LazyLock;

use fencelock_core::{HealRequest, Healed, Moment};
use fencelock_store::StoreResult;

use super::Format;
use crate::{
    lettered::{self, UNKNOWN_LETTER, busy, foreign, lettered},
    plug::Plug,
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../scripts/plain/is.lua", "../scripts/plain/heal.lua");

pub(crate) async fn heal(
    format: &Format,
    wire: &Wire,
    request: &HealRequest,
    by: Moment,
) -> StoreResult<Healed> {
    format.check(
        wire,
        &[
            (request.fencing_token.is_some(), "fencing tokens"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
        ],
    )?;
    let mut question = wire.script(&SCRIPT, &request.names, 2, 64);
    question.arg(&format.value(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    question.arg(&format.whole(&request.token, &request.metadata));
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'k', []) => Ok(Healed::Healed),
        (b'b', rest) => Ok(Healed::Busy(busy(rest, &request.names)?)),
        (b'f', rest) => Ok(Healed::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
