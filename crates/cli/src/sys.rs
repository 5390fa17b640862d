//! Whether standard output was open when this process was started.
//!
//! The standard library opens `/dev/null` in place of closed streams before `main`, and a token that
//! `acquire >&-` writes there is a lock that nobody can give back. So it has to be asked before:
//! by a function that the loader calls. It must not allocate, print, or rely on anything of the
//! standard library.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether there was no standard output.
pub(crate) fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}

#[cfg(target_os = "linux")]
extern "C" fn look() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()) == Err(rustix::io::Errno::BADF);
    OUTPUT_WAS_CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that the loader calls once before `main`; `look`
// makes one system call and writes one atomic.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
