//! A place with one store, and `fencelock run` started in it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencelock_testkit::{Process, RedisServer, Witness, eventually};
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A directory of its own and a store.
#[derive(Debug)]
pub(crate) struct Place {
    home: TempDir,
    store: String,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    /// The embedded store, in a file of its own.
    pub(crate) fn embedded() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = embedded_store(home.path(), "locks");
        Self { home, store }
    }

    /// A Redis server.
    pub(crate) fn on(server: &RedisServer) -> Self {
        Self { home: tempfile::tempdir().unwrap(), store: server.url() }
    }

    /// Any store.
    pub(crate) fn at(url: &str) -> Self {
        Self { home: tempfile::tempdir().unwrap(), store: url.to_owned() }
    }

    /// Another embedded store in the same place: locks of the one do not exclude the other.
    pub(crate) fn other_store(&self, name: &str) -> String {
        embedded_store(self.home.path(), name)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A witness in a directory below.
    pub(crate) fn witness(&self, name: &str) -> Witness {
        let directory = self.path(name);
        fs::create_dir(&directory).unwrap();
        Witness::in_directory(&directory)
    }

    /// `fencelock WORDS...` in this place, not started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        self.prepare(&mut command);
        command.args(words);
        command
    }

    /// `fencelock run NAME FLAGS... -- WITNESSED sh -c SCRIPT`, started. The script's `$PPID` is
    /// the leader of the command's group.
    pub(crate) fn run_inside(
        &self,
        witness: &Witness,
        name_and_flags: &[&str],
        script: &str,
    ) -> Process {
        let mut command = self.command(&[&["run"], name_and_flags, &["--"]].concat());
        command.args(witness.argv("run")).args(["sh", "-c", script]);
        Process::spawn(command)
    }

    /// A shell in this place; `$FENCELOCK` is the program.
    pub(crate) fn shell(&self, script: &str) -> Process {
        let mut command = Command::new("sh");
        self.prepare(&mut command);
        command.env("FENCELOCK", PROGRAM).args(["-c", script]);
        Process::spawn(command)
    }

    fn prepare(&self, command: &mut Command) {
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("FENCELOCK_") {
                command.env_remove(variable);
            }
        }
        command
            .env("HOME", self.home.path())
            .env("XDG_CONFIG_HOME", self.home.path())
            .env("XDG_STATE_HOME", self.home.path())
            .env("FENCELOCK_STORE", &self.store)
            .current_dir(self.home.path());
    }
}

/// Waits for the end of a run.
#[track_caller]
pub(crate) fn finish(process: &mut Process) -> Ended {
    finish_within(LIMIT, process)
}

/// Waits for the end of something that takes longer.
#[track_caller]
pub(crate) fn finish_within(limit: Duration, process: &mut Process) -> Ended {
    let finished = process.wait_within(limit);
    let code = code(finished.status);
    Ended { code, stdout: finished.stdout, stderr: finished.stderr }
}

/// The code as a shell shows it: a death by a signal is 128 + n.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap()
}

/// Waits for a text on standard error.
#[track_caller]
pub(crate) fn wait_for_stderr(process: &mut Process, text: &str) {
    eventually(LIMIT, &format!("{text:?} on standard error"), || {
        let ended = process.exited();
        let stderr = process.stderr();
        assert!(stderr.contains(text) || ended.is_none(), "ended without {text:?}: {stderr}");
        stderr.contains(text)
    });
}

/// The number after `inside ` on standard output: the group of a command that printed
/// `inside $PPID`.
pub(crate) fn group(process: &Process) -> Option<u32> {
    let stdout = process.stdout();
    let word = stdout.lines().find_map(|line| line.strip_prefix("inside "))?;
    word.parse().ok()
}

/// Whether the long form is asked for.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("FENCELOCK_SOAK").is_some()
}

/// Tests that use the whole machine for a while take turns: what they say about time would be
/// worth less if they ran beside each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed has left nothing behind in it.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tokens, one a line, in the order of the entries of the witness. The first that is not larger
/// than the one before is an error.
pub(crate) fn check_tokens(text: &str) -> Result<usize, String> {
    let mut last = 0;
    let mut count = 0;
    for line in text.lines() {
        let token: u64 = line.parse().map_err(|_| format!("{line:?} is no fencing token"))?;
        if token <= last {
            return Err(format!("fencing token {token} came after {last}"));
        }
        last = token;
        count += 1;
    }
    Ok(count)
}

fn embedded_store(folder: &Path, name: &str) -> String {
    format!("sqlite:{}", folder.join(name).join("locks.db").display())
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencelock");
