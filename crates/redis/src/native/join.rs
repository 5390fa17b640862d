//! Takes a name beside others. (The plain dialect has no such file: it has room for one holder.)

use std::sync::LazyLock;

use fencelock_core::{AcquireRequest, Acquired, Mode, Moment};
use fencelock_store::{StoreError, StoreResult};

use super::{
    acquire::{decode, lease, wish},
    ahead_us, deadline_digits, digits, fence_digits, retain_ms,
};
use crate::{
    script::{Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/never_rests.lua",
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/place.lua",
    "../scripts/native/join.lua",
);
static STRICT: LazyLock<Script> = script!(
    "../scripts/native/boot.lua",
    "../scripts/native/rest.lua",
    "../scripts/native/clock.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/line.lua",
    "../scripts/native/place.lua",
    "../scripts/native/join.lua",
);

/// As `acquire`, for every mode but the exclusive one.
pub(super) async fn join(
    wire: &Wire,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    const BYTES: usize = 256;
    wire.check_ttl(request.ttl)?;
    let mode = mode(&request.mode)
        .ok_or_else(|| StoreError::unsupported("this version does not know such a mode"))?;
    let sizes = (8, request.metadata.as_bytes().len() + BYTES);
    let mut question = wire.granting(&SCRIPT, &STRICT, &request.names, sizes);
    question.listener = request.listener;
    question.arg(&request.token.to_hex());
    question.arg(retain_ms(request.retain).as_bytes());
    question.arg(&lease(request));
    question.arg(&deadline_digits(request.deadline));
    question.arg(&wish(wire, request));
    question.arg(&fence_digits(request.floor));
    question.arg(&mode);
    question.arg(ahead_us().as_bytes());
    wire.seal(&mut question);
    let answer = wire.ask(&mut question, by).await?;
    if let Some(refusal) = wire.refused_by_guard(&answer) {
        return Err(refusal);
    }
    let reply =
        super::read(wire, answer, |letter, fields, at| decode(request, letter, fields, at))?;
    if !matches!(reply.answer, Acquired::Refused(_) | Acquired::Foreign(_)) {
        // What several hold or wait for is not where a lease is looked for first.
        wire.lines.learn(&request.names, true);
    }
    Ok(reply)
}

/// A mode as `crowd.lua` has it; nothing for one that it does not know.
fn mode(mode: &Mode) -> Option<Vec<u8>> {
    let (letter, owner): (u8, &[u8]) = match mode {
        Mode::Shared => (b's', &[]),
        Mode::Owned(owner) => (b'o', owner.as_bytes()),
        Mode::Permits { .. } => (b'p', &[]),
        Mode::CountDown { .. } => (b'c', &[]),
        Mode::Opening { .. } => (b'e', &[]),
        Mode::Meeting { .. } => (b'm', &[]),
        _ => return None,
    };
    let mut text = vec![letter];
    text.extend_from_slice(&digits::<10>(u64::from(mode.weight())));
    text.extend_from_slice(&digits::<10>(u64::from(mode.limit().unwrap_or(0))));
    text.extend_from_slice(&digits::<2>(u64::try_from(owner.len()).unwrap_or(0)));
    text.extend_from_slice(owner);
    Some(text)
}
