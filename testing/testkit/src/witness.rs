//! A witness of mutual exclusion that knows nothing of lock stores.
//!
//! Whoever believes to hold the lock enters the witness. It keeps three files in a directory:
//!
//! ```text
//! lock      held with a non-blocking flock(2) while inside; a refusal is an overlap
//! log       `begin ID BOOTTIME_NS` after the flock, `end ID BOOTTIME_NS` before its release
//! OVERLAP   one line for each refusal
//! ```
//!
//! The flock is exact, because the kernel drops it only with the last copy of its descriptor:
//! children inherit it, so a body that outlives its killed parent still holds it. The log says
//! who was inside in which order; lines are appended whole, so their order is the order of
//! events, and the times are for readers only (a shell knows hundredths of a second). A killed
//! process leaves a `begin` without `end`; that alone is no overlap, the flock tells.
//!
//! A process that was sent SIGKILL holds the flock until it has really ended, so whoever kills a
//! group must see it gone before the lock may pass on, else the witness will rightly object.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// The exit status of a witnessed command that found another one inside.
pub const OVERLAP_EXIT: i32 = 99;

const SCRIPT: &str = include_str!("witness.sh");

/// A place where at most one may be.
#[derive(Debug, Clone)]
pub struct Witness {
    directory: PathBuf,
}

/// Being inside; ends with the value.
#[derive(Debug)]
#[must_use = "dropping the value is leaving"]
pub struct Inside {
    witness: Witness,
    lock: File,
    id: String,
}

/// Somebody else was inside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlap {
    /// Who was refused.
    pub id: String,
}

/// What the files say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// How many got inside.
    pub entries: usize,
    /// Who got inside and never said that it left: killed, or still there.
    pub unfinished: Vec<String>,
    /// One sentence for each overlap.
    pub overlaps: Vec<String>,
}

impl Witness {
    /// Uses a directory, which must exist; the same one for all who compete.
    ///
    /// # Panics
    ///
    /// When the directory cannot be written.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        let witness = Self { directory: directory.to_owned() };
        std::fs::write(witness.script(), SCRIPT)
            .unwrap_or_else(|e| panic!("cannot write to {}: {e}", directory.display()));
        witness
    }

    /// Enters; the `id` is made unique, so one may be used many times.
    ///
    /// # Errors
    ///
    /// When somebody else is inside; that is recorded for [`check`] too.
    ///
    /// # Panics
    ///
    /// When the files cannot be written, or the `id` is empty or has white space.
    pub fn enter(&self, id: &str) -> Result<Inside, Overlap> {
        static ENTRIES: AtomicU64 = AtomicU64::new(0);
        assert!(!id.is_empty() && !id.contains(char::is_whitespace), "not an id: {id:?}");
        let entry = ENTRIES.fetch_add(1, Ordering::Relaxed);
        let id = format!("{id}.{}.{entry}", std::process::id());
        let lock = append(&self.directory.join("lock"));
        if lock.try_lock().is_err() {
            write_line(&self.directory.join("OVERLAP"), &format!("{id} {}", boottime_ns()));
            return Err(Overlap { id });
        }
        write_line(&self.directory.join("log"), &format!("begin {id} {}", boottime_ns()));
        Ok(Inside { witness: self.clone(), lock, id })
    }

    /// The words to put before a command so that it, and all it starts, runs inside.
    ///
    /// The command's exit status is passed on; [`OVERLAP_EXIT`] means that somebody else was
    /// inside and the command was not run.
    ///
    /// # Panics
    ///
    /// When the `id` is empty or has white space, or the directory is no UTF-8.
    #[must_use]
    pub fn argv(&self, id: &str) -> Vec<String> {
        assert!(!id.is_empty() && !id.contains(char::is_whitespace), "not an id: {id:?}");
        let text = |path: &Path| path.to_str().expect("a directory in UTF-8").to_owned();
        // By way of `sh`, not as a program: a file just written cannot always be executed.
        vec!["sh".to_owned(), text(&self.script()), text(&self.directory), id.to_owned()]
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether somebody is inside now.
    ///
    /// It looks by taking the flock for an instant, so ask only while nobody is about to enter:
    /// who comes in that instant is refused.
    ///
    /// # Panics
    ///
    /// When the lock file cannot be opened.
    #[must_use]
    pub fn is_occupied(&self) -> bool {
        // Shared: two that look at once must not take each other for somebody inside.
        let lock = append(&self.directory.join("lock"));
        let free = lock.try_lock_shared().is_ok();
        let _ = lock.unlock();
        !free
    }

    /// See [`check`].
    ///
    /// # Panics
    ///
    /// As [`check`].
    #[must_use]
    pub fn check(&self) -> Verdict {
        check(&self.directory)
    }

    fn script(&self) -> PathBuf {
        self.directory.join("inside.sh")
    }
}

impl Inside {
    /// The unique id of this entry.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let line = format!("end {} {}", self.id, boottime_ns());
        write_line(&self.witness.directory.join("log"), &line);
        // Explicitly: a child that another thread is just forking may still share the descriptor.
        let _ = self.lock.unlock();
    }
}

impl Verdict {
    /// Panics with all overlaps if there are any, and when nobody ever got inside: such a run
    /// has proved nothing.
    ///
    /// # Panics
    ///
    /// That is its purpose.
    #[track_caller]
    pub fn assert_exclusive(&self) {
        assert!(self.overlaps.is_empty(), "two were inside at once: {:#?}", self.overlaps);
        assert!(self.entries > 0, "nobody was ever inside");
    }
}

/// Reads what happened in a witness directory.
///
/// An overlap is a refused flock, or an entry that began between the `begin` and the `end` of
/// another one (which a working flock makes impossible; it guards against a broken witness).
///
/// # Panics
///
/// When the files cannot be read, or the log is not one.
#[must_use]
pub fn check(directory: &Path) -> Verdict {
    let refused = read(&directory.join("OVERLAP"));
    let mut overlaps: Vec<String> =
        refused.lines().map(|line| format!("refused: {line}")).collect();
    let log = read(&directory.join("log"));
    let events: Vec<(&str, &str)> = log.lines().map(parse).collect();
    let ended: BTreeSet<&str> =
        events.iter().filter(|(verb, _)| *verb == "end").map(|(_, id)| *id).collect();
    let mut entries = 0;
    let mut unfinished = Vec::new();
    let mut inside: BTreeSet<&str> = BTreeSet::new();
    for (verb, id) in events {
        if verb == "end" {
            assert!(inside.remove(id), "the log has an end without a begin: {id}");
            continue;
        }
        entries += 1;
        if !ended.contains(id) {
            unfinished.push(id.to_owned());
        }
        overlaps.extend(
            inside
                .iter()
                .filter(|other| ended.contains(*other))
                .map(|other| format!("{id} began while {other} was inside")),
        );
        inside.insert(id);
    }
    Verdict { entries, unfinished, overlaps }
}

fn parse(line: &str) -> (&str, &str) {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        [verb @ ("begin" | "end"), id, time] if time.parse::<u64>().is_ok() => (verb, id),
        _ => panic!("not a line of a witness log: {line:?}"),
    }
}

fn read(path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        Err(e) => panic!("cannot read {}: {e}", path.display()),
    }
}

fn append(path: &Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|e| panic!("cannot open {}: {e}", path.display()))
}

/// In one write, so that lines of several processes do not mix.
fn write_line(path: &Path, line: &str) {
    append(path)
        .write_all(format!("{line}\n").as_bytes())
        .unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).expect("the time since the boot is not negative");
    let nanos = u64::try_from(now.tv_nsec).expect("nor is its fraction");
    seconds * 1_000_000_000 + nanos
}
