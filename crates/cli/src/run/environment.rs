//! What the command finds in its environment besides what it inherits.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencelock::Names;

use crate::names::{Spelling, to_hex};
use crate::settings::REMOVED_FOR_THE_CHILD;

/// The lease as its command is told of it.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) names: &'a Names,
    pub(super) spelling: Spelling,
    pub(super) fencing_token: Option<u64>,
    pub(super) validity_left: Duration,
    /// Without a password.
    pub(super) store: String,
    /// Only with `--export-token`.
    pub(super) token: Option<String>,
}

/// Sets the variables. Those of an outer `run` never shine through.
pub(super) fn set(command: &mut Command, told: &Told<'_>) {
    for variable in REMOVED_FOR_THE_CHILD {
        command.env_remove(variable);
    }
    command.env("FENCELOCK_NAME", names(told));
    command.env("FENCELOCK_STORE", &told.store);
    if let Some(fencing_token) = told.fencing_token {
        command.env("FENCELOCK_FENCING_TOKEN", fencing_token.to_string());
    }
    let until = SystemTime::now().checked_add(told.validity_left);
    if let Some(since_1970) = until.and_then(|until| until.duration_since(UNIX_EPOCH).ok()) {
        command.env("FENCELOCK_DEADLINE_MS", since_1970.as_millis().to_string());
    }
    if let Some(token) = &told.token {
        command.env("FENCELOCK_TOKEN", token);
    }
}

/// One a line: a name has no control character, and bytes that are no text are given in digits.
fn names(told: &Told<'_>) -> String {
    let names = told.names.iter().map(|name| match (told.spelling, name.as_str()) {
        (Spelling::Text, Some(text)) => text.to_owned(),
        _ => to_hex(name.as_bytes()),
    });
    names.collect::<Vec<_>>().join("\n")
}
