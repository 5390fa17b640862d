//! `fencelock`: run any command under a distributed lock.
//!
//! ```text
//!   args --> settings, names --> store --> commands, run --> exit code
//!   (clap)   (flag, env, file)   (client)        |
//!                                              child (Linux: process group, minder, signals)
//! ```
//!
//! Everything that can be wrong with the input is found before anything is sent to a store. One
//! thread does it all; the library brings its own for renewals, later than the fork of the minder.
#![deny(unsafe_code)]

mod args;
#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports)] // The driver of its own tests uses the rest.
mod child;
mod commands;
mod console;
mod context;
mod elect;
mod exit;
mod failure;
mod help;
mod hold;
mod interrupt;
mod names;
mod notes;
mod redact;
mod run;
mod settings;
mod span;
mod store;
mod sys;
mod usage;
mod view;
mod waiting;

use std::env;
use std::panic;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;
use crate::console::{Console, Level};
use crate::exit::Exit;
use crate::failure::Failure;

fn main() -> ExitCode {
    let end = match args::parse() {
        // A panic is a fault of ours: it must not exit with a code that means something else.
        Ok(cli) => panic::catch_unwind(|| commands::execute(cli.command))
            .unwrap_or_else(|_| Err(Failure::silent(Exit::Internal.code()))),
        Err(error) if !error.use_stderr() => view::print(&error.to_string()).map(|()| 0),
        Err(error) => {
            let arguments: Vec<String> =
                env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            Err(usage::failure(&error, &Cli::command(), &arguments))
        }
    };
    match end {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if let Some(message) = failure.message() {
                Console::new(Level::Quiet).error(message);
            }
            ExitCode::from(failure.code())
        }
    }
}
