//! Starts the command: in its own group, watched by the minder before its first instruction.
//!
//! ```text
//!   wrapper        child (after fork)                            minder
//!     | deadline -------------------------------------------------> |
//!     | fork ------> setpgid, die-with-parent, is the parent there? |
//!     |                | hello(pid) --------------------------------> |
//!     |                | <------------------------------- watched     |
//!     |              take the terminal, reset signals                |
//!     | <-- ok ----- exec                                            |
//! ```
//!
//! It relies on being called from the main thread: the kernel sends the parent-death signal when the
//! *thread* that forked ends. It must not change standard input, output and error; descriptors that
//! the wrapper itself was given (a job server's, say) go on to the command, its own never do.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, set_child_subreaper};

use super::clock::Deadline;
use super::minder::Minder;
use super::sys::{self, ChildSetup};
use super::terminal::Terminal;

/// The running command; `supervise` takes it from here. It is killed if this process ends.
#[derive(Debug)]
#[must_use = "the command runs and must be supervised"]
pub(crate) struct Child {
    pub(super) pid: Pid,
    pub(super) terminal: Option<Terminal>,
}

impl Child {
    /// The process, which is also its group.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }
}

/// Why the command did not start.
#[derive(Debug)]
pub(crate) struct SpawnError {
    program: OsString,
    kind: SpawnErrorKind,
    source: io::Error,
}

/// The kinds of [`SpawnError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpawnErrorKind {
    /// There is no such command: 127.
    NotFound,
    /// There is a file, but it can't be executed: 126.
    NotExecutable,
    /// It could not be put under the minder's watch, or the system has no room: 70.
    Internal,
}

/// Starts `command`, to be killed at `kill_at` unless the minder is told otherwise.
///
/// The environment is what `command` says; its standard streams are the wrapper's own. Blocks until
/// the command is executed, which takes about a millisecond.
///
/// # Errors
/// [`SpawnError`] says whether there is no such command (127), it can't be executed (126), or it
/// could not be protected (70). Nothing runs then.
pub(crate) fn spawn(
    mut command: Command,
    minder: &mut Minder,
    kill_at: Option<Deadline>,
) -> Result<Child, SpawnError> {
    let program = command.get_program().to_os_string();
    let fail = |kind, source| SpawnError { program: program.clone(), kind, source };
    let internal = |source| fail(SpawnErrorKind::Internal, source);
    if rustix::thread::gettid() != getpid() {
        let reason = "the command must be started from the main thread";
        return Err(internal(io::Error::other(reason)));
    }
    // Whatever the command leaves behind becomes our child and is reaped here.
    set_child_subreaper(Some(getpid())).map_err(|error| internal(error.into()))?;
    minder.ready().map_err(internal)?;
    minder.kill_at(kill_at).map_err(internal)?;
    let mut terminal = Terminal::open();
    let setup = ChildSetup {
        parent: getpid(),
        wrapper_line: minder.line().map_err(internal)?.as_raw_fd(),
        hello_line: minder.hello_line().map_err(internal)?.as_raw_fd(),
        terminal: terminal.as_mut().and_then(Terminal::lend_at_start),
    };
    sys::prepare_child(&mut command, setup);
    let started = command.spawn();
    minder.greeted();
    match started {
        Ok(started) => {
            let raw = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
            let pid = raw.ok_or_else(|| internal(Errno::RANGE.into()))?;
            Ok(Child { pid, terminal })
        }
        Err(error) => {
            if let Some(terminal) = &terminal {
                terminal.take_back();
            }
            minder.disarm();
            Err(fail(kind_of(&error), error))
        }
    }
}

impl SpawnError {
    /// What went wrong.
    pub(crate) fn kind(&self) -> SpawnErrorKind {
        self.kind
    }

    /// The exit code for it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            SpawnErrorKind::NotFound => 127,
            SpawnErrorKind::NotExecutable => 126,
            SpawnErrorKind::Internal => 70,
        }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.to_string_lossy();
        let program = program.escape_debug();
        let has_path = self.program.to_string_lossy().contains('/');
        match self.kind {
            SpawnErrorKind::NotFound if has_path && Path::new(&self.program).exists() => {
                write!(
                    f,
                    "cannot run {program}: the interpreter or loader that it names is missing"
                )
            }
            SpawnErrorKind::NotFound => write!(f, "cannot run {program}: command not found"),
            SpawnErrorKind::NotExecutable => {
                write!(f, "cannot run {program}: it is there but can't be executed")
            }
            SpawnErrorKind::Internal => {
                write!(f, "cannot run {program} safely: it was not started")
            }
        }
    }
}

impl Error for SpawnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Sorts what came back from fork, the child's preparation, or exec, which share one channel.
fn kind_of(error: &io::Error) -> SpawnErrorKind {
    let Some(raw) = error.raw_os_error() else {
        // The one error of std's own: a NUL byte in an argument.
        return SpawnErrorKind::NotExecutable;
    };
    let no_room = [Errno::NOMEM, Errno::AGAIN, Errno::MFILE, Errno::NFILE];
    if raw == Errno::NOENT.raw_os_error() {
        SpawnErrorKind::NotFound
    } else if sys::HANDSHAKE_ERRORS.contains(&raw)
        || no_room.iter().any(|errno| errno.raw_os_error() == raw)
    {
        SpawnErrorKind::Internal
    } else {
        SpawnErrorKind::NotExecutable
    }
}
