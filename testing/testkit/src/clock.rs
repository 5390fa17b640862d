//! A server's wall clock that a test moves while the server runs.
//!
//! A small C library (`clock.c`) is compiled with `cc` at first use, kept in the user's cache
//! directory, and preloaded into the server. Only wall clocks move: the server's monotonic clock,
//! and with it the pace of its background work, stays real. (libfaketime was tried first: it
//! hangs redis-server 7.0.)

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use crate::process::eventually;

const SHIM_SOURCE: &str = include_str!("clock.c");

/// The offset of one server's wall clock from that of the machine.
///
/// It survives a restart of the server: the clock belongs to the "machine" it runs on.
#[derive(Debug)]
pub struct ServerClock {
    path: PathBuf,
    file: File,
    /// Nanoseconds; the lock makes a read-and-add one step.
    offset: Mutex<i64>,
    /// A server that looks at its clock only now and then: it is waited for until it has.
    looks_seldom: OnceLock<String>,
}

impl ServerClock {
    /// How often a server looks at its clock that does so in its cron only.
    pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(10);

    /// Creates a clock whose offset is kept in `directory`.
    ///
    /// # Panics
    ///
    /// When its file cannot be written.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        let path = directory.join("clock-offset");
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&path)
            .unwrap_or_else(|e| panic!("cannot create {}: {e}", path.display()));
        let clock = Self { path, file, offset: Mutex::new(0), looks_seldom: OnceLock::new() };
        clock.write(0);
        clock
    }

    /// Makes a command run under this clock.
    ///
    /// # Panics
    ///
    /// When the shim cannot be compiled: it needs `cc`.
    pub fn apply_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", shim()).env("FENCELOCK_CLOCK_FILE", &self.path);
    }

    /// Says that the server at this URL counts on from its last look by its monotonic clock (Valkey 9
    /// looks in its cron only), so that each step waits until it has looked.
    pub(crate) fn looks_seldom(&self, url: String) {
        self.looks_seldom.set(url).expect("said once");
    }

    /// Steps the clock forward; keys whose time to live is passed are gone for the next command.
    ///
    /// # Panics
    ///
    /// When the offset would pass 292 years.
    pub fn advance(&self, by: Duration) {
        self.step(i64::try_from(by.as_nanos()).expect("a step below 292 years"));
    }

    /// Steps the clock back, as an administrator or a bad time server does.
    ///
    /// # Panics
    ///
    /// When the offset would pass 292 years.
    pub fn step_back(&self, by: Duration) {
        self.step(-i64::try_from(by.as_nanos()).expect("a step below 292 years"));
    }

    fn step(&self, nanos: i64) {
        let mut offset = self.offset.lock().expect("no panic under this lock");
        *offset = offset.checked_add(nanos).expect("an offset below 292 years");
        self.write(*offset);
        if let Some(url) = self.looks_seldom.get() {
            if nanos.abs() < SHORTEST_SEEN {
                // No answer tells such a step; a few periods of its cron are enough.
                std::thread::sleep(3 * Self::LOOKS_EVERY);
                return;
            }
            let sees_it = || seen(url, *offset, nanos).unwrap_or(true);
            eventually(LOOKS_WITHIN, "the server looks at its clock", sees_it);
        }
    }

    /// Eight aligned bytes within one page: the server, which maps it, sees old or new, no mix.
    fn write(&self, offset: i64) {
        self.file
            .write_all_at(&offset.to_ne_bytes(), 0)
            .unwrap_or_else(|e| panic!("cannot write {}: {e}", self.path.display()));
    }
}

/// The shortest step in nanoseconds that an answer over loopback tells.
const SHORTEST_SEEN: i64 = 5_000_000;
/// Far more than a period of any server's cron.
const LOOKS_WITHIN: Duration = Duration::from_secs(10);
/// A server that does not answer so soon is down or frozen: it looks when it runs again.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// Whether a server's time has made a step: not sure of it when the answer took as long as the step.
fn seen(url: &str, offset: i64, step: i64) -> redis::RedisResult<bool> {
    let mut connection = redis::Client::open(url)?.get_connection_with_timeout(ANSWERS_WITHIN)?;
    connection.set_read_timeout(Some(ANSWERS_WITHIN))?;
    let now = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let real = since.expect("after 1970").as_nanos();
        i128::try_from(real).expect("not that late") + i128::from(offset)
    };
    let before = now();
    let (seconds, micros): (i128, i128) = redis::cmd("TIME").query(&mut connection)?;
    let after = now();
    let told = seconds * 1_000_000_000 + micros * 1_000;
    let half = i128::from(step.abs()) / 2;
    let is_there = if step > 0 { told > before - half } else { told < after + half };
    Ok(is_there && after - before < half)
}

/// The path of the compiled shim; compiled at most once per process and source text.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        SHIM_SOURCE.hash(&mut hasher);
        std::env::consts::ARCH.hash(&mut hasher);
        let directory = cache_directory();
        let library = directory.join(format!("clock-{:016x}.so", hasher.finish()));
        if !library.exists() {
            compile(&directory, &library);
        }
        library
    })
}

/// Compiles under another name and renames, so that parallel processes see all of it or nothing.
fn compile(directory: &Path, library: &Path) {
    let workshop = tempfile::tempdir_in(directory).expect("a directory to compile in");
    let source = workshop.path().join("clock.c");
    let built = workshop.path().join("clock.so");
    std::fs::write(&source, SHIM_SOURCE).expect("the shim's source is written");
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&built)
        .arg(&source)
        .output()
        .unwrap_or_else(|e| panic!("a server with a movable clock needs the compiler `cc`: {e}"));
    assert!(
        output.status.success(),
        "cc could not compile the clock shim: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::rename(&built, library)
        .unwrap_or_else(|e| panic!("cannot put {} in place: {e}", library.display()));
}

fn cache_directory() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let fallback = std::env::temp_dir().join(format!("fencelock-testkit-{user}"));
    cache
        .map(|cache| cache.join("fencelock-testkit"))
        .into_iter()
        .chain([fallback])
        .find(|path| std::fs::create_dir_all(path).is_ok())
        .expect("the cache directory or the temporary directory can be written")
}
