//! The exit codes: one enum, one table. Scripts depend on them; the help text and the man page are
//! made from [`TABLE`], and a test compares it with what is observed.

use fencelock::ErrorKind;

/// A code that `fencelock` itself exits with. A command's own code is passed through unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// `show`: nobody holds the lock.
    Free = 1,
    /// A flag, value or name is wrong, or the store can't do what was asked.
    Usage = 64,
    /// The store can't be reached, is full, or what it did is unknown.
    Unavailable = 69,
    /// A fault of fencelock or of the system under it.
    Internal = 70,
    /// Somebody else holds the lock.
    Busy = 75,
    /// The store does not let us in.
    Denied = 77,
    /// An environment variable or a configuration file is wrong.
    Config = 78,
    /// The lock was lost.
    Lost = 79,
    /// The command is there but can't be executed.
    NotExecutable = 126,
    /// There is no such command.
    NotFound = 127,
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

/// The code for a failure of the library.
///
/// Every kind that this program knows has its own line; one that a later library adds is internal
/// until somebody decides otherwise here.
pub(crate) fn of_kind(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::WaitExpired
        | ErrorKind::AlreadyHeld
        | ErrorKind::ForeignValue
        | ErrorKind::QueueFull => Exit::Busy,
        ErrorKind::Lost => Exit::Lost,
        ErrorKind::Unavailable
        | ErrorKind::NoQuorum
        | ErrorKind::Full
        | ErrorKind::NotAcknowledged
        | ErrorKind::TooLate
        | ErrorKind::Unknown => Exit::Unavailable,
        ErrorKind::Denied => Exit::Denied,
        ErrorKind::Unsupported | ErrorKind::Config | ErrorKind::CrossSlot => Exit::Usage,
        _ => Exit::Internal,
    }
}

/// What each code means, in the order of the help text.
pub(crate) const TABLE: &[(&str, &str)] = &[
    (
        "0..255",
        "the command's own code, when run or elect started it and did not stop\n\
            it",
    ),
    ("128+n", "signal n ended the command, or the wait of run, elect or acquire"),
    ("1", "show: nobody holds the lock"),
    (
        "64",
        "a flag, value or name is wrong, the store can't do that, or the names\n\
            are in different slots of a cluster",
    ),
    (
        "69",
        "the store can't be reached, has no room or answers too late; too few\n\
            servers of a quorum answer; or what the store did is unknown",
    ),
    ("70", "internal fault, or the output could not be written"),
    (
        "75",
        "the lock is busy: held by somebody else for longer than --wait, too\n\
            many wait already, or a foreign value is at its key (-E changes this\n\
            code); init: the server was in use before",
    ),
    ("77", "the store denies access (password, user, rights)"),
    ("78", "an environment variable or a configuration file is wrong"),
    (
        "79",
        "the lock was lost or held for --max-hold, and the command was stopped\n\
            or may not have been alone; or the token holds nothing",
    ),
    ("126", "the command is there but can't be executed"),
    ("127", "there is no such command"),
];

/// The table as text.
pub(crate) fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in TABLE {
        let mut code = *code;
        for line in meaning.lines() {
            text.push_str(&format!("  {code:<7} {line}\n"));
            code = "";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_enum_is_in_the_table() {
        for exit in [
            Exit::Free,
            Exit::Usage,
            Exit::Unavailable,
            Exit::Internal,
            Exit::Busy,
            Exit::Denied,
            Exit::Config,
            Exit::Lost,
            Exit::NotExecutable,
            Exit::NotFound,
        ] {
            let code = exit.code().to_string();
            assert!(TABLE.iter().any(|(listed, _)| *listed == code), "{exit:?}");
        }
    }
}
