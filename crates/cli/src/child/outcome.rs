//! How a supervised command ended, and what is told to the user on the way.

use std::fmt;

use rustix::process::{Signal, WaitIdStatus};

use super::clock::Deadline;

/// The command's own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Why `run` itself stopped the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The lock is lost, or can't be kept.
    Lost,
    /// The command ran for as long as `--max-hold` allows.
    MaxHold,
    /// The lease's end came without a word from the wrapper (it was frozen): the minder killed.
    Deadline,
    /// The wrapper was stopped, and the lease is no longer valid on its return.
    ResumedTooLate,
    /// Somebody asked for the lock back. Not a loss: how the command ends is its own doing.
    Revoked,
    /// The minder died, so nothing protected the command any more.
    MinderDied,
}

/// A request to stop the command: TERM now, KILL at an instant if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Why.
    pub(crate) reason: StopReason,
    /// When what is left of the group is killed; nothing: it may take its time.
    pub(crate) kill_at: Option<Deadline>,
}

/// How it all ended. Nothing of the command's group runs any more, except what
/// [`Notice::Survivors`] counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the exit code is in here"]
pub(crate) struct Outcome {
    /// The command's own end.
    pub(crate) status: Status,
    /// Why it was stopped, if it was not the command's own or the user's doing.
    pub(crate) stopped_by_us: Option<StopReason>,
    /// Whether somebody told it to end by a signal to this process.
    pub(crate) told_to_end: bool,
    /// How many processes it had left behind in its group.
    pub(crate) left_behind: usize,
    /// The signal that was typed at the terminal and ended the command. The caller should end by it
    /// too, when everything else is done ([`super::die_of`]): a shell script around `run` ends only
    /// then.
    pub(crate) typed: Option<Signal>,
}

/// Something that the user should read on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The command ended and so many processes of its group went on: they are being stopped.
    LeftBehind(usize),
    /// So many processes could not be killed: they run on without the lock.
    Survivors(usize),
    /// The minder died; the command is killed.
    MinderDied,
    /// The minder killed the command at the end of the lease.
    KilledAtDeadline,
    /// This process was stopped for longer than the lease lasts; the command is killed.
    ResumedTooLate,
    /// The command's group may not be signalled: it runs as somebody else.
    NotPermitted,
}

impl Status {
    /// The exit code that a shell would give: the command's own, or 128 + n.
    pub(crate) fn exit_code(self) -> u8 {
        let code = match self {
            Status::Code(code) => code & 0xff,
            Status::Signal(signal) => 128_i32.saturating_add(signal),
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    pub(super) fn of(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Status::Code(code),
            (None, Some(signal)) => Status::Signal(signal),
            // waitid was asked for ended processes only, and those are the two ways to end.
            (None, None) => Status::Signal(0),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Code(code) => write!(f, "exit code {code}"),
            Status::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::LeftBehind(count) => write!(
                f,
                "the command has ended, but {} it started still ran: stopping, because the lock \
                 ends with the command (wait for background work inside the command)",
                processes(*count),
            ),
            Notice::Survivors(count) => {
                write!(
                    f,
                    "{} could not be killed and may go on without the lock",
                    processes(*count)
                )
            }
            Notice::MinderDied => f.write_str(
                "the minder process has died, so the command is no longer protected: killing it",
            ),
            Notice::KilledAtDeadline => f.write_str(
                "the lease came to its end without being renewed: the minder killed the command",
            ),
            Notice::ResumedTooLate => f.write_str(
                "the lease is no longer valid after the stop: killing the command instead of \
                 continuing it",
            ),
            Notice::NotPermitted => f.write_str(
                "the command's processes may not be signalled (they run as another user): they \
                 can't be stopped when the lock is lost",
            ),
        }
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_passed_through_and_a_signal_is_128_and_n() {
        assert_eq!(Status::Code(0).exit_code(), 0);
        assert_eq!(Status::Code(255).exit_code(), 255);
        assert_eq!(Status::Signal(9).exit_code(), 137);
        assert_eq!(Status::Signal(64).exit_code(), 192);
    }
}
