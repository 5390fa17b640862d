//! The signals that reach the wrapper: blocked in every thread, read one by one from a signalfd.
//!
//! Reading instead of handling means that each is seen exactly once, together with its sender, and
//! that none is lost between "waiting for the lock" and "the command runs". It relies on
//! [`Signals::install`] being called while there is one thread, so that all later ones inherit the
//! mask. Nothing here decides what a signal does to the command: `supervise.rs` does.
//!
//! HUP, INT and QUIT that were ignored when the process was started stay ignored, for the command
//! too and without being forwarded: that is how `nohup` and the background jobs of a script work.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::process::{
    DumpableBehavior, Signal, getpid, getppid, kill_process, set_dumpable_behavior,
};
use tokio::io::unix::AsyncFd;

use super::proc;
use super::sys;

/// The signals of this process, from [`Signals::install`] on.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: Arc<OwnedFd>,
    watched: OnceLock<AsyncFd<Arc<OwnedFd>>>,
}

impl Signals {
    /// Takes over the signals. Call it right after the minder is forked, before any thread exists.
    ///
    /// # Errors
    /// There is more than one thread already; no more descriptors.
    pub(crate) fn install() -> io::Result<Self> {
        if proc::thread_count()? != 1 {
            return Err(io::Error::other(
                "signals must be taken over before any thread is started",
            ));
        }
        // Inherited as ignored, the kernel would reap our children for us and their exit codes
        // would be lost.
        sys::set_default(Signal::CHILD)?;
        let mut listened = vec![Signal::CHILD];
        for signal in FORWARDED {
            let may_stay_ignored = matches!(signal, Signal::HUP | Signal::INT | Signal::QUIT);
            if !(may_stay_ignored && sys::is_ignored(signal)?) {
                listened.push(signal);
            }
        }
        sys::block(&listened)?;
        // Blocked, it does not stop us when we take the terminal back from the background.
        sys::block(&[Signal::TTOU])?;
        Ok(Self { fd: Arc::new(sys::signalfd(&listened)?), watched: OnceLock::new() })
    }

    /// Waits for a signal that ends the waiting for a lock: `run` then exits with 128 + n.
    ///
    /// These are all whose default action is to end a process. A `^Z` stops this process as it
    /// would any other; WINCH and CONT mean nothing yet.
    ///
    /// # Cancel safety
    /// Safe: a signal is taken only when it is returned.
    pub(crate) async fn interrupted(&self) -> io::Result<Signal> {
        loop {
            if let Some(signal) = ends_waiting(self.next().await?) {
                return Ok(signal);
            }
        }
    }

    /// The same without waiting: to be asked once more between the grant and the start of the
    /// command.
    pub(crate) fn pending(&self) -> io::Result<Option<Signal>> {
        while let Some(signal) = self.read()? {
            if let Some(signal) = ends_waiting(signal) {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }

    /// Waits for the next signal: one of [`FORWARDED`] or CHLD.
    ///
    /// # Cancel safety
    /// Safe: a signal is taken only when it is returned.
    pub(super) async fn next(&self) -> io::Result<Signal> {
        let watched = match self.watched.get() {
            Some(watched) => watched,
            None => {
                let watched = sys::watch_fd(Arc::clone(&self.fd))?;
                self.watched.get_or_init(|| watched)
            }
        };
        loop {
            let mut ready = watched.readable().await?;
            match self.read()? {
                Some(signal) => return Ok(signal),
                None => ready.clear_ready(),
            }
        }
    }

    /// The next signal that somebody else sent.
    fn read(&self) -> io::Result<Option<Signal>> {
        while let Some(caught) = sys::read_signal(self.fd.as_fd())? {
            // Our own: SIGPIPE for a message nobody reads, the stop of our own group.
            if !caught.sent_by_self
                && let Some(signal) = Signal::from_named_raw(caught.raw)
            {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }
}

/// Ends this process by `signal`, as if it had never been taken over: to a shell that is not the same
/// as the exit code 128 + n. Run everything that must still run before.
pub(crate) fn die_of(signal: Signal) -> ! {
    // QUIT would leave a core file with whatever secrets this process has read.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = sys::set_default(signal);
    let _ = kill_process(getpid(), signal);
    let _ = sys::unblock(&[signal]);
    // Reached only if the signal is ignored after all.
    std::process::exit(128_i32.saturating_add(signal.as_raw()))
}

/// Whether a stop of this process would be noticed by a shell that can continue it.
///
/// A session leader (`script -c`, `ssh host command`, the first process of a container) has none;
/// the kernel, too, drops a typed stop there.
pub(super) fn can_be_resumed() -> bool {
    let own = sys::session_of(getpid());
    let parent = getppid().and_then(sys::session_of);
    own.is_some_and(|own| own != getpid()) && own == parent
}

/// Stops this process until it gets a CONT.
pub(super) fn stop_self() -> io::Result<()> {
    // TSTP is blocked here, and ignored by the kernel in an orphaned group: STOP always works.
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Stops the whole job that this process belongs to, as the terminal does it for `^Z`: a shell waits
/// for the job's leader, which may be a script around us.
pub(super) fn stop_own_job() -> io::Result<()> {
    if let Some(group) = sys::group_of(getpid()) {
        rustix::process::kill_process_group(group, Signal::TSTP)?;
    }
    stop_self()
}

fn ends_waiting(signal: Signal) -> Option<Signal> {
    match signal {
        Signal::WINCH | Signal::CONT | Signal::CHILD => None,
        Signal::TSTP => {
            if can_be_resumed() {
                // It can only fail for a process that is not there.
                let _ = stop_self();
            }
            None
        }
        _ => Some(signal),
    }
}

/// What is passed on to the command's group.
pub(super) const FORWARDED: [Signal; 11] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
    Signal::PIPE,
    Signal::ALARM,
];
