//! Frees every name that is still ours.

use std::sync::LazyLock;

use fencelock_core::{Moment, ReleaseRequest, Released};
use fencelock_store::{Outcome, Reply, StoreError, StoreErrorKind, StoreResult};
use redis::{Cmd, Value};

use super::{
    Format,
    wake::{Deleting, Wake},
};
use crate::{
    connection::{Again, Order},
    lettered::{self, UNKNOWN_LETTER},
    reply::{Odd, bytes},
    script::{Question, Script, script},
    wire::Wire,
};

static DELETING: Deleting = Deleting { alone: &ALONE, signals: &SIGNALS, publishes: &PUBLISHES };
static ALONE: LazyLock<Script> = script!(
    "../scripts/plain/is.lua",
    "../scripts/plain/delete.lua",
    "../scripts/plain/release.lua"
);
static SIGNALS: LazyLock<Script> = script!(
    "../scripts/plain/is.lua",
    "../scripts/plain/signal.lua",
    "../scripts/plain/release.lua"
);
static PUBLISHES: LazyLock<Script> = script!(
    "../scripts/plain/is.lua",
    "../scripts/plain/publish.lua",
    "../scripts/plain/release.lua"
);

pub(crate) async fn release(
    format: &Format,
    wire: &Wire,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    let mut resent = false;
    if request.names.len() == 1
        && format.wake == Wake::Nothing
        && !format.has_metadata
        && let Some(shortcut) = wire.connections.shortcut()
        && let Some(command) =
            shortcut.delete(&wire.key(request.names.first()), &format.value(&request.token))
    {
        match Box::pin(shortly(wire, command, by)).await? {
            Short::Deleted(reply) => return Ok(reply),
            Short::Not { was_resent } => resent = was_resent,
        }
    }
    let names = request.names.as_slice();
    let (value, count) = (format.value(&request.token), names.len().to_string());
    let question = DELETING.question(format, wire, names, &[&value, count.as_bytes()]);
    let mut question = question.order(Order::Behind);
    let answer = wire.ask(&mut question, by).await?;
    let reply = lettered::read(wire, &answer, decode)?;
    wire.settle_release(reply, answer.resent || resent)
}

/// What a command that compares and deletes came to.
enum Short {
    Deleted(Reply<Released>),
    /// Why not, the script finds out.
    Not {
        was_resent: bool,
    },
}

/// Deletes by one command of servers that have it; what it does not do is done by the script, which
/// is also where it is told what else is there.
async fn shortly(wire: &Wire, command: Cmd, by: Moment) -> Result<Short, StoreError> {
    let mut question = Question::command(command, Again::Harmless, Order::Behind);
    match wire.ask(&mut question, by).await {
        Ok(answer) if answer.value == Value::Int(1) => {
            let reply = Reply::new(Released::Held);
            Ok(Short::Deleted(reply.of(answer.greeting.incarnation)))
        }
        Ok(answer) => Ok(Short::Not { was_resent: answer.resent }),
        // The type is another; no such command, or no right to it.
        Err(error) if error.kind() == StoreErrorKind::Protocol => {
            Ok(Short::Not { was_resent: false })
        }
        Err(error) if error.outcome() == Outcome::NotDone && is_refused(&error) => {
            if let Some(shortcut) = wire.connections.shortcut() {
                shortcut.forget();
            }
            Ok(Short::Not { was_resent: false })
        }
        Err(error) => Err(error),
    }
}

fn is_refused(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Config | StoreErrorKind::Denied)
}

pub(super) fn decode(value: &Value) -> Result<Released, Odd> {
    match bytes(value)? {
        b"h" => Ok(Released::Held),
        b"x" => Ok(Released::Expired),
        b"t" => Ok(Released::Taken),
        _ => Err(UNKNOWN_LETTER),
    }
}
