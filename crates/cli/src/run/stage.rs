//! What has to be there before a command can run under a lock, in the order in which it has to come:
//! all input checked, the minder forked and the signals taken while there is one thread, then the
//! client.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use super::hold::{Asked, Holding};
use super::lookup;
use super::timing::Timing;
use crate::child::{Minder, Serves, Signals, die_of};
use crate::context::{self, CLOSE_WITHIN, Context};
use crate::failure::Failure;

/// Plays `course` with all that it takes; the answer is the exit code.
///
/// # Errors
/// What was asked for is wrong, or can't be had here; or what `course` says.
pub(crate) fn play(
    context: &Context,
    asked: Asked<'_>,
    serves: Serves,
    course: impl AsyncFnOnce(&Holding<'_>, &mut Minder, &Signals) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    context.check_lease(context.settings.ttl.as_ref())?;
    context.check_lease(context.settings.min_hold.as_ref())?;
    let timing = Timing::of(&context.settings)?;
    let program = asked.command.first().cloned().unwrap_or_default();
    lookup::check(&program)?;
    let client = context.store.open()?;
    // Both need to be alone in the process; the client's threads come with its first use.
    let mut minder = Minder::fork(serves).map_err(|error| no_protection(&error))?;
    let signals = Signals::install().map_err(|error| no_protection(&error))?;
    let mut typed = None;
    let end = context::block_on(async {
        let silent = Cell::new(false);
        let holding = Holding {
            context,
            asked,
            timing,
            client: &client,
            store: client.store_display(),
            typed: Cell::new(None),
            silent: &silent,
        };
        let end = course(&holding, &mut minder, &signals).await;
        typed = holding.typed.get();
        // A store that was silent for as long as a release is tried is not waited for once more.
        let limit = if silent.get() { Duration::ZERO } else { CLOSE_WITHIN };
        context::close_within(client, limit).await;
        end
    });
    drop(minder);
    if let Some(signal) = typed {
        // Whatever had to be said has been said: see `Holding::conclude`.
        die_of(signal);
    }
    end
}

pub(super) fn no_protection(error: &io::Error) -> Failure {
    Failure::internal(format!("the command can't be protected and was not started: {error}"))
}
