//! Turns what the argument parser complains about into one sentence, with the nearest valid option.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::failure::Failure;
use crate::settings::{is_slip, nearest};

/// The failure for a command line that can't be read.
///
/// `arguments` are those of this process: they tell which command's options to compare with.
pub(crate) fn failure(error: &Error, command: &clap::Command, arguments: &[String]) -> Failure {
    let subcommand = arguments.iter().skip(1).find_map(|word| command.find_subcommand(word));
    let scope = subcommand.unwrap_or(command);
    let help = match subcommand {
        Some(subcommand) => format!("see `fencelock {} --help`", subcommand.get_name()),
        None => "see `fencelock --help`".to_owned(),
    };
    let sentence = match error.kind() {
        ErrorKind::UnknownArgument
            if arguments.get(1).is_some_and(|word| word.starts_with('-')) =>
        {
            let option = context(error, ContextKind::InvalidArg).unwrap_or_default();
            let option = option.split('=').next().unwrap_or_default();
            format!(
                "`{option}` is not known in front of the command: options stand behind it, as in \
                 `fencelock run --ttl 1m NAME -- COMMAND`"
            )
        }
        ErrorKind::UnknownArgument => unknown_argument(error, scope),
        ErrorKind::InvalidSubcommand => unknown_command(error, command),
        ErrorKind::MissingRequiredArgument => missing_argument(error, scope),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "what shall be done? give a command, for instance `run`".to_owned()
        }
        _ => first_sentence(error),
    };
    Failure::usage(format!("{sentence}; {help}"))
}

fn unknown_argument(error: &Error, scope: &clap::Command) -> String {
    let written = context(error, ContextKind::InvalidArg).unwrap_or_default();
    let option = written.split('=').next().unwrap_or_default();
    if !option.starts_with('-') {
        return match scope.get_name() {
            "run" | "elect" => {
                format!("unexpected argument `{option}`: the command comes after `--`")
            }
            "init" => format!("unexpected argument `{option}`: servers are named with --store"),
            _ => format!("unexpected argument `{option}`"),
        };
    }
    let known: Vec<String> = scope
        .get_arguments()
        .filter_map(|argument| argument.get_long())
        .map(str::to_owned)
        .collect();
    if let Some(near) = short_in_the_other_case(option, scope) {
        return format!("there is no option `{option}` here, the nearest is `-{near}`");
    }
    let bare = option.trim_start_matches('-');
    match nearest(bare, known.iter().map(String::as_str)) {
        Some(near) => format!("there is no option `{option}` here, the nearest is `--{near}`"),
        None => format!("there is no option `{option}` here"),
    }
}

/// The short option that differs from what was written by its case.
fn short_in_the_other_case(option: &str, scope: &clap::Command) -> Option<char> {
    let mut letters = option.strip_prefix('-')?.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return None };
    let shorts = scope.get_arguments().filter_map(clap::Arg::get_short);
    shorts.into_iter().find(|short| short.eq_ignore_ascii_case(&letter))
}

fn unknown_command(error: &Error, command: &clap::Command) -> String {
    let written = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    match nearest(&written, command.get_subcommands().map(clap::Command::get_name)) {
        Some(near) if is_slip(&written, near) => {
            format!("there is no command `{written}`, the nearest is `{near}`")
        }
        _ => format!("there is no command `{written}`"),
    }
}

fn missing_argument(error: &Error, scope: &clap::Command) -> String {
    let missing = context(error, ContextKind::InvalidArg).unwrap_or_default();
    let lacks = |name: &str| missing.contains(&format!("<{name}>"));
    match scope.get_name() {
        "run" if lacks("NAME") => "no lock is named: write `run NAME -- COMMAND`".to_owned(),
        "run" if lacks("COMMAND") => {
            "there is no command to run: it comes after `--`, as in `run NAME -- COMMAND`"
                .to_owned()
        }
        name if lacks("NAME") => format!("no lock is named: write `{name} NAME`"),
        _ => first_sentence(error),
    }
}

fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}

/// The parser's own words, without usage and hints.
fn first_sentence(error: &Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).collect();
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
