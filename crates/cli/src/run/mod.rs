//! `run`: a command that runs only while the lock is held.
//!
//! ```text
//!   check all input   fork minder   take signals   wait for the lock   spawn   supervise   release
//!   --------+--------------+-------------+------------------+------------+---------+----------+--->
//!    64, 78, 126, 127      |         128 + n           75, 69, 77        |     lease.rs       | 79
//! ```
//!
//! The command never starts unless the lock is held, and never outlives the lease: what can't be
//! enforced on this platform is refused at the start.

#[cfg(target_os = "linux")]
mod binding;
#[cfg(target_os = "linux")]
mod course;
#[cfg(target_os = "linux")]
mod environment;
#[cfg(target_os = "linux")]
mod hold;
#[cfg(target_os = "linux")]
mod lease;
#[cfg(target_os = "linux")]
mod lookup;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod timing;

#[cfg(target_os = "linux")]
pub(crate) use {
    course::execute,
    hold::{Asked, Ended, Holding},
    stage::play,
};

/// Refuses: without Linux's process groups, pidfds and parent-death signals a command could outlive
/// its lease.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(crate) fn execute(_arguments: &crate::args::Run) -> Result<u8, crate::failure::Failure> {
    Err(crate::failure::Failure::usage(
        "`run` needs Linux: elsewhere a command can't be stopped for certain before its lock is lost; \
         use the library, or `acquire` and `release`",
    ))
}
