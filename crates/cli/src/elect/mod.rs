//! `elect`: a command that runs on one machine at a time, and moves when that one stops.
//!
//! ```text
//!   campaign --> one term: the command runs, as under `run` --> resign --+--> the end
//!      ^                                                                 |
//!      +------- lost, asked back: at once;  failed: after a pause -------+
//! ```
//! A term has one command, and a command one term: its fencing token tells it from all before it. The
//! term is `run`'s own machinery (`crate::run`); here is only what comes after it.

#[cfg(target_os = "linux")]
mod course;
#[cfg(target_os = "linux")]
mod restart;

#[cfg(target_os = "linux")]
pub(crate) use course::execute;

/// Refuses, as `run` does and for the same reason.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(crate) fn execute(_arguments: &crate::args::Elect) -> Result<u8, crate::failure::Failure> {
    Err(crate::failure::Failure::usage(
        "`elect` needs Linux: elsewhere a command can't be stopped for certain before its leadership \
         is lost; use the library",
    ))
}
