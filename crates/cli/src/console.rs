//! Standard error: one line for each message, never a password, never a control character of
//! somebody else's.
//!
//! It relies on nothing else writing to standard error, so that a line that is updated in place can
//! be taken away before the next message. Writing there can fail (closed, full disk) or block (a
//! pager that nobody scrolls, a stopped terminal); a lock must not depend on that, so such failures
//! are ignored, and what can't be written soon is dropped: the thread that would wait is the one
//! that stops the command when the lock is lost.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::redact::redact;

/// How much the user wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Level {
    /// Errors only.
    Quiet,
    /// Errors, and notices of what the user can't see otherwise.
    #[default]
    Normal,
    /// Also what happens to the lease.
    Verbose,
}

/// Standard error.
#[derive(Debug)]
pub(crate) struct Console {
    level: Level,
    terminal: bool,
    /// Whether a line that is updated in place stands on the terminal.
    transient: Mutex<bool>,
}

impl Console {
    /// Standard error, told so much.
    pub(crate) fn new(level: Level) -> Self {
        Self { level, terminal: io::stderr().is_terminal(), transient: Mutex::new(false) }
    }

    /// Whether a person may be looking.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether notices are wanted.
    pub(crate) fn wants_notices(&self) -> bool {
        self.level != Level::Quiet
    }

    /// Whether details are wanted.
    pub(crate) fn wants_details(&self) -> bool {
        self.level == Level::Verbose
    }

    /// Something went wrong: always said.
    pub(crate) fn error(&self, message: &str) {
        self.line(message);
    }

    /// Something the user should know.
    pub(crate) fn notice(&self, message: &str) {
        if self.wants_notices() {
            self.line(message);
        }
    }

    /// What happens to the lease, for those who asked.
    pub(crate) fn detail(&self, message: impl FnOnce() -> String) {
        if self.wants_details() {
            self.line(&message());
        }
    }

    /// One line of machine-readable output beside the command's own streams.
    pub(crate) fn raw_line(&self, line: &str) {
        self.write(&format!("{line}\n"), false);
    }

    /// A line that the next one replaces; only for a terminal.
    pub(crate) fn transient(&self, message: &str) {
        if !self.terminal || !self.wants_notices() {
            return;
        }
        let text: String = clean(message).chars().take(self.columns()).collect();
        self.write(&text, true);
    }

    /// Takes away the line that is updated in place.
    pub(crate) fn clear_transient(&self) {
        self.write("", false);
    }

    fn line(&self, message: &str) {
        self.write(&format!("fencelock: {}\n", clean(&redact(message))), false);
    }

    fn write(&self, text: &str, transient: bool) {
        let Ok(mut standing) = self.transient.lock() else { return };
        let erase = if *standing { "\r\x1b[K" } else { "" };
        *standing = transient;
        if erase.is_empty() && text.is_empty() {
            return;
        }
        if !has_room() {
            return;
        }
        // One write, so that lines of several processes do not mix.
        let _ = io::stderr().write_all(format!("{erase}{text}").as_bytes());
    }

    fn columns(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr());
        let columns = size.map_or(0, |size| usize::from(size.ws_col));
        // The last column is left free: a full line would wrap and could not be taken away.
        if columns > 1 { columns - 1 } else { COLUMNS_DEFAULT }
    }
}

/// Whether standard error takes a line now, or very soon.
fn has_room() -> bool {
    let stderr = rustix::stdio::stderr();
    // An error or a hang-up is an answer too: the write says the rest.
    poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&ROOM_WITHIN)) != Ok(0)
}

/// Half of the smallest time that is kept between KILL and the end of a lease.
const ROOM_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The text with every control character made visible, on one line.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => cleaned.push(' '),
            control if is_unsafe(control) => {}
            other => cleaned.push(other),
        }
    }
    cleaned
}

/// Control characters, and those that change the direction of what follows: both can make a terminal
/// show something that was never said.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

const COLUMNS_DEFAULT: usize = 79;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_can_neither_break_its_line_nor_move_the_cursor() {
        assert_eq!(clean("a\nb\r\x1b[31mc\u{9b}d\u{202e}e"), "a b [31mcde");
        assert_eq!(clean("naïve 🔒"), "naïve 🔒");
    }
}
