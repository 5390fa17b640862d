//! Job control: the command is stopped, we stop with it, and come back together or not at all.
//!
//! ```text
//!   ^Z, or TSTP to the wrapper          fg, or CONT to the wrapper
//!        |                                   |
//!        v                                   v
//!   command stops --> STOP to the group, --> lease still valid? --yes--> lend terminal, CONT
//!                     terminal back,                    |
//!                     stop this process                 +--no--> KILL
//! ```
//!
//! While this process is stopped nothing renews the lease; the minder's deadline goes on counting.

use std::io;

use rustix::process::Signal;

use super::super::outcome::{Notice, StopReason};
use super::super::signals::{can_be_resumed, stop_own_job, stop_self};
use super::Supervisor;

impl Supervisor<'_> {
    /// The command was stopped: by the terminal, by a TSTP that we passed on, or by a stranger.
    pub(super) fn command_stopped(&mut self, raw: i32) -> io::Result<()> {
        self.suspended = true;
        let wants_terminal = raw == Signal::TTIN.as_raw() || raw == Signal::TTOU.as_raw();
        let Some(terminal) = &mut self.child.terminal else {
            return if self.stop_with_child { self.stop_along(stop_self) } else { Ok(()) };
        };
        if wants_terminal && terminal.is_ours() {
            // It was not lent at the start, and nobody else in front wants it now.
            let lent = terminal.lend(self.child.pid);
            self.resume();
            return lent;
        }
        if self.stop_with_child {
            return self.stop_along(stop_self);
        }
        if !terminal.is_lent() && !wants_terminal {
            // A stranger stopped it; the lease is kept, and a CONT will continue it.
            return Ok(());
        }
        if can_be_resumed() {
            return self.stop_along(stop_own_job);
        }
        // Nobody could ever type `fg`: without us in between the kernel had dropped the stop.
        self.resume();
        Ok(())
    }

    /// Stops the whole group for certain, gives the terminal back, and stops this process.
    fn stop_along(&mut self, stop: fn() -> io::Result<()>) -> io::Result<()> {
        self.stop_with_child = false;
        // A member that handles TSTP must not work on while the lease is not renewed.
        self.signal(Signal::STOP);
        if let Some(terminal) = &self.child.terminal {
            terminal.take_back();
        }
        // Returns when somebody continues us; the CONT then waits among the signals.
        stop()
    }

    /// This process was continued: is it still allowed to go on?
    pub(super) fn come_back(&mut self) {
        self.stop_with_child = false;
        if !(self.controls.still_valid)() {
            self.note(StopReason::ResumedTooLate, Notice::ResumedTooLate);
            self.kill();
            return;
        }
        let pid = self.child.pid;
        if let Some(terminal) = &mut self.child.terminal
            && terminal.is_lent()
            && terminal.is_ours()
        {
            // Fails only for a terminal that is gone; the command will find out itself.
            let _ = terminal.lend(pid);
        }
        self.resume();
    }

    pub(super) fn resume(&mut self) {
        self.suspended = false;
        self.signal(Signal::CONT);
    }
}
