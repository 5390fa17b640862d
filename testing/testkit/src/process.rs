//! Children with captured output, signals by pid, and the one bounded wait of the whole bench.
//!
//! Output goes to unlinked files rather than pipes: a grandchild that keeps a pipe open can then
//! not make a wait hang, and nothing is lost when the reader is slow. Relies on `/proc`. Nothing
//! here signals a process by name.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

pub use rustix::process::Signal;

use crate::sys;

/// The step of every poll; small against any wait a test makes, large against a system call.
pub(crate) const POLL_STEP: Duration = Duration::from_millis(2);

/// Waits until `happened` says yes; this is the only place of the bench that sleeps.
///
/// # Panics
///
/// With `what` when it does not happen within the bound.
#[track_caller]
pub fn eventually(within: Duration, what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    loop {
        // Asked once more after the bound: a starved machine must not fail what has happened.
        let late = start.elapsed() > within;
        if happened() {
            return;
        }
        assert!(!late, "did not happen within {within:?}: {what}");
        std::thread::sleep(POLL_STEP);
    }
}

/// Spawns a child that the kernel kills when this process ends, even by SIGKILL.
///
/// The kernel ties the child to the *thread* that spawned it, and test threads end early, so one
/// thread that lives as long as the process does all the spawning.
///
/// # Errors
///
/// What the spawn gave.
///
/// # Panics
///
/// When the spawning thread cannot be started.
pub fn spawn_tied(command: Command) -> std::io::Result<Child> {
    type Job = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, inbox) = channel::<Job>();
        std::thread::Builder::new()
            .name("testkit-spawner".to_owned())
            .spawn(move || {
                for (mut command, answer) in inbox {
                    sys::die_with_spawning_thread(&mut command);
                    // The asker waits for the answer below, so the send cannot fail.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("the spawner thread starts");
        Mutex::new(jobs)
    });
    let (answer, outcome) = channel();
    spawner.lock().expect("no panic under this lock").send((command, answer)).expect("it lives");
    outcome.recv().expect("the spawner answers every job")
}

/// A child whose output is captured; killed and reaped on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: File,
    stderr: File,
    status: Option<ExitStatus>,
}

/// What a child left behind.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it, and its children until then, wrote to standard output.
    pub stdout: String,
    /// The same for standard error.
    pub stderr: String,
}

impl Process {
    /// Spawns with captured output and an empty standard input, tied to this process.
    ///
    /// # Panics
    ///
    /// When the child cannot be spawned.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::spawn_with_stdin(command)
    }

    /// Like [`Process::spawn`], with the standard input the command was given.
    ///
    /// # Panics
    ///
    /// When the child cannot be spawned.
    pub fn spawn_with_stdin(mut command: Command) -> Self {
        let stdout = tempfile::tempfile().expect("a temporary file for stdout");
        let stderr = tempfile::tempfile().expect("a temporary file for stderr");
        command.stdout(stdout.try_clone().expect("dup of stdout's file"));
        command.stderr(stderr.try_clone().expect("dup of stderr's file"));
        let shown = format!("{command:?}");
        let child = spawn_tied(command).unwrap_or_else(|e| panic!("cannot spawn {shown}: {e}"));
        Self { child, stdout, stderr, status: None }
    }

    /// Waits for the end of the child, not for that of its descendants.
    ///
    /// # Panics
    ///
    /// With all output so far when the child still runs after the bound.
    #[track_caller]
    pub fn wait_within(&mut self, within: Duration) -> Finished {
        let start = Instant::now();
        loop {
            let late = start.elapsed() > within;
            if let Some(status) = self.exited() {
                return Finished { status, stdout: self.stdout(), stderr: self.stderr() };
            }
            assert!(
                !late,
                "process {} still runs after {within:?}\nstdout: {}\nstderr: {}",
                self.pid(),
                self.stdout(),
                self.stderr()
            );
            std::thread::sleep(POLL_STEP);
        }
    }

    /// The status if the child has ended.
    ///
    /// # Panics
    ///
    /// When the operating system cannot say.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("a child of ours can be waited for");
        }
        self.status
    }

    /// Waits until standard output contains a text, and returns all of it.
    ///
    /// # Panics
    ///
    /// When the text does not come within the bound, or the child ends without it.
    #[track_caller]
    pub fn wait_for_stdout(&mut self, within: Duration, text: &str) -> String {
        let what = format!("{text:?} on the standard output of process {}", self.pid());
        eventually(within, &what, || {
            let ended = self.exited();
            let found = self.stdout().contains(text);
            assert!(
                found || ended.is_none(),
                "ended ({ended:?}) without {what}\nstdout: {}\nstderr: {}",
                self.stdout(),
                self.stderr()
            );
            found
        });
        self.stdout()
    }

    /// The pid; still valid after the end, until the value is dropped, as a mere number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        contents(&self.stdout)
    }

    /// Standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        contents(&self.stderr)
    }

    /// Sends a signal, unless the child has been reaped and its pid may be another's.
    pub fn signal(&mut self, signal: Signal) {
        if self.exited().is_none() {
            send(self.pid(), signal);
        }
    }

    /// Stops the child and waits until it is stopped.
    ///
    /// # Panics
    ///
    /// When the child is not there or does not stop.
    #[track_caller]
    pub fn stop(&self) {
        stop(self.pid());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exited().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sends a signal to one process; says whether it was there.
#[allow(clippy::must_use_candidate)] // Most tests send and then look at the effect.
pub fn send(pid: u32, signal: Signal) -> bool {
    rustix::process::kill_process(to_pid(pid), signal).is_ok()
}

/// Sends a signal to a whole process group; says whether it has members.
#[allow(clippy::must_use_candidate)]
pub fn send_group(group: u32, signal: Signal) -> bool {
    rustix::process::kill_process_group(to_pid(group), signal).is_ok()
}

/// SIGSTOP, and a wait until the kernel shows the process as stopped.
///
/// # Panics
///
/// When there is no such process, or it does not stop within ten seconds.
#[track_caller]
pub fn stop(pid: u32) {
    assert!(send(pid, Signal::STOP), "no process {pid} to stop");
    eventually(Duration::from_secs(10), &format!("process {pid} is stopped"), || {
        matches!(stat(pid), Some(Stat { state: 'T', .. }))
    });
}

/// SIGCONT.
///
/// # Panics
///
/// When there is no such process.
#[track_caller]
pub fn cont(pid: u32) {
    assert!(send(pid, Signal::CONT), "no process {pid} to continue");
}

/// SIGKILL, and a wait until the process runs no more (it may stay as a zombie).
///
/// # Panics
///
/// When it does not go within ten seconds.
#[track_caller]
pub fn kill(pid: u32) {
    send(pid, Signal::KILL);
    eventually(Duration::from_secs(10), &format!("process {pid} is gone"), || !process_exists(pid));
}

/// Whether a process runs or could run again; a zombie does not count.
#[must_use]
pub fn process_exists(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !stat.is_dead())
}

/// The live members of a process group, zombies left out, in the order of their pids.
///
/// # Panics
///
/// When `/proc` cannot be read.
#[must_use]
pub fn group_members(group: u32) -> Vec<u32> {
    let mut members: Vec<u32> = std::fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid).is_some_and(|stat| stat.group == group && !stat.is_dead()))
        .collect();
    members.sort_unstable();
    members
}

struct Stat {
    state: char,
    group: u32,
}

impl Stat {
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Reads `/proc/PID/stat`: `pid (name, which may hold anything) state ppid pgrp ...`.
fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, group })
}

fn to_pid(pid: u32) -> rustix::process::Pid {
    i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .unwrap_or_else(|| panic!("{pid} is no pid"))
}

fn contents(file: &File) -> String {
    // Positioned reads: the child writes through the same file description, whose offset must
    // not move.
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    let mut at = 0;
    loop {
        match file.read_at(&mut chunk, at).expect("a temporary file can be read") {
            0 => return String::from_utf8_lossy(&bytes).into_owned(),
            count => {
                bytes.extend_from_slice(&chunk[..count]);
                at += count as u64;
            }
        }
    }
}
