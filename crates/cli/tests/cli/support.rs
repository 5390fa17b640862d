//! A home for one test, and `fencelock` started in it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fencelock_testkit::{Process, RedisServer, eventually};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The directories and the environment of one test.
pub(crate) struct Bench {
    home: TempDir,
    variables: Vec<(String, String)>,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    /// A home with the embedded store.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["state", "config", "work"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        Self { home, variables: Vec::new() }
    }

    /// A home whose store is this server.
    pub(crate) fn on(server: &RedisServer) -> Self {
        Self::new().set("FENCELOCK_STORE", &server.url())
    }

    /// The same with one variable more for every call.
    pub(crate) fn set(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// A path in the working directory of the calls.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("work").join(name)
    }

    /// Writes a file in the working directory.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Reads a file in the working directory; nothing if it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Where the user's configuration is.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.home.path().join("config/fencelock/fencelock.toml")
    }

    /// The folder of the default store.
    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// The call, not started.
    pub(crate) fn command<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fencelock"));
        self.prepare(&mut command);
        command.args(arguments);
        command
    }

    /// Any program in this home.
    pub(crate) fn prepare(&self, command: &mut Command) {
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("FENCELOCK_") {
                command.env_remove(variable);
            }
        }
        command
            .env("HOME", self.home.path())
            .env("XDG_STATE_HOME", self.state())
            .env("XDG_CONFIG_HOME", self.home.path().join("config"))
            .current_dir(self.home.path().join("work"));
        for (variable, value) in &self.variables {
            command.env(variable, value);
        }
    }

    /// Starts a call.
    pub(crate) fn start<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Process {
        Process::spawn(self.command(arguments))
    }

    /// Runs a call to its end.
    #[track_caller]
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ended {
        finish(&mut self.start(arguments))
    }

    /// Runs a call with one variable more.
    #[track_caller]
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        finish(&mut Process::spawn(command))
    }

    /// Takes a lock and returns its token.
    #[track_caller]
    pub(crate) fn acquire(&self, arguments: &[&str]) -> String {
        let ended = self.run([&["acquire"], arguments].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    /// Holds a lock with `run` until the answer is dropped or the file `go` appears.
    #[track_caller]
    pub(crate) fn hold(&self, arguments: &[&str]) -> Process {
        let script = "echo inside; while [ ! -e go ]; do sleep 0.01; done";
        let words = [&["run"], arguments, &["--", "sh", "-c", script]].concat();
        let mut holder = self.start(words);
        holder.wait_for_stdout(LIMIT, "inside");
        holder
    }

    /// Lets those who hold with [`Bench::hold`] go.
    pub(crate) fn let_go(&self) {
        self.write("go", "");
    }
}

/// Waits for the end of a call.
#[track_caller]
pub(crate) fn finish(process: &mut Process) -> Ended {
    use std::os::unix::process::ExitStatusExt;

    let finished = process.wait_within(LIMIT);
    // A shell shows a death by signal like this, too.
    let code = finished.status.code().or(finished.status.signal().map(|signal| 128 + signal));
    Ended { code: code.unwrap(), stdout: finished.stdout, stderr: finished.stderr }
}

impl Ended {
    /// Wrong input: this code, nothing on standard output, and one line that says all of this.
    #[track_caller]
    pub(crate) fn assert_refused(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        self.assert_one_line(parts);
    }

    /// One line on standard error that says all of this.
    #[track_caller]
    pub(crate) fn assert_one_line(&self, parts: &[&str]) {
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(self.stderr.starts_with("fencelock: "), "{self:?}");
        assert!(!self.stderr.trim_end().ends_with('.'), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in {self:?}");
        }
    }

    /// The same, beside what the command itself wrote there.
    #[track_caller]
    pub(crate) fn assert_one_own_line(&self, parts: &[&str]) {
        let own = self.stderr.lines().filter(|line| line.starts_with("fencelock: "));
        let stderr = own.map(|line| format!("{line}\n")).collect();
        Self { code: self.code, stdout: String::new(), stderr }.assert_one_line(parts);
    }

    /// Standard output as JSON, an object a line.
    #[track_caller]
    pub(crate) fn objects(&self) -> Vec<Value> {
        objects(&self.stdout)
    }
}

/// Text as JSON, an object a line.
#[track_caller]
pub(crate) fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

/// Waits for a line of a running call.
#[track_caller]
pub(crate) fn wait_for_stderr(process: &mut Process, text: &str) {
    eventually(LIMIT, &format!("{text:?} on standard error"), || {
        let found = process.stderr().contains(text);
        assert!(
            found || process.exited().is_none(),
            "ended without {text:?}: {}",
            process.stderr()
        );
        found
    });
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
