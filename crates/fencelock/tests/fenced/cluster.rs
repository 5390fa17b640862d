//! A PostgreSQL of the test's own: a cluster in a temporary folder, reached by a Unix socket in it.
//!
//! `postgres` refuses to run as root, so root starts it as `postgres` or `nobody`. Where there is no
//! PostgreSQL, or nobody to run it as, the tests that need one say so and are left out;
//! `FENCELOCK_REQUIRE_POSTGRES=1` makes that a failure.

use std::{
    env,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use fencelock_testkit::{
    Process, eventually,
    process::{self, Signal},
};
use tempfile::TempDir;

/// Longer than a start takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A running cluster; ends with the value, and with this process.
pub(crate) struct Cluster {
    folder: TempDir,
    server: Child,
}

impl Cluster {
    /// Nothing where there is none to be had.
    pub(crate) fn start() -> Option<Self> {
        let account = Account::own();
        let (Some(programs), Some(account)) = (programs(), account) else {
            let required = env::var_os("FENCELOCK_REQUIRE_POSTGRES").is_some_and(|it| it == "1");
            assert!(!required, "there is no PostgreSQL here (initdb, postgres, psql, setpriv)");
            eprintln!("SKIPPED: there is no PostgreSQL here; testing/install gets one");
            return None;
        };
        // Not below TMPDIR: a socket has to have a short path, and the account a way to it.
        let folder = tempfile::Builder::new().prefix("fencelock-pg-").tempdir_in("/tmp").unwrap();
        account.own_folder(folder.path());
        let data = folder.path().join("data");

        let mut initdb = account.command(&programs.join("initdb"));
        initdb.args(["--auth=trust", "--no-sync", "--username=fenced", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "-D"]).arg(&data).current_dir(folder.path());
        let initialised = Process::spawn(initdb).wait_within(LIMIT);
        assert!(initialised.status.success(), "initdb: {}", initialised.stderr);

        let mut postgres = account.command(&programs.join("postgres"));
        postgres.arg("-D").arg(&data).arg("-k").arg(folder.path()).current_dir(folder.path());
        postgres.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        postgres.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let server = process::spawn_tied(postgres).expect("postgres starts");
        let mut cluster = Self { folder, server };
        eventually(LIMIT, "PostgreSQL answers", || {
            let ended = cluster.server.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "postgres ended: {}", cluster.log());
            let answer = Command::new("psql").args(["-X", "-d", &cluster.url(), "-c", ""]).output();
            answer.expect("psql runs").status.success()
        });
        Some(cluster)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgresql:///postgres?user=fenced&host={}", self.folder.path().display())
    }

    /// One script in a session of its own: what it printed.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> String {
        let mut session = Session::open(self);
        session.say(script);
        session.end()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // At once, but its own processes first.
        process::send(self.server.id(), Signal::QUIT);
        let _ = self.server.wait();
    }
}

/// A session of `psql` that is told one thing after the other.
pub(crate) struct Session {
    process: Process,
    input: std::io::PipeWriter,
}

impl Session {
    pub(crate) fn open(cluster: &Cluster) -> Self {
        let (input, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new("psql");
        command.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &cluster.url()]);
        command.stdin(input);
        Self { process: Process::spawn_with_stdin(command), input: writer }
    }

    pub(crate) fn say(&mut self, script: &str) {
        use std::io::Write as _;
        writeln!(self.input, "{script}").expect("psql listens");
    }

    /// Waits until a line was printed.
    #[track_caller]
    pub(crate) fn hears(&mut self, line: &str) {
        self.process.wait_for_stdout(LIMIT, &format!("{line}\n"));
    }

    /// All that it printed, when it has carried out everything.
    #[track_caller]
    pub(crate) fn end(self) -> String {
        let Self { mut process, input } = self;
        drop(input);
        let ended = process.wait_within(LIMIT);
        assert!(ended.status.success(), "psql: {}{}", ended.stdout, ended.stderr);
        ended.stdout
    }
}

/// Who runs the server.
enum Account {
    Own,
    Other { uid: u32, gid: u32 },
}

impl Account {
    fn own() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return Some(Self::Own);
        }
        let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
        let of = |name: &str| {
            let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
            let number = |at| line.split(':').nth(at)?.parse().ok();
            Some(Self::Other { uid: number(2)?, gid: number(3)? })
        };
        found("setpriv")?;
        of("postgres").or_else(|| of("nobody"))
    }

    fn own_folder(&self, folder: &Path) {
        if let Self::Other { uid, gid } = self {
            chown(folder, Some(*uid), Some(*gid)).expect("root may give a folder away");
        }
    }

    fn command(&self, program: &Path) -> Command {
        let Self::Other { uid, gid } = self else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        // What ties a child to its parent is cleared with its rights, so it is tied once more.
        command.args(["--clear-groups", "--pdeathsig=QUIT"]);
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg(program);
        command
    }
}

/// The folder of `initdb` and `postgres`: Debian keeps them off the path. `psql` is on it.
fn programs() -> Option<PathBuf> {
    found("psql")?;
    let mut folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    // The newest first.
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort_by_key(|path| std::cmp::Reverse(version_of(path)));
    folders.extend(versions);
    let both = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|it| folder.join(it).exists());
    folders.into_iter().find(both)
}

fn version_of(bin: &Path) -> Option<u32> {
    bin.parent()?.file_name()?.to_str()?.parse().ok()
}

fn found(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|it| it.exists())
}
