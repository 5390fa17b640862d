//! Watches the running command until nothing of its group is left.
//!
//! One loop waits for everything at once: the command's end, signals, a stop request, new lease
//! deadlines, the minder's death, the instant to kill. It relies on the command being *unreaped*
//! until the very end: the zombie pins the group's number, so that no signal here can hit a
//! stranger. It must not do I/O to any store and must not block.
//!
//! ```text
//!   running --- command ends ---> group empty? --yes--> disarm the minder, reap, done
//!      |                               | no
//!      | stop / 2nd TERM               v
//!      +------------------------> draining: TERM, at the deadline KILL, until the group is empty
//! ```

mod job;

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use tokio::sync::watch;

use super::clock::{AsyncTimer, Clock, Deadline};
use super::minder::{Minder, MinderEnd};
use super::outcome::{Notice, Outcome, Status, Stop, StopReason};
use super::proc;
use super::signals::Signals;
use super::spawn::Child;
use super::sys;
use super::terminal::Terminal;

/// What the caller says and is asked while the command runs.
///
/// A sender that is dropped changes nothing any more: the last value stays.
pub(crate) struct Controls<'a> {
    /// When the group must be dead, moved on by each renewal; passed on to the minder.
    pub(crate) kill_at: watch::Receiver<Option<Deadline>>,
    /// Set when the command has to stop; once more when that becomes more urgent.
    pub(crate) stop: watch::Receiver<Option<Stop>>,
    /// Asked when this process comes back from a stop: is the lease still valid?
    pub(crate) still_valid: &'a dyn Fn() -> bool,
    /// Told what the user should know.
    pub(crate) notice: &'a dyn Fn(Notice),
    /// How long processes that the command left behind get between TERM and KILL.
    pub(crate) left_behind_grace: Duration,
}

/// Waits for the end of `child`, and of all that is left of its group.
///
/// Signals are passed on as `signals.rs` lists them; the second TERM (or an INT after a TERM) kills.
/// Whatever the command leaves in its group when it ends is stopped: see `Supervisor::drain`.
///
/// # Errors
/// The system refused something that can't fail (epoll, waitid). The group has been killed.
///
/// # Cancel safety
/// Not cancel safe: a dropped call leaves the command to the minder, which kills it when `minder` is
/// dropped.
pub(crate) async fn supervise(
    child: Child,
    minder: &mut Minder,
    signals: &Signals,
    controls: Controls<'_>,
) -> io::Result<Outcome> {
    let mut supervisor = Supervisor {
        child,
        signals,
        controls,
        timer: AsyncTimer::new(),
        kill_at: None,
        stopped_by_us: None,
        ended: None,
        left_behind: 0,
        asked_to_end: 0,
        killed: false,
        suspended: false,
        stop_with_child: false,
        saw_signal: false,
        told_to_end: false,
        hung_up: false,
        told_not_permitted: false,
    };
    let outcome = supervisor.run(minder).await;
    if outcome.is_err() {
        supervisor.signal(Signal::KILL);
    }
    if let Some(terminal) = &supervisor.child.terminal {
        terminal.take_back();
    }
    outcome
}

struct Supervisor<'a> {
    child: Child,
    signals: &'a Signals,
    controls: Controls<'a>,
    timer: AsyncTimer,
    /// When to send KILL, once a stop has begun.
    kill_at: Option<Deadline>,
    stopped_by_us: Option<StopReason>,
    /// The command's own end, seen but not reaped.
    ended: Option<Status>,
    left_behind: usize,
    /// How often the user asked for the end, by TERM or while it was coming already.
    asked_to_end: u32,
    killed: bool,
    /// The group has been stopped, by us or by the terminal.
    suspended: bool,
    /// A TSTP was passed on: when the command stops, so do we.
    stop_with_child: bool,
    /// Whether any signal was passed on to the command.
    saw_signal: bool,
    /// A TERM, INT or QUIT was passed on; a HUP was, by which some commands end and others read their
    /// settings.
    told_to_end: bool,
    hung_up: bool,
    told_not_permitted: bool,
}

/// What the loop woke up for.
enum Event {
    Signal(Signal),
    Minder(MinderEnd),
    Stop,
    Deadline,
    Timer,
}

impl Supervisor<'_> {
    async fn run(&mut self, minder: &mut Minder) -> io::Result<Outcome> {
        let (mut minder_lives, mut may_stop, mut may_renew) = (true, true, true);
        // A request from before the first turn of the loop must not be missed.
        self.controls.stop.mark_changed();
        self.controls.kill_at.mark_changed();
        loop {
            let event = tokio::select! {
                biased;
                signal = self.signals.next() => Event::Signal(signal?),
                end = minder.ended(), if minder_lives => Event::Minder(end?),
                changed = self.controls.stop.changed(), if may_stop => {
                    may_stop = changed.is_ok();
                    Event::Stop
                }
                changed = self.controls.kill_at.changed(), if may_renew => {
                    may_renew = changed.is_ok();
                    Event::Deadline
                }
                fired = self.timer.fired() => { fired?; Event::Timer }
            };
            match event {
                Event::Signal(Signal::CHILD) => self.look_at_children()?,
                Event::Signal(signal) => self.pass_on(signal)?,
                Event::Minder(end) => {
                    minder_lives = false;
                    self.minder_ended(end);
                }
                Event::Stop => self.stop_if_asked(),
                Event::Deadline => {}
                Event::Timer => {}
            }
            if matches!(event, Event::Stop | Event::Deadline) && minder_lives {
                self.tell_deadline(minder);
            }
            if self.has_nothing_left(minder.pid())? {
                break;
            }
        }
        self.conclude(minder)
    }

    /// The command's end or stop, and the ends of orphans that became ours.
    fn look_at_children(&mut self) -> io::Result<()> {
        let pid = self.child.pid;
        if self.ended.is_none() {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
            while let Some(change) = wait_for(pid, options)? {
                match change.stopping_signal() {
                    Some(signal) => self.command_stopped(signal)?,
                    None => self.suspended = false,
                }
            }
            // Left unreaped: see the header.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            if let Some(end) = wait_for(pid, options)? {
                self.ended = Some(Status::of(&end));
            }
        }
        reap_orphans(Some(pid))
    }

    /// Passes one signal on to the group.
    fn pass_on(&mut self, signal: Signal) -> io::Result<()> {
        self.saw_signal = true;
        self.told_to_end |= matches!(signal, Signal::TERM | Signal::INT | Signal::QUIT);
        self.hung_up |= signal == Signal::HUP;
        match signal {
            Signal::CONT => self.come_back(),
            Signal::TERM | Signal::INT => {
                let ending = self.kill_at.is_some() || self.asked_to_end > 0;
                self.asked_to_end += u32::from(ending || signal == Signal::TERM);
                if self.asked_to_end > 1 { self.kill() } else { self.signal(signal) }
            }
            Signal::TSTP => {
                self.stop_with_child = true;
                self.signal(Signal::TSTP);
            }
            other => self.signal(other),
        }
        Ok(())
    }

    fn minder_ended(&mut self, end: MinderEnd) {
        match end {
            MinderEnd::Killing => self.note(StopReason::Deadline, Notice::KilledAtDeadline),
            MinderEnd::Gone => self.note(StopReason::MinderDied, Notice::MinderDied),
        }
        self.kill();
    }

    fn stop_if_asked(&mut self) {
        let Some(stop) = *self.controls.stop.borrow_and_update() else { return };
        // What was asked for is no fault: the exit code stays the command's own.
        if stop.reason != StopReason::Revoked {
            self.stopped_by_us.get_or_insert(stop.reason);
        }
        self.begin_stop(stop.kill_at);
    }

    /// TERM now, KILL at `kill_at` or at an earlier instant that was set before.
    fn begin_stop(&mut self, kill_at: Option<Deadline>) {
        if self.killed {
            return;
        }
        self.kill_at = match (self.kill_at, kill_at) {
            (Some(set), Some(kill_at)) => Some(set.earliest(kill_at)),
            (set, kill_at) => set.or(kill_at),
        };
        self.signal(Signal::TERM);
        if self.suspended {
            // A stopped process acts on TERM only when it runs; until `kill_at` it still may.
            self.resume();
        }
    }

    fn kill(&mut self) {
        self.killed = true;
        self.signal(Signal::KILL);
    }

    /// The minder kills at the end of the lease, or when a stop says so if that is earlier.
    fn tell_deadline(&mut self, minder: &Minder) {
        let lease = *self.controls.kill_at.borrow_and_update();
        // What the command left behind is ours alone to kill: a minder that did would report the end of
        // the lease.
        let stop = self.kill_at.filter(|_| self.stopped_by_us.is_some());
        let earliest = match (lease, stop) {
            (Some(lease), Some(stop)) => Some(lease.earliest(stop)),
            (lease, stop) => lease.or(stop),
        };
        if minder.kill_at(earliest).is_err() {
            // What it said last tells why it is gone, and can be read only once.
            self.minder_ended(minder.poll_end().unwrap_or(MinderEnd::Gone));
        }
    }

    /// Whether the command has ended and no living member of its group is left.
    fn has_nothing_left(&mut self, minder: Pid) -> io::Result<bool> {
        if self.ended.is_some() && !proc::has_other_children(&[self.child.pid, minder]) {
            return Ok(true);
        }
        let mut wake = self.kill_at;
        if self.ended.is_some() {
            let living = proc::living_members(self.child.pid)?;
            if living == 0 || self.gives_up(living) {
                return Ok(true);
            }
            if self.killed {
                // Nothing can have slipped through the first one, as far as is known; it costs
                // nothing to be sure.
                self.signal(Signal::KILL);
            }
            self.drain(living);
            wake = Some(Deadline::after(Clock::Monotonic, DRAIN_TICK));
        }
        if !self.killed && self.kill_at.is_some_and(Deadline::is_past) {
            self.kill();
        }
        self.timer.set(if self.killed && self.ended.is_none() { None } else { wake })?;
        Ok(false)
    }

    /// The command has ended by itself and `living` processes of its group go on.
    ///
    /// The group is the holder of the lock: what is left of it must not work on when the lock is
    /// given back, so it gets TERM, KILL after the grace, and the user is told. `flock` would let it
    /// run, and keep the lock through the inherited descriptor; a lease has no such descriptor. After
    /// a stop this is under way already.
    fn drain(&mut self, living: usize) {
        if self.left_behind == 0 {
            self.left_behind = living;
            if self.kill_at.is_none() && !self.killed {
                (self.controls.notice)(Notice::LeftBehind(living));
                let grace = self.controls.left_behind_grace;
                self.begin_stop(Some(Deadline::after(Clock::Monotonic, grace)));
            }
        }
    }

    /// Whether KILL was sent long ago and still something lives.
    fn gives_up(&mut self, living: usize) -> bool {
        let Some(kill_at) = self.kill_at.filter(|_| self.killed) else {
            if self.killed {
                // From here on the wait for a killed group counts.
                self.kill_at = Some(Deadline::after(Clock::Monotonic, Duration::ZERO));
            }
            return false;
        };
        let limit_ns = u64::try_from(SURVIVOR_LIMIT.as_nanos()).unwrap_or(u64::MAX);
        let limit = Deadline::new(kill_at.clock(), kill_at.at_ns().saturating_add(limit_ns));
        if limit.is_past() {
            (self.controls.notice)(Notice::Survivors(living));
        }
        limit.is_past()
    }

    /// Lets the minder go, and only then reaps the command.
    fn conclude(&mut self, minder: &mut Minder) -> io::Result<Outcome> {
        let status = self.ended.unwrap_or(Status::Signal(0));
        if self.stopped_by_us.is_none() && minder.poll_end() == Some(MinderEnd::Killing) {
            self.note(StopReason::Deadline, Notice::KilledAtDeadline);
        }
        minder.disarm();
        wait_for(self.child.pid, WaitIdOptions::EXITED)?;
        reap_orphans(None)?;
        let typed = self.typed_signal(status);
        if let Some(typed) = typed {
            // For this process it stays blocked; for the others in the job it is as if typed.
            let _ = rustix::process::kill_current_process_group(typed);
        }
        let ended_by_hang_up = self.hung_up && status == Status::Signal(Signal::HUP.as_raw());
        let told_to_end = self.told_to_end || ended_by_hang_up || typed.is_some();
        let (stopped_by_us, left_behind) = (self.stopped_by_us, self.left_behind);
        Ok(Outcome { status, stopped_by_us, told_to_end, left_behind, typed })
    }

    /// The `^C` or `^\` that ended the command, which reached its group only because it had the
    /// terminal. A script around `run` would go on with its next line as if nothing had been typed.
    fn typed_signal(&self, status: Status) -> Option<Signal> {
        let had_terminal = self.child.terminal.as_ref().is_some_and(Terminal::is_lent);
        if !had_terminal || self.saw_signal || self.stopped_by_us.is_some() {
            return None;
        }
        let ended_by = |typed: &Signal| status == Status::Signal(typed.as_raw());
        [Signal::INT, Signal::QUIT].into_iter().find(ended_by)
    }

    /// The first reason counts; the user hears of it once.
    fn note(&mut self, reason: StopReason, notice: Notice) {
        if self.stopped_by_us.is_none() {
            self.stopped_by_us = Some(reason);
            (self.controls.notice)(notice);
        }
    }

    fn signal(&mut self, signal: Signal) {
        // An empty group (SRCH) needs no signal. The number is pinned by the unreaped command.
        if kill_process_group(self.child.pid, signal) == Err(Errno::PERM)
            && !self.told_not_permitted
        {
            self.told_not_permitted = true;
            (self.controls.notice)(Notice::NotPermitted);
        }
    }
}

fn wait_for(pid: Pid, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(Errno::INTR) => {}
            // It is running and there is nothing of the kind to report.
            Err(Errno::CHILD) if !options.contains(WaitIdOptions::EXITED) => return Ok(None),
            answer => return Ok(answer?),
        }
    }
}

/// Reaps every ended child but the command: it stays a zombie until the end, and hides those behind
/// it until then. The minder may be among them; it is known by its pidfd, not by being reaped.
fn reap_orphans(command: Option<Pid>) -> io::Result<()> {
    while let Some(orphan) = sys::peek_ended()?.filter(|orphan| Some(*orphan) != command) {
        wait_for(orphan, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
    }
    Ok(())
}

/// How often the group of an ended command is looked at when no child's end wakes us before.
const DRAIN_TICK: Duration = Duration::from_millis(10);
/// A killed process that is still there after this hangs in the kernel or belongs to another user.
const SURVIVOR_LIMIT: Duration = Duration::from_secs(5);
