//! Why a command of this program did not do what it was asked: one sentence and an exit code.

use std::error::Error as _;
use std::fmt;

use crate::exit::{self, Exit};

/// The end of a command that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u8,
    message: Option<String>,
}

impl Failure {
    /// A failure with its sentence: lower case, no full stop, which lock, which store, the way out.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { code: exit.code(), message: Some(message.into()) }
    }

    /// Wrong input on the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A fault of this program or the system under it.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, message)
    }

    /// A failure that has been explained already.
    pub(crate) fn silent(code: u8) -> Self {
        Self { code, message: None }
    }

    /// What the library says, with its causes.
    pub(crate) fn of_library(error: &fencelock::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        for _ in 0..CAUSES_MAX {
            let Some(source) = cause else { break };
            let text = source.to_string();
            // A cause that the sentence quotes already says nothing new.
            if !message.to_lowercase().contains(&words_of(&text)) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = source.source();
        }
        // Some servers end their messages with a full stop.
        message.truncate(message.trim_end_matches('.').len());
        Self::new(exit::of_kind(error.kind()), message)
    }

    /// The same with the code that the user asked for in place of "busy".
    pub(crate) fn with_conflict_code(mut self, code: Option<u8>) -> Self {
        if let Some(code) = code.filter(|_| self.code == Exit::Busy.code()) {
            self.code = code;
        }
        self
    }

    /// The same with another sentence.
    pub(crate) fn with_message(self, message: String) -> Self {
        Self { message: Some(message), ..self }
    }

    /// The same with another code.
    pub(crate) fn with_code(self, exit: Exit) -> Self {
        Self { code: exit.code(), ..self }
    }

    /// What to exit with.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The sentence, unless it has been said.
    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

/// What a cause says without its number, in front (`Error code 26: ...`) or behind
/// (`... (os error 13)`).
fn words_of(cause: &str) -> String {
    let words = match cause.split_once(": ") {
        Some((number, words)) if number.starts_with("Error code ") => words,
        _ => cause,
    };
    let words = words.split_once(" (os error ").map_or(words, |(words, _)| words);
    words.to_lowercase()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or_default())
    }
}

/// The longest chain of causes that is printed: a loop of causes must not hang an error message.
const CAUSES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conflict_code_replaces_only_busy() {
        let busy = Failure::new(Exit::Busy, "x").with_conflict_code(Some(0));
        assert_eq!(busy.code(), 0);
        let lost = Failure::new(Exit::Lost, "x").with_conflict_code(Some(0));
        assert_eq!(lost.code(), 79);
        assert_eq!(Failure::new(Exit::Busy, "x").with_conflict_code(None).code(), 75);
    }
}
