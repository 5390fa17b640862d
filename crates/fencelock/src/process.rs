//! This process, as holders of locks describe themselves and as the embedded file binds to them.

use std::fs;

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
pub(crate) fn this_process() -> Option<ProcessId> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    Some(ProcessId { pid: std::process::id(), started: start_time(&stat)? })
}

/// The 22nd field. The second is the program's name in parentheses, which may contain anything, so
/// counting starts behind the last parenthesis.
fn start_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_can_not_forge_the_start_time() {
        let stat = "12 (a) b 1 2) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(start_time(stat), Some(4711));
        assert_eq!(start_time("12 (a) S 1 2"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found() {
        let process = this_process().expect("there is a /proc");
        assert_eq!(process.pid, std::process::id());
        assert!(process.started > 0);
    }
}
