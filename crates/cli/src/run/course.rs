//! The course of `run`, from the command line to the exit code.

use super::hold::Asked;
use super::stage;
use crate::args::Run;
use crate::child::Serves;
use crate::context::Context;
use crate::failure::Failure;
use crate::hold;
use crate::names;

/// Runs the command under the lock; the answer is the exit code.
///
/// # Errors
/// The command did not run, or was stopped, or may have run without the lock.
pub(crate) fn execute(arguments: &Run) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    let spelling = arguments.name.spelling();
    let names = names::parse_all(&arguments.names, spelling)?;
    let manner = hold::manner_of(&context.settings, &names)?;
    let asked = Asked { names: &names, spelling, manner, command: &arguments.command };
    stage::play(&context, asked, Serves::One, async |holding, minder, signals| {
        let ended = holding.hold(holding.client.mutexes(&names), minder, signals).await?;
        holding.conclude(&ended)
    })
}
