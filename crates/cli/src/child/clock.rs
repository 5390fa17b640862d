//! Absolute instants on the clock a store names, and a timer that fires at one.
//!
//! Everything about a lease is an absolute instant on a clock that the *caller* chose
//! (`CLOCK_BOOTTIME` for a remote store, `CLOCK_MONOTONIC` for the embedded file): a relative delay
//! would be stretched by a suspend or by the time the process itself was frozen. This is the only
//! file of the tree that reads a clock. It relies on `timerfd`, which keeps counting through a
//! suspend on `CLOCK_BOOTTIME`; it must not use `std::time::Instant`, which does not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use super::sys;

/// The clock on which a [`Deadline`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `CLOCK_BOOTTIME`: goes on during a suspend of the machine.
    Boottime,
    /// `CLOCK_MONOTONIC`: stands still during a suspend.
    Monotonic,
}

/// An instant on one [`Clock`], in nanoseconds since that clock's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    clock: Clock,
    at_ns: u64,
}

/// A kernel timer that is readable from a given [`Deadline`] on.
#[derive(Debug)]
pub(super) struct Timer {
    clock: Clock,
    fd: OwnedFd,
}

/// The same for the wrapper's event loop.
#[derive(Debug)]
pub(super) struct AsyncTimer {
    armed: Option<(Clock, AsyncFd<Arc<OwnedFd>>)>,
}

impl Clock {
    /// Nanoseconds since the clock's start.
    pub(crate) fn now_ns(self) -> u64 {
        let id = match self {
            Clock::Boottime => ClockId::Boottime,
            Clock::Monotonic => ClockId::Monotonic,
        };
        let now = clock_gettime(id);
        // Neither clock is ever negative.
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        seconds.saturating_mul(NANOS_A_SECOND).saturating_add(nanos)
    }
}

impl Deadline {
    /// The instant `at_ns` on `clock`.
    pub(crate) fn new(clock: Clock, at_ns: u64) -> Self {
        Self { clock, at_ns }
    }

    /// The instant `delay` from now on `clock`.
    pub(crate) fn after(clock: Clock, delay: Duration) -> Self {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self::new(clock, clock.now_ns().saturating_add(delay_ns))
    }

    /// The clock it counts on.
    pub(crate) fn clock(self) -> Clock {
        self.clock
    }

    /// Nanoseconds since the clock's start.
    pub(crate) fn at_ns(self) -> u64 {
        self.at_ns
    }

    /// Whether the instant has come.
    pub(crate) fn is_past(self) -> bool {
        self.at_ns <= self.clock.now_ns()
    }

    /// The one that comes first, as seen now: the two may count on different clocks.
    pub(crate) fn earliest(self, other: Deadline) -> Deadline {
        if self.left_ns() <= other.left_ns() { self } else { other }
    }

    fn left_ns(self) -> u64 {
        self.at_ns.saturating_sub(self.clock.now_ns())
    }
}

impl Timer {
    /// A timer on `clock` that never fires until it is set.
    pub(super) fn new(clock: Clock) -> io::Result<Self> {
        let id = match clock {
            Clock::Boottime => TimerfdClockId::Boottime,
            Clock::Monotonic => TimerfdClockId::Monotonic,
        };
        let fd = timerfd_create(id, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Self { clock, fd })
    }

    /// Fires at `deadline`, or never; an earlier setting is forgotten.
    pub(super) fn set(&mut self, deadline: Option<Deadline>) -> io::Result<()> {
        if let Some(deadline) = deadline
            && deadline.clock != self.clock
        {
            *self = Self::new(deadline.clock)?;
        }
        set_timer(self.fd.as_fd(), deadline)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsyncTimer {
    /// A timer that never fires until it is set. Must live inside a runtime from then on.
    pub(super) fn new() -> Self {
        Self { armed: None }
    }

    /// Fires at `deadline`, or never; an earlier setting is forgotten.
    pub(super) fn set(&mut self, deadline: Option<Deadline>) -> io::Result<()> {
        let Some(deadline) = deadline else {
            self.armed = None;
            return Ok(());
        };
        if !matches!(&self.armed, Some((clock, _)) if *clock == deadline.clock) {
            let timer = Timer::new(deadline.clock)?;
            self.armed = Some((deadline.clock, sys::watch_fd(Arc::new(timer.fd))?));
        }
        match &self.armed {
            // Setting a timerfd also clears an expiry that was not read yet.
            Some((_, fd)) => set_timer(fd.as_fd(), Some(deadline)),
            None => Ok(()),
        }
    }

    /// Returns when the set deadline has come, never if there is none.
    ///
    /// # Cancel safety
    /// Safe: an expiry that was not reported stays readable.
    pub(super) async fn fired(&self) -> io::Result<()> {
        let Some((_, fd)) = &self.armed else { return std::future::pending().await };
        loop {
            let mut ready = fd.readable().await?;
            let mut expiries = [0_u8; 8];
            match rustix::io::read(fd.get_ref(), &mut expiries) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn set_timer(fd: BorrowedFd<'_>, deadline: Option<Deadline>) -> io::Result<()> {
    // An all-zero value would disarm: an instant that is long past is given as 1 ns.
    let value = deadline.map_or(0, |deadline| deadline.at_ns.max(1));
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let value = Timespec {
        tv_sec: i64::try_from(value / NANOS_A_SECOND).unwrap_or(i64::MAX),
        // Always below 10^9.
        tv_nsec: i64::try_from(value % NANOS_A_SECOND).unwrap_or(0),
    };
    let setting = Itimerspec { it_interval: zero, it_value: value };
    timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &setting)?;
    Ok(())
}

const NANOS_A_SECOND: u64 = 1_000_000_000;
