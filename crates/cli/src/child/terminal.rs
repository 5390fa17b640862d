//! Lending the terminal to the command's group, and taking it back.
//!
//! The command is in a group of its own, so the terminal has to be given to that group before the
//! command may read from it, and `^C` and `^Z` then reach the command and not us. It is lent at the
//! start if standard input and output are both the terminal; in a pipeline (`run .. | less`) another
//! process of our group may be the one that reads it, so there it is lent only when the command is
//! stopped for having wanted it. Relies on TTOU being blocked (`signals.rs`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

use super::sys;

/// The controlling terminal of this session.
#[derive(Debug)]
pub(super) struct Terminal {
    fd: OwnedFd,
    lent: bool,
    lend_at_start: bool,
}

impl Terminal {
    /// The terminal, if a standard stream is one and the session has it.
    pub(super) fn open() -> Option<Self> {
        let input = isatty(rustix::stdio::stdin());
        let output = isatty(rustix::stdio::stdout());
        if !input && !output && !isatty(rustix::stdio::stderr()) {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        let lend_at_start = input && output && is_in_front(fd.as_fd());
        Some(Self { fd, lent: false, lend_at_start })
    }

    /// The descriptor, if the command is to start in the foreground: it takes the terminal itself,
    /// before it is executed.
    pub(super) fn lend_at_start(&mut self) -> Option<RawFd> {
        self.lent = self.lend_at_start;
        self.lend_at_start.then(|| self.fd.as_raw_fd())
    }

    /// Whether our own group is in the foreground.
    pub(super) fn is_ours(&self) -> bool {
        is_in_front(self.fd.as_fd())
    }

    /// Whether the command's group has, or had, the terminal.
    pub(super) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Puts `group` in the foreground.
    pub(super) fn lend(&mut self, group: Pid) -> io::Result<()> {
        self.lent = true;
        Ok(tcsetpgrp(self.fd.as_fd(), group)?)
    }

    /// Puts our group back if `group` is in the foreground, or a group that it left there.
    pub(super) fn take_back(&self) {
        if self.lent
            && !self.is_ours()
            && let Some(group) = sys::group_of(getpid())
        {
            // A terminal that was hung up needs no taking back.
            let _ = tcsetpgrp(self.fd.as_fd(), group);
        }
    }
}

/// Whether our own group is in front. If neither is visible from this pid namespace (`unshare --pid`
/// without a session of its own), they are taken for the same: the command gets the terminal, and
/// the shell outside, which waits for our group, takes it back itself.
fn is_in_front(terminal: BorrowedFd<'_>) -> bool {
    let front = match tcgetpgrp(terminal) {
        Ok(group) => Some(group),
        // rustix's answer for 0.
        Err(Errno::OPNOTSUPP) => None,
        Err(_) => return false,
    };
    front == sys::group_of(getpid())
}
