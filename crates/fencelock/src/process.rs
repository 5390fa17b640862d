//! This process, as holders of locks describe themselves and as the embedded file binds to them.

use fencelock_core::ProcessId;

/// The name of this machine.
pub(crate) fn host_name() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    (!name.is_empty()).then(|| name.chars().take(LONGEST_HOST_NAME).collect())
}

/// POSIX allows 255; metadata has room for 1 KiB of everything.
const LONGEST_HOST_NAME: usize = 255;

/// This process with its start time, where the system tells it.
#[cfg(feature = "sqlite")]
pub(crate) fn this_process() -> Option<ProcessId> {
    fencelock_sqlite::process::current().ok()
}

/// Without the embedded file there is no store that could see processes.
#[cfg(not(feature = "sqlite"))]
pub(crate) fn this_process() -> Option<ProcessId> {
    None
}
