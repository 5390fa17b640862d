//! Takes a lease that is provably ours elsewhere, where nobody holds it here.

use std::sync::LazyLock;

use fencelock_core::{HealRequest, Healed, Moment};
use fencelock_store::StoreResult;

use super::Lock;
use crate::{
    lettered::{self, UNKNOWN_LETTER, busy, foreign, lettered},
    plug::Plug,
    redisson::{Keys, own_field},
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../../scripts/redisson/lock/heal.lua");

pub(crate) async fn heal(
    lock: &Lock,
    wire: &Wire,
    request: &HealRequest,
    by: Moment,
) -> StoreResult<Healed> {
    lock.check(
        wire,
        &[
            // Each counter would go on by itself.
            (request.fencing_token.is_some(), "fencing tokens that other nodes have, too"),
            (request.deadline.is_some(), "deadlines, since it does not know the server's time"),
        ],
    )?;
    let mut question = Keys::new(wire, request.names.iter()).ask(&SCRIPT);
    question.arg(&own_field(&request.token));
    question.arg(request.ttl.as_millis().to_string().as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    lettered::read(wire, &answer, |value| match lettered(value)? {
        (b'k', []) => Ok(Healed::Healed),
        (b'b', rest) => Ok(Healed::Busy(busy(rest, &request.names)?)),
        (b'f', rest) => Ok(Healed::Foreign(foreign(rest, &request.names)?)),
        _ => Err(UNKNOWN_LETTER),
    })
}
