//! The system calls that have no safe wrapper: fork, signal masks and dispositions, signalfd, and
//! the steps of the child between fork and exec.
//!
//! This is the only file of `child` with `unsafe` in it. Each function is a thin shell around one
//! call and takes no decision of its own. Code that runs between fork and exec (`prepare`) must
//! neither allocate nor take a lock: the wrapper may have other threads.
#![allow(unsafe_code)]

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::Arc;

use rustix::process::{Pid, Signal};
use tokio::io::unix::AsyncFd;

use super::wire::{Message, Packet};

/// Which side of a [`fork`] this is.
#[derive(Debug)]
pub(super) enum Fork {
    /// The original process; the new one has this pid.
    Parent(Pid),
    /// The new process.
    Child,
}

/// One signal as the kernel reported it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caught {
    /// Its number.
    pub(super) raw: i32,
    /// Whether this very process was the sender (also for a SIGPIPE by its own write).
    pub(super) sent_by_self: bool,
}

/// A signal mask to go back to.
pub(super) struct Mask(libc::sigset_t);

/// What the child needs to know between fork and exec.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildSetup {
    /// The wrapper, which must still be the parent.
    pub(super) parent: Pid,
    /// The wrapper's own line to the minder, which the child must not keep open.
    pub(super) wrapper_line: RawFd,
    /// The line on which the child reports itself to the minder.
    pub(super) hello_line: RawFd,
    /// The terminal to take, if the child is to start in the foreground.
    pub(super) terminal: Option<RawFd>,
}

/// Duplicates the process.
///
/// # Errors
/// As fork(2).
///
/// # Panics
/// Never; the caller must have made sure that there is one thread only, or the new process may
/// not allocate.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: fork has no memory precondition. With one thread (asserted by the caller) no lock
    // can be left taken in the new process, so that it may run ordinary code.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        raw => Ok(Pid::from_raw(raw).map_or(Fork::Child, Fork::Parent)),
    }
}

/// The session that `process` belongs to; `None` also if that one is in another pid namespace, as
/// around the first process of a container: the kernel answers 0 there.
pub(super) fn session_of(process: Pid) -> Option<Pid> {
    // SAFETY: getsid takes a number and has no memory precondition.
    seen(unsafe { libc::getsid(process.as_raw_pid()) })
}

/// The process group of `process`; `None` as for [`session_of`].
pub(super) fn group_of(process: Pid) -> Option<Pid> {
    // SAFETY: getpgid takes a number and has no memory precondition.
    seen(unsafe { libc::getpgid(process.as_raw_pid()) })
}

/// What the kernel says of a process that may be gone (-1) or not be visible from here (0).
fn seen(raw: libc::pid_t) -> Option<Pid> {
    if raw > 0 { Pid::from_raw(raw) } else { None }
}

/// Ends the process at once: no destructors, no exit handlers.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no precondition and does not return.
    unsafe { libc::_exit(code) }
}

/// Blocks every signal for this thread until the returned mask is restored.
pub(super) fn block_all() -> io::Result<Mask> {
    let mut all = empty_set();
    // SAFETY: `all` is a valid, initialised set.
    check(unsafe { libc::sigfillset(&raw mut all) })?;
    change_mask(libc::SIG_SETMASK, &all)
}

/// Blocks `signals` for this thread and those that it starts later.
pub(super) fn block(signals: &[Signal]) -> io::Result<()> {
    change_mask(libc::SIG_BLOCK, &set_of(signals)).map(drop)
}

/// Lets `signals` through to this thread.
pub(super) fn unblock(signals: &[Signal]) -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK, &set_of(signals)).map(drop)
}

/// Goes back to `mask`.
pub(super) fn restore(mask: &Mask) -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &mask.0).map(drop)
}

/// Whether `signal` is ignored by this process.
pub(super) fn is_ignored(signal: Signal) -> io::Result<bool> {
    disposition(signal.as_raw()).map(|handler| handler == libc::SIG_IGN)
}

/// Gives `signal` its default action.
pub(super) fn set_default(signal: Signal) -> io::Result<()> {
    set_disposition(signal.as_raw(), libc::SIG_DFL)
}

/// Ignores every signal that can be ignored.
pub(super) fn ignore_everything() {
    for raw in 1..=libc::SIGRTMAX() {
        // KILL, STOP and the two that the C library keeps for itself answer EINVAL: those stay.
        let _ = set_disposition(raw, libc::SIG_IGN);
    }
}

/// A descriptor that reports `signals`, which must be blocked.
pub(super) fn signalfd(signals: &[Signal]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: `set` is a valid set; -1 asks for a new descriptor.
    let raw = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(raw)?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The next signal from a [`signalfd`], if there is one.
pub(super) fn read_signal(fd: BorrowedFd<'_>) -> io::Result<Option<Caught>> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the buffer is valid for `size` bytes.
    let got = unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
    if got == -1 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: plain integers, zeroed first, so that any bytes are a valid value.
    let info = unsafe { info.assume_init() };
    // SAFETY: getpid has no precondition.
    let own = unsafe { libc::getpid() };
    let from_process = info.ssi_code == libc::SI_USER || info.ssi_code == libc::SI_TKILL;
    Ok(Some(Caught {
        raw: i32::try_from(info.ssi_signo).unwrap_or(0),
        sent_by_self: from_process && i32::try_from(info.ssi_pid) == Ok(own),
    }))
}

/// A child of ours that has ended and is not reaped yet; it stays so.
pub(super) fn peek_ended() -> io::Result<Option<Pid>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is a valid place for one siginfo_t.
    match check(unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) }) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
        // SAFETY: zeroed first, filled in by a successful waitid; si_pid is 0 for "none".
        Ok(()) => Ok(Pid::from_raw(unsafe { info.assume_init().si_pid() })),
    }
}

/// Closes every descriptor from 3 up, but those in `keep`.
pub(super) fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut first = 3_u32;
    for kept in keep.into_iter().chain([u32::MAX]) {
        if first < kept {
            close_span(first, kept - 1);
        }
        first = kept.saturating_add(1);
    }
}

/// Sends `signal` to the group of the process behind `leader`, also when that one is gone.
///
/// With a pidfd and Linux 6.9 or newer a reused number can't be hit; else the number decides.
pub(super) fn signal_group(
    pidfd: Option<BorrowedFd<'_>>,
    group: Pid,
    signal: Signal,
) -> io::Result<()> {
    if let Some(pidfd) = pidfd {
        let none = ptr::null::<libc::siginfo_t>();
        // SAFETY: a null siginfo is allowed; the other arguments are integers.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                pidfd.as_raw_fd(),
                signal.as_raw(),
                none,
                PIDFD_SIGNAL_PROCESS_GROUP,
            )
        };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // Older kernels know no flags here.
        if error.raw_os_error() != Some(libc::EINVAL) && error.raw_os_error() != Some(libc::ENOSYS)
        {
            return Err(error);
        }
    }
    Ok(rustix::process::kill_process_group(group, signal)?)
}

/// Registers `fd` with the current runtime.
///
/// # Panics
/// Outside of a runtime with I/O enabled.
pub(super) fn watch_fd(fd: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the descriptor is owned through the Arc, which the AsyncFd keeps: it stays open and the
    // same for as long as it is registered.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// Makes `command` run [`prepare`] between fork and exec.
pub(super) fn prepare_child(command: &mut Command, setup: ChildSetup) {
    // SAFETY: `prepare` makes system calls only and works on values it owns: it neither allocates
    // nor takes a lock nor unwinds.
    unsafe { command.pre_exec(move || prepare(setup)) };
}

/// The steps of the child before exec; the errors stand for [`HANDSHAKE_ERRORS`].
fn prepare(setup: ChildSetup) -> io::Result<()> {
    // SAFETY: each call takes integers only, or pointers to values on this stack.
    unsafe {
        check(libc::setpgid(0, 0))?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        // The wrapper may have died before the line above: then nobody would ever send that signal.
        if libc::getppid() != setup.parent.as_raw_pid() {
            return Err(io::Error::from_raw_os_error(libc::EOWNERDEAD));
        }
        libc::close(setup.wrapper_line);
        say_hello(setup.hello_line)?;
        if let Some(terminal) = setup.terminal {
            let quiet = set_of_raw(libc::SIGTTOU);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const quiet, ptr::null_mut());
            // Without the terminal the child still runs; it is stopped if it reads from it.
            libc::tcsetpgrp(terminal, libc::getpid());
        }
        for raw in 1..=libc::SIGRTMAX() {
            let keep = matches!(raw, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT)
                && matches!(disposition(raw), Ok(handler) if handler == libc::SIG_IGN);
            if !keep {
                let _ = set_disposition(raw, libc::SIG_DFL);
            }
        }
        let none = empty_set();
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()))
    }
}

/// Reports to the minder and waits until it watches this group.
///
/// # Safety
/// None beyond its calls; it is only here because it runs between fork and exec.
fn say_hello(line: RawFd) -> io::Result<()> {
    // SAFETY: getpid has no precondition.
    let own = unsafe { libc::getpid() };
    let hello: Packet = Message::Hello(own).encode();
    let mut answer: Packet = [0; 16];
    let mut wait = libc::pollfd { fd: line, events: libc::POLLIN, revents: 0 };
    // SAFETY: the buffers and the pollfd live on this stack and have the lengths given.
    unsafe {
        let sent = libc::send(line, hello.as_ptr().cast(), hello.len(), libc::MSG_NOSIGNAL);
        if sent == -1 {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        loop {
            match libc::poll(&raw mut wait, 1, HANDSHAKE_LIMIT_MS) {
                0 => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
                -1 if *libc::__errno_location() == libc::EINTR => continue,
                -1 => return Err(io::Error::from_raw_os_error(libc::EPROTO)),
                _ => {}
            }
            let got =
                libc::recv(line, answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT);
            let whole = usize::try_from(got) == Ok(answer.len());
            match Message::decode(&answer) {
                Some(Message::Watched(pid)) if whole && pid == own => return Ok(()),
                // Meant for one before us, which was killed before it read this.
                Some(Message::Watched(_)) if whole => {}
                _ => return Err(io::Error::from_raw_os_error(libc::EPROTO)),
            }
        }
    }
}

/// What [`prepare`] fails with and exec never does: no answer from the minder in time, a wrong or
/// broken answer, the wrapper gone.
pub(super) const HANDSHAKE_ERRORS: [i32; 3] = [libc::ETIMEDOUT, libc::EPROTO, libc::EOWNERDEAD];

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initialises the whole set and can't fail on a valid pointer.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn set_of_raw(raw: i32) -> libc::sigset_t {
    let mut set = empty_set();
    // SAFETY: `set` is initialised; a number that is no signal answers EINVAL and changes nothing.
    unsafe { libc::sigaddset(&raw mut set, raw) };
    set
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = empty_set();
    for signal in signals {
        // SAFETY: `set` is initialised and the number is a signal's.
        unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) };
    }
    set
}

fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<Mask> {
    let mut old = empty_set();
    // SAFETY: both sets are valid; the function returns its error instead of setting errno.
    match unsafe { libc::pthread_sigmask(how, set, &raw mut old) } {
        0 => Ok(Mask(old)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn disposition(raw: i32) -> io::Result<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; `action` is a valid place for the answer.
    check(unsafe { libc::sigaction(raw, ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: zeroed first and filled in by a successful sigaction.
    Ok(unsafe { action.assume_init() }.sa_sigaction)
}

fn set_disposition(raw: i32, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero is a valid sigaction; the handler is SIG_DFL or SIG_IGN, no function.
    check(unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigaction(raw, &raw const action, ptr::null_mut())
    })
}

fn close_span(first: u32, last: u32) {
    // SAFETY: integers only. The caller gives up every descriptor of the span.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // Linux before 5.9: one by one.
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| (first..=last).contains(fd))
        .collect();
    for fd in open {
        if let Ok(fd) = RawFd::try_from(fd) {
            // SAFETY: as above; the descriptor of the listing itself is closed by now: EBADF.
            unsafe { libc::close(fd) };
        }
    }
}

const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 1 << 2;
/// The minder answers in microseconds; after this it is taken for frozen.
const HANDSHAKE_LIMIT_MS: i32 = 2_000;
