//! What `/proc` says about groups and children.
//!
//! `kill(-group, 0)` also counts zombies, and the wrapper keeps its dead command a zombie on purpose
//! (that pins the group's number), so the living can only be told apart by reading `/proc`. A scan
//! costs microseconds per process on the machine: [`has_other_children`] is the cheap question to
//! ask first. Processes that `/proc` hides (`hidepid`, other users) do not count.

use std::fs;
use std::io;

use rustix::process::Pid;

/// How many threads this process has.
pub(super) fn thread_count() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Whether this process, which must be a subreaper, may have children besides `known`.
///
/// When the command has ended, everything that it left behind has become a child of its subreaper,
/// or a descendant of one: no other child means nothing is left. Only we reap our children, so the
/// list can't shrink while it is read. A kernel without that list answers "may".
pub(super) fn has_other_children(known: &[Pid]) -> bool {
    let own = rustix::process::getpid();
    let Ok(list) = fs::read_to_string(format!("/proc/self/task/{own}/children")) else {
        return true;
    };
    list.split_ascii_whitespace().any(|child| {
        !child.parse().ok().and_then(Pid::from_raw).is_some_and(|child| known.contains(&child))
    })
}

/// How many members of `group` are neither dead nor zombies.
///
/// # Errors
/// `/proc` can't be listed.
pub(super) fn living_members(group: Pid) -> io::Result<usize> {
    let mut living = 0;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.as_bytes()[0].is_ascii_digit()) else {
            continue;
        };
        // A process that ends while it is looked at can't be read any more: it does not count.
        let Ok(stat) = fs::read(format!("/proc/{name}/stat")) else { continue };
        if is_living_member(&stat, group) {
            living += 1;
        }
    }
    Ok(living)
}

/// Reads one `stat` line: `pid (name) state ppid pgrp ...`, where the name may hold anything, and the
/// group is -1 for a process that is just being reaped.
fn is_living_member(stat: &[u8], group: Pid) -> bool {
    let Some(end_of_name) = stat.iter().rposition(|byte| *byte == b')') else { return false };
    let rest = String::from_utf8_lossy(stat.get(end_of_name + 1..).unwrap_or_default());
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next();
    let its_group: Option<i32> = fields.nth(1).and_then(|field| field.parse().ok());
    its_group == Some(group.as_raw_pid()) && !matches!(state, Some("Z" | "X" | "x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let group = Pid::from_raw(77).expect("not zero");
        assert!(is_living_member(b"5 (a) Z 1 2 (b)) S 1 77 77 0", group));
        assert!(!is_living_member(b"5 (a) S 1 77) S 1 78 77 0", group));
    }

    #[test]
    fn zombies_and_the_dead_do_not_count() {
        let group = Pid::from_raw(77).expect("not zero");
        for state in ["Z", "X", "x"] {
            assert!(!is_living_member(format!("5 (a) {state} 1 77 77 0").as_bytes(), group));
        }
        for state in ["R", "S", "D", "T", "t", "I"] {
            assert!(is_living_member(format!("5 (a) {state} 1 77 77 0").as_bytes(), group));
        }
    }

    #[test]
    fn a_process_that_is_being_reaped_has_no_group_any_more() {
        let group = Pid::from_raw(77).expect("not zero");
        for state in ["R", "S", "X"] {
            assert!(!is_living_member(format!("5 (a) {state} 0 -1 -1 0").as_bytes(), group));
        }
    }

    #[test]
    fn a_line_that_is_cut_off_is_no_member() {
        let group = Pid::from_raw(77).expect("not zero");
        for line in [&b""[..], b"5", b"5 (a", b"5 (a)", b"5 (a) S", b"5 (a) S 1"] {
            assert!(!is_living_member(line, group));
        }
    }
}
