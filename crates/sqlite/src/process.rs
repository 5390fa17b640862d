//! Processes of this machine: how one is named so that a reused id is not taken for it, and
//! whether it is certainly gone.
//!
//! Relies on `/proc`. It must never call a process gone that it merely cannot see: a lease would
//! be freed under a living holder.

use std::{fs, io};

use fencelock_core::ProcessId;
use rustix::{io::Errno, process::Pid};

/// This process.
///
/// # Errors
/// When `/proc` does not show it (not mounted, or of another pid namespace).
pub fn current() -> io::Result<ProcessId> {
    let pid = std::process::id();
    let shown = fs::read_link("/proc/self")?;
    if shown.as_os_str() != pid.to_string().as_str() {
        return Err(io::Error::other("/proc belongs to another pid namespace"));
    }
    find(pid)
}

/// A process by its id.
///
/// # Errors
/// When there is no such process, or it cannot be seen (`hidepid`).
pub fn find(pid: u32) -> io::Result<ProcessId> {
    let stat = fs::read(format!("/proc/{pid}/stat"))?;
    let stat = Stat::parse(&stat).ok_or_else(|| io::Error::other("/proc has an unknown form"))?;
    Ok(ProcessId { pid, started: stat.started })
}

/// What can be said of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Presence {
    /// It has ended: its id is unused, belongs to a later process, or to a zombie.
    Gone,
    /// It runs, or nobody can say that it does not.
    PerhapsAlive,
}

/// Whether a process is certainly gone, as this process sees it.
#[must_use]
pub fn presence(process: ProcessId) -> Presence {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        // No process can have this id, so it says nothing about the holder.
        return Presence::PerhapsAlive;
    };
    match fs::read(format!("/proc/{}/stat", process.pid)) {
        Ok(stat) => match Stat::parse(&stat) {
            Some(stat) if stat.started != process.started || stat.ended => Presence::Gone,
            _ => Presence::PerhapsAlive,
        },
        // Under `hidepid` the entry is missing for processes of others too; the kernel still knows
        // their ids, and says "not permitted" instead of "no such process".
        Err(error) if is_missing(&error) => match rustix::process::test_kill_process(pid) {
            Err(Errno::SRCH) => Presence::Gone,
            _ => Presence::PerhapsAlive,
        },
        Err(_) => Presence::PerhapsAlive,
    }
}

fn is_missing(error: &io::Error) -> bool {
    // The second is what a read answers when the process ends between open and read.
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// The fields of `/proc/<pid>/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    /// A zombie without living threads, or dead.
    ended: bool,
    /// Field 22: clock ticks since boot.
    started: u64,
}

impl Stat {
    fn parse(stat: &[u8]) -> Option<Self> {
        // The command name is in parentheses and may hold anything, parentheses too.
        let after = stat.iter().rposition(|&byte| byte == b')')? + 1;
        let rest = std::str::from_utf8(&stat[after..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        // Counted from field 3, the state.
        let threads: u64 = fields.nth(16)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        // A main thread that has ended is a zombie too, while its process lives on in others.
        let ended = matches!(state, "X" | "x") || (state == "Z" && threads <= 1);
        Some(Self { ended, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(state: &str, threads: u32) -> Vec<u8> {
        let zeros = |count: usize| vec!["0"; count].join(" ");
        format!("42 (a) b (c)) {state} {} {threads} 0 987 {}", zeros(16), zeros(30)).into_bytes()
    }

    #[test]
    fn a_command_name_with_parentheses_is_skipped() {
        assert_eq!(Stat::parse(&line("S", 1)), Some(Stat { ended: false, started: 987 }));
    }

    #[test]
    fn a_zombie_has_ended_unless_other_threads_live() {
        assert_eq!(Stat::parse(&line("Z", 1)).map(|stat| stat.ended), Some(true));
        assert_eq!(Stat::parse(&line("Z", 2)).map(|stat| stat.ended), Some(false));
        assert_eq!(Stat::parse(&line("X", 0)).map(|stat| stat.ended), Some(true));
    }

    #[test]
    fn nonsense_is_no_stat() {
        for text in ["", "1 (x", "1 (x) S", "1 (x) S 0 0 0"] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn this_process_is_alive_and_a_later_one_with_its_id_would_not_be_it() {
        let own = current().expect("/proc shows us");
        assert_eq!(presence(own), Presence::PerhapsAlive);
        let earlier = ProcessId { started: own.started - 1, ..own };
        assert_eq!(presence(earlier), Presence::Gone);
    }

    #[test]
    fn an_impossible_id_is_not_gone() {
        for pid in [0, u32::MAX] {
            assert_eq!(presence(ProcessId { pid, started: 1 }), Presence::PerhapsAlive);
        }
    }

    #[test]
    fn a_child_is_gone_once_it_ended_even_before_it_is_reaped() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a child");
        let id = find(child.id()).expect("it runs");
        assert_eq!(presence(id), Presence::PerhapsAlive);
        drop(child.stdin.take());
        let pid = Pid::from_child(&child);
        let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended).expect("it ends");
        assert_eq!(presence(id), Presence::Gone, "a zombie");
        child.wait().expect("it is reaped");
        assert_eq!(presence(id), Presence::Gone);
    }
}
