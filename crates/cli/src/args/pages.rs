//! The commands that print what a system keeps about a program, as they are typed.

use std::path::PathBuf;

use clap::Args;

/// Print completions for a shell
///
/// For bash: fencelock completions bash > ~/.local/share/bash-completion/completions/fencelock
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual pages
///
/// The whole set goes to standard output, one page after the other, or as one file each into a
/// folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fencelock man | man -l -
  fencelock man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write one file for each page into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}
