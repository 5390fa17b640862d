//! The minder itself: a process with nothing but two lines and a timer.
//!
//! ```text
//!                  hello                    disarm
//!      idle  ---------------->  watching  ----------> exit, or idle again ("rested")
//!        |                        |   |
//!        | wrapper gone           |   | deadline: say "killing", SIGKILL the group
//!        v                        |   v
//!       exit                      | burying --> exit, when only zombies are left of the group
//!                                 |   ^          (or idle again)
//!                                 +---+ wrapper gone without disarm: SIGKILL the group
//! ```
//!
//! It is idle again where it [serves](Serves) several commands, one after the other.
//!
//! It relies on being forked from a process with one thread. It must keep no descriptor of the
//! wrapper's open (a reader behind the wrapper's standard output would never see its end), must not
//! be reachable by the terminal's signals, and must not return into the wrapper's code.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::super::clock::{Clock, Deadline, Timer};
use super::super::proc;
use super::super::sys;
use super::super::wire::{Message, Packet};
use super::Serves;

/// Runs the minder on its ends of the two lines; never returns.
pub(super) fn main(wrapper: &OwnedFd, hello_line: OwnedFd, serves: Serves) -> ! {
    isolate(wrapper, &hello_line);
    // A panic must not unwind into what the wrapper had on its stack.
    let outcome = catch_unwind(AssertUnwindSafe(|| watch(wrapper, hello_line, serves)));
    sys::exit_now(i32::from(!matches!(outcome, Ok(Ok(())))))
}

/// Cuts every tie to the wrapper's surroundings. What can't be cut is no reason not to watch.
fn isolate(wrapper: &OwnedFd, hello_line: &OwnedFd) {
    sys::ignore_everything();
    // A group of its own keeps signals to the wrapper's group away. Not a session: with the kernel's
    // autogroups (`sched_autogroup`) a session is scheduled as one thing beside all others, and on a
    // busy machine a process alone in one was measured to wake up seconds late.
    let _ = rustix::process::setpgid(None, None);
    // Not called after the program: `pkill -9 fencelock` must not take wrapper and minder at once,
    // since then nobody is left to end the command.
    let _ = rustix::thread::set_name(c"lock-minder");
    // A mount must not stay busy because of the minder.
    let _ = rustix::process::chdir("/");
    if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    sys::close_all_but(&[wrapper.as_raw_fd(), hello_line.as_raw_fd()]);
}

/// The command's group, pinned as well as the kernel can.
struct Group {
    id: Pid,
    leader: Option<OwnedFd>,
}

struct Watch<'a> {
    wrapper: &'a OwnedFd,
    timer: Timer,
    deadline: Option<Deadline>,
    group: Option<Group>,
}

/// What the wrapper's line says.
enum Line {
    Quiet,
    Disarmed,
    Ended,
}

fn watch(wrapper: &OwnedFd, hello_line: OwnedFd, serves: Serves) -> io::Result<()> {
    let timer = Timer::new(Clock::Boottime)?;
    let mut watch = Watch { wrapper, timer, deadline: None, group: None };
    let mut hello_line = Some(hello_line);
    loop {
        let hello = watch.wait(hello_line.as_ref())?;
        // Before the greeting: the deadline that goes with it was sent first.
        match watch.read_wrapper() {
            Line::Quiet => {}
            Line::Disarmed if serves == Serves::One => return Ok(()),
            Line::Disarmed => {
                watch.rest();
                // Nobody greets before this is heard: what the line of greetings has is old.
                send(wrapper, Message::Rested);
                continue;
            }
            Line::Ended => break,
        }
        let newcomer = if hello { hello_line.take() } else { None };
        // A group that is watched stays watched, whatever happens on the line of greetings: its end
        // is there too when the wrapper dies, and may be seen before that of the wrapper's own line.
        let met = newcomer.as_ref().and_then(meet);
        watch.group = watch.group.or(met);
        if watch.group.is_some() && watch.deadline.is_some_and(Deadline::is_past) {
            // Said first: a wrapper that sees the command end by this finds out why.
            send(wrapper, Message::Killing);
            if serves == Serves::One {
                break;
            }
            watch.group.take().iter().for_each(kill_until_empty);
            watch.rest();
        }
        if let (Some(line), Some(group)) = (&newcomer, &watch.group) {
            send(line, Message::Watched(group.id.as_raw_nonzero().get()));
        }
        if serves == Serves::Many && !hello_ended(newcomer.as_ref()) {
            hello_line = newcomer.or(hello_line);
        }
    }
    if let Some(group) = &watch.group {
        kill_until_empty(group);
    }
    Ok(())
}

impl Watch<'_> {
    /// Sleeps until something happens; says whether the child has something to say.
    fn wait(&self, hello_line: Option<&OwnedFd>) -> io::Result<bool> {
        let mut sources = vec![
            PollFd::new(self.wrapper, PollFlags::IN),
            PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
        ];
        sources.extend(hello_line.map(|line| PollFd::new(line, PollFlags::IN)));
        loop {
            match poll(&mut sources, None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The instant itself is looked up again: only the wake-up is taken out of the timer, which
        // would otherwise stay readable while there is nobody to kill yet.
        let _ = rustix::io::read(&self.timer, &mut [0_u8; 8]);
        Ok(sources.get(2).is_some_and(|source| !source.revents().is_empty()))
    }

    /// Reads all that the wrapper has said.
    fn read_wrapper(&mut self) -> Line {
        loop {
            let mut packet: Packet = [0; 16];
            match rustix::net::recv(self.wrapper, &mut packet, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    match Message::decode(packet.get(..length).unwrap_or_default()) {
                        Some(Message::KillAt(deadline)) => self.set_deadline(deadline),
                        Some(Message::Disarm) => return Line::Disarmed,
                        // The end of the line, or a wrapper gone mad: there is no lease to trust.
                        _ => return Line::Ended,
                    }
                }
                Err(Errno::AGAIN) => return Line::Quiet,
                Err(Errno::INTR) => {}
                Err(_) => return Line::Ended,
            }
        }
    }

    /// Watches nobody.
    fn rest(&mut self) {
        self.group = None;
        self.set_deadline(None);
    }

    fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
        if self.timer.set(deadline).is_err() {
            // Without a timer the deadline can't be kept: it counts as come.
            self.deadline = deadline.map(|deadline| Deadline::new(deadline.clock(), 0));
        }
    }
}

/// Hears who the child is. `None` if it is gone or not what it says.
fn meet(line: &OwnedFd) -> Option<Group> {
    let mut packet: Packet = [0; 16];
    let (length, _) = rustix::net::recv(line, &mut packet, RecvFlags::DONTWAIT).ok()?;
    let Message::Hello(raw) = Message::decode(packet.get(..length)?)? else { return None };
    let id = Pid::from_raw(raw)?;
    let is_leader = sys::group_of(id) == Some(id);
    let leader = rustix::process::pidfd_open(id, PidfdFlags::empty()).ok();
    is_leader.then_some(Group { id, leader })
}

/// Whether nobody will ever greet on this line: it would be readable for ever.
fn hello_ended(line: Option<&OwnedFd>) -> bool {
    line.is_some_and(|line| {
        let peeked = rustix::net::recv(line, &mut [0_u8; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        !matches!(peeked, Ok((1.., _)) | Err(Errno::AGAIN))
    })
}

/// Whoever does not hear it any more is gone, and that shows on the lines.
fn send(line: &OwnedFd, message: Message) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = rustix::net::send(line, &message.encode(), flags);
}

/// Kills the group and stays until none of it is left but zombies.
fn kill_until_empty(group: &Group) {
    let mut pause = FIRST_PAUSE;
    loop {
        let leader = group.leader.as_ref().map(AsFd::as_fd);
        match sys::signal_group(leader, group.id, Signal::KILL) {
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return,
            _ => {}
        }
        if proc::living_members(group.id).is_ok_and(|living| living == 0) {
            return;
        }
        thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// A killed process is usually gone within a millisecond.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// One that hangs in the kernel may take long: looking more often would not help it.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
