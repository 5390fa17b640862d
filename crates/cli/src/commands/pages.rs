//! `completions` and `man`: made from the same description as the help texts.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;

use crate::args::{Cli, Completions, Man};
use crate::failure::Failure;
use crate::view;

pub(super) fn completions(arguments: &Completions) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "fencelock", &mut text);
    view::print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

pub(super) fn manual(arguments: &Man) -> Result<u8, Failure> {
    let pages = pages().map_err(|error| Failure::internal(format!("no manual: {error}")))?;
    match &arguments.dir {
        None => view::print(&pages.iter().map(|(_, text)| text.as_str()).collect::<String>())?,
        Some(folder) => {
            for (file, text) in &pages {
                write(folder, file, text)?;
            }
        }
    }
    Ok(0)
}

fn write(folder: &Path, file: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(file);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
    written
        .map_err(|error| Failure::internal(format!("{} can't be written: {error}", path.display())))
}

/// File names and texts: one page for the program and one for each command.
fn pages() -> io::Result<Vec<(String, String)>> {
    let mut program = Cli::command();
    program.build();
    let mut pages = vec![page("fencelock", program.clone())?];
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("fencelock-{}", command.get_name());
        pages.push(page(&name, command.clone())?);
    }
    Ok(pages)
}

fn page(name: &str, command: clap::Command) -> io::Result<(String, String)> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command)
        .title(name.to_uppercase())
        .manual("Fencelock")
        .render(&mut text)?;
    Ok((format!("{name}.1"), String::from_utf8_lossy(&text).into_owned()))
}
