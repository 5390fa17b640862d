//! The one place with `unsafe`: what a child does between `fork` and `exec`.
//!
//! Relies on rustix making bare system calls here: after `fork` in a process with threads only
//! async-signal-safe calls are allowed, so nothing in the closure may allocate or lock.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Lets the kernel kill the child when the *thread* that spawns it ends.
pub(crate) fn die_with_spawning_thread(command: &mut Command) {
    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above took effect.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
        }
    };
    // SAFETY: the closure makes two system calls and builds an error that does not allocate.
    unsafe {
        command.pre_exec(before_exec);
    }
}
