//! Which processes the lease of a `run` is bound to: the wrapper and its minder.
//!
//! A store on this machine may give the lock to the next one as soon as both are gone: the minder ends
//! only after the command's group is dead.

use std::fs;

use fencelock::{Binding, ProcessId};
use rustix::process::Pid;

use crate::child::Minder;

/// This process and its minder; nothing when the system does not tell their start times.
pub(super) fn of(minder: &Minder) -> Binding {
    let processes: Option<Vec<ProcessId>> =
        [rustix::process::getpid(), minder.pid()].into_iter().map(identify).collect();
    processes.map_or(Binding::Unbound, Binding::Processes)
}

fn identify(pid: Pid) -> Option<ProcessId> {
    let raw = u32::try_from(pid.as_raw_nonzero().get()).ok()?;
    let stat = fs::read_to_string(format!("/proc/{raw}/stat")).ok()?;
    Some(ProcessId { pid: raw, started: started(&stat)? })
}

/// The 22nd field. The second is the program's name in parentheses, which may contain anything, so
/// counting starts behind the last parenthesis.
fn started(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_read_behind_any_name() {
        let stat = "12 (a) b 1 2) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(started(stat), Some(4711));
        assert_eq!(started("12 (a"), None);
    }
}
