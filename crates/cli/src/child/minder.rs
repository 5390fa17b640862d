//! The wrapper's side of the minder: forks it, tells it deadlines, and notices its death.
//!
//! The minder is a second process that outlives a wrapper that is killed or frozen, and kills the
//! command's group then (`process.rs` is its own side). The wrapper holds one line to it
//! (`SOCK_SEQPACKET`); the end of that line, without a `disarm` before, is what the minder acts on:
//! dropping a [`Minder`] while the command runs kills the command. Every descriptor here is
//! close-on-exec.

mod process;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid,
};
use tokio::io::unix::AsyncFd;

use super::clock::Deadline;
use super::proc;
use super::sys::{self, Fork};
use super::wire::{Message, Packet};

/// How many commands a minder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// One: the minder ends with it.
    One,
    /// One after the other: a process with threads can't fork another minder.
    Many,
}

/// The process that kills the command if this one can't.
#[derive(Debug)]
#[must_use = "dropping the minder while the command runs kills the command"]
pub(crate) struct Minder {
    pid: Pid,
    ended: OwnedFd,
    line: Option<Arc<OwnedFd>>,
    watched: OnceLock<AsyncFd<Arc<OwnedFd>>>,
    hello_line: Option<OwnedFd>,
    serves: Serves,
    disarmed: bool,
    /// It was told that a command has ended, and has not said yet that it knows.
    owes_rest: bool,
}

/// Why a minder has ended on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MinderEnd {
    /// The deadline came and it is killing the group.
    Killing,
    /// It is gone without a word: nothing protects the command any more.
    Gone,
}

impl Minder {
    /// Forks the minder. Call it first thing in `main`.
    ///
    /// # Errors
    /// `/proc` is not there; there is more than one thread already (forking would not be safe);
    /// no more processes or descriptors.
    pub(crate) fn fork(serves: Serves) -> io::Result<Self> {
        let threads = proc::thread_count()?;
        if threads != 1 {
            return Err(io::Error::other(format!(
                "the minder must be started before any other thread, but there are {threads}"
            )));
        }
        let (line, its_line) = pair()?;
        let (hello_line, its_hello_line) = pair()?;
        // A signal in the first microseconds must not kill the new process: until it ignores them
        // all, they wait.
        let mask = sys::block_all()?;
        let fork = sys::fork();
        if matches!(fork, Ok(Fork::Child)) {
            process::main(&its_line, its_hello_line, serves);
        }
        sys::restore(&mask)?;
        let Fork::Parent(pid) = fork? else { unreachable!("the minder does not come here") };
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self {
            pid,
            ended,
            line: Some(Arc::new(line)),
            watched: OnceLock::new(),
            hello_line: Some(hello_line),
            serves,
            disarmed: false,
            owes_rest: false,
        })
    }

    /// Tells the instant at which to kill the group; `None` leaves only the wrapper's death.
    ///
    /// # Errors
    /// The minder is gone, or does not read any more: the command is not protected.
    pub(crate) fn kill_at(&self, deadline: Option<Deadline>) -> io::Result<()> {
        self.say(Message::KillAt(deadline))
    }

    /// Returns when the minder has ended on its own, or is about to because the deadline came.
    ///
    /// # Cancel safety
    /// Safe: an end that was not reported is reported by the next call.
    pub(crate) async fn ended(&self) -> io::Result<MinderEnd> {
        let Some(line) = &self.line else { return Ok(MinderEnd::Gone) };
        let watched = match self.watched.get() {
            Some(watched) => watched,
            None => {
                let watched = sys::watch_fd(Arc::clone(line))?;
                self.watched.get_or_init(|| watched)
            }
        };
        loop {
            let mut ready = watched.readable().await?;
            match self.poll_end() {
                Some(end) => return Ok(end),
                None => ready.clear_ready(),
            }
        }
    }

    /// The same without waiting.
    pub(super) fn poll_end(&self) -> Option<MinderEnd> {
        let line = self.line.as_ref()?;
        let mut packet: Packet = [0; 16];
        match rustix::net::recv(line, &mut packet, RecvFlags::DONTWAIT) {
            Ok((length, _)) => match Message::decode(packet.get(..length).unwrap_or_default()) {
                Some(Message::Killing) => Some(MinderEnd::Killing),
                _ => Some(MinderEnd::Gone),
            },
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) => Some(MinderEnd::Gone),
        }
    }

    /// Lets the minder go: the command has been seen to end and is *not yet reaped*, so that its
    /// group's number can't have been reused when the minder last acted on it.
    pub(super) fn disarm(&mut self) {
        // A minder that is gone needs no telling.
        let _ = self.say(Message::Disarm);
        self.disarmed = true;
        self.owes_rest = self.serves == Serves::Many;
    }

    /// Waits until the minder has nothing more to do with the command before: whatever it says from
    /// then on is about the next one.
    ///
    /// # Errors
    /// It is gone, or frozen.
    pub(super) fn ready(&mut self) -> io::Result<()> {
        while self.owes_rest {
            let line = self.line.as_ref().ok_or(Errno::PIPE)?;
            match poll(&mut [PollFd::new(line, PollFlags::IN)], Some(&REST_WITHIN)) {
                Ok(0) => return Err(Errno::TIMEDOUT.into()),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut packet: Packet = [0; 16];
            let (length, _) = rustix::net::recv(line, &mut packet, RecvFlags::DONTWAIT)?;
            match Message::decode(packet.get(..length).unwrap_or_default()) {
                Some(Message::Rested) => self.owes_rest = false,
                // Its deadline came while the command ended by itself.
                Some(Message::Killing) => {}
                _ => return Err(Errno::PIPE.into()),
            }
        }
        self.disarmed = false;
        Ok(())
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The wrapper's line, to be closed in the child.
    pub(super) fn line(&self) -> io::Result<BorrowedFd<'_>> {
        self.line.as_ref().map(|line| line.as_fd()).ok_or_else(|| Errno::PIPE.into())
    }

    /// The line for the child.
    pub(super) fn hello_line(&self) -> io::Result<BorrowedFd<'_>> {
        self.hello_line.as_ref().map(|line| line.as_fd()).ok_or_else(|| {
            io::Error::other("this minder has had its command: start another one for the next")
        })
    }

    /// The child has used its line, or there is none.
    pub(super) fn greeted(&mut self) {
        if self.serves == Serves::One {
            self.hello_line = None;
        }
    }

    fn say(&self, message: Message) -> io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::send(self.line()?, &message.encode(), flags)?;
        Ok(())
    }

    /// Waits a bounded time for the minder's end and reaps it.
    fn bury(&mut self) {
        let mut wait = [PollFd::new(&self.ended, PollFlags::IN)];
        // INTR can't last: this thread has the signals that it handles blocked.
        let ended = poll(&mut wait, Some(&FAREWELL)).is_ok_and(|ready| ready > 0);
        if !ended && self.disarmed {
            // Frozen by somebody, and there is nothing left for it to do. Unreaped, so that its
            // number can't have been reused.
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let options = WaitIdOptions::EXITED
            | if self.disarmed { WaitIdOptions::empty() } else { WaitIdOptions::NOHANG };
        // Reaped already by the loop that reaps orphans, at worst.
        let _ = waitid(WaitId::Pid(self.pid), options);
    }
}

impl Drop for Minder {
    /// Ends the line: with the command still there the minder kills it now; else it just exits.
    /// Waits for that at most 100 ms and reaps it, so that no zombie is left to whoever adopts it.
    fn drop(&mut self) {
        self.hello_line = None;
        drop(self.watched.take());
        self.line = None;
        self.bury();
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, its) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    debug_assert!(ours.as_raw_fd() != its.as_raw_fd());
    // A program that was started with standard streams closed would get these numbers for the
    // lines, and the command would inherit them as its own.
    Ok((above_standard(ours)?, above_standard(its)?))
}

fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 { Ok(fd) } else { Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?) }
}

/// How long the answer of a minder is waited for: as long as a command waits for its own.
const REST_WITHIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// How long the end of the minder is waited for; it takes well under a millisecond.
const FAREWELL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
