//! The commands, a file for each. Each reads all of its input before it sends anything.

mod acquire;
mod fellows;
mod init;
mod ls;
mod other;
mod pages;
mod release;
mod renew;
mod revoke;
mod show;
mod token;

use crate::args::Command;
use crate::failure::Failure;

/// Does what was asked; the answer is the exit code.
///
/// # Errors
/// It was not done, with the reason and the exit code.
pub(crate) fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(run) => crate::run::execute(&run),
        Command::Elect(elect) => crate::elect::execute(&elect),
        Command::Acquire(acquire) => acquire::execute(&acquire),
        Command::Renew(renew) => renew::execute(&renew),
        Command::Release(release) => release::execute(&release),
        Command::Show(show) => show::execute(&show),
        Command::Ls(ls) => ls::execute(&ls),
        Command::Revoke(revoke) => revoke::execute(&revoke),
        Command::Init(init) => init::execute(&init),
        Command::Completions(completions) => pages::completions(&completions),
        Command::Man(man) => pages::manual(&man),
    }
}
