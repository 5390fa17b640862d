//! The process machinery of `run`: a command in a group of its own that can't outlive its lease.
//!
//! It knows processes, signals and instants, and nothing of locks: the caller says until when the
//! group may live ([`Controls::kill_at`]) and when to stop it ([`Controls::stop`]). Linux only.
//!
//! ```text
//!   main      Minder::fork   Signals::install   lock ...        spawn      supervise        release
//!   wrapper ------+----------------+-----------------------------+--------------------------+----->
//!                 |                (a signal ends the wait)      | fork      ^ exit seen,    |
//!   minder        +-- idle --------------------------------------|-- watching|-- disarmed -- end
//!                                                   hello/watched|           | then reaped
//!   command                                                      +- exec ----+
//!
//!   D = end of validity on the store's clock
//!
//!        renewed, D moves on      renewal fails                 kill_at = D - margin    D
//!   --------+--------------------------+------------+-----------------+-----------------+---> time
//!                                                   TERM              KILL, by the wrapper
//!                                                   (Controls::stop)  and by the minder
//! ```
//!
//! Who kills when:
//!
//! | what fails                          | what kills the group            | when                |
//! |-------------------------------------|---------------------------------|---------------------|
//! | the lease                           | wrapper: TERM, then KILL        | `Stop::kill_at`     |
//! | wrapper killed, crashed, panicked   | minder; the kernel (direct child) | at once           |
//! | wrapper frozen (SIGSTOP, debugger)  | minder                          | `Controls::kill_at` |
//! | minder killed                       | wrapper                         | at once             |
//!
//! Limits, which no process can lift for another one:
//! - a descendant that leaves the group (`setsid`, `setpgid`: daemons, job-control shells) is reaped
//!   here while we live, but neither signalled nor waited for;
//! - a command that changes its user (sudo, setuid) can't be signalled unless we are root; the
//!   kernel also drops its parent-death signal;
//! - a process in uninterruptible sleep, or in a frozen cgroup, dies only when it wakes up: the minder
//!   stays until then, the wrapper says after 5 s that it could not be killed;
//! - wrapper and minder killed at the same instant, or wrapper killed while somebody froze the minder:
//!   only the direct child dies (parent-death signal), unless it changed its user;
//! - a machine that freezes as a whole runs none of this: there only fencing tokens help.
//!
//! Where that is not enough run it in a cgroup of its own (`systemd-run --scope`, `cgroup.kill`).
//!
//! How to use it, in this order and in `main`'s thread:
//! `Minder::fork`, `Signals::install`, a current-thread runtime, the lock (racing
//! [`Signals::interrupted`]), [`Signals::pending`] once more, [`spawn()`], [`supervise()`], release,
//! drop the minder (also before `std::process::exit`), and at last [`die_of`] if
//! [`Outcome::typed`] says so.

mod clock;
mod minder;
mod outcome;
mod proc;
mod signals;
mod spawn;
mod supervise;
mod sys;
mod terminal;
mod wire;

pub(crate) use clock::{Clock, Deadline};
pub(crate) use minder::{Minder, Serves};
pub(crate) use outcome::{Notice, Outcome, Status, Stop, StopReason};
pub(crate) use signals::{Signals, die_of};
pub(crate) use spawn::{Child, SpawnError, SpawnErrorKind, spawn};
pub(crate) use supervise::{Controls, supervise};
