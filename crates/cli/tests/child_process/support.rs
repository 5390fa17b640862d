//! Starts the driver, and looks at processes through `/proc`.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A driver under test, with a directory of its own that its command has as `$DIR`.
pub(crate) struct Driver {
    pub(crate) process: Child,
    pub(crate) directory: TempDir,
}

/// How a driver ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    pub(crate) directory: TempDir,
}

/// The built example.
pub(crate) fn driver_path() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/child_driver");
    assert!(path.exists(), "build it: cargo build -p fencelock-cli --example child_driver");
    path
}

/// Polls until `look` has something, and panics with `what` if it never has.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Polls until `condition` holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || condition().then_some(()));
}

impl Driver {
    /// Starts the driver with `options` on `sh -c script`.
    pub(crate) fn shell(options: &[&str], script: &str) -> Self {
        Self::start(options, &["sh", "-c", script])
    }

    /// Starts the driver with `options` on `command`.
    pub(crate) fn start(options: &[&str], command: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let process = Command::new(driver_path())
            .args(options)
            .arg("--")
            .args(command)
            .env("DIR", directory.path())
            .stdin(Stdio::null())
            .stdout(File::create(directory.path().join("stdout")).unwrap())
            .stderr(File::create(directory.path().join("stderr")).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { process, directory }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.path("stderr")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for a pid that the command writes into `$DIR/name`.
    pub(crate) fn pid_from(&self, name: &str) -> Pid {
        eventually(name, || read_pid(&self.path(name)))
    }

    /// The minder of this driver.
    pub(crate) fn minder(&self) -> Pid {
        eventually("a minder", || {
            children_of(self.pid()).into_iter().find(|pid| name_of(*pid) == "lock-minder")
        })
    }

    /// Waits for the end.
    pub(crate) fn ended(mut self) -> Ended {
        let status = eventually("the driver's end", || self.process.try_wait().unwrap());
        let stderr = self.stderr();
        let directory = std::mem::replace(&mut self.directory, TempDir::new().unwrap());
        Ended { code: exit_code(status), stderr, directory }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A test that failed must leave nothing behind; the minder sees to the command.
        if let Ok(None) = self.process.try_wait() {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.process.wait();
        }
    }
}

impl Ended {
    /// The text that the command wrote into `$DIR/name`.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// Fails unless the driver's last word holds `text`.
    #[track_caller]
    pub(crate) fn assert_outcome(&self, text: &str) {
        let outcome = self.stderr.lines().find(|line| line.starts_with("outcome:"));
        assert!(outcome.is_some_and(|line| line.contains(text)), "{text} not in {}", self.stderr);
    }
}

fn exit_code(status: ExitStatus) -> Option<i32> {
    status.code()
}

/// A pid that was written completely (with its newline).
pub(crate) fn read_pid(path: &Path) -> Option<Pid> {
    let text = fs::read_to_string(path).ok()?;
    text.strip_suffix('\n').and_then(|line| line.trim().parse().ok()).and_then(Pid::from_raw)
}

/// State, parent and group out of `/proc/PID/stat`.
pub(crate) fn stat(pid: Pid) -> Option<(char, Pid, Pid)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let mut pid = || fields.next()?.parse().ok().and_then(Pid::from_raw);
    Some((state, pid()?, pid()?))
}

/// Whether it is there and no zombie.
pub(crate) fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, ..)| state != 'Z' && state != 'X')
}

/// Whether it is stopped.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, ..)| state == 'T')
}

/// All processes of the machine.
pub(crate) fn all_processes() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok().and_then(Pid::from_raw)).collect()
}

/// Children, zombies too.
pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    let is_child = |pid: &Pid| stat(*pid).is_some_and(|(_, its_parent, _)| its_parent == parent);
    all_processes().into_iter().filter(is_child).collect()
}

/// Living members of a group.
pub(crate) fn members_of(group: Pid) -> Vec<Pid> {
    let is_member = |pid: &Pid| {
        stat(*pid).is_some_and(|(state, _, its_group)| its_group == group && state != 'Z')
    };
    all_processes().into_iter().filter(is_member).collect()
}

/// The short name of a process.
pub(crate) fn name_of(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}
