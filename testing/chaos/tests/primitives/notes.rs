//! What happened, as those say who did it: one line for each event, with its moment on the clock that
//! all processes have in common.
//!
//! ```text
//!   grant ID NAME WAY NUMBER ASKED FROM UNTIL BOUND   somebody holds a name
//!   until ID MOMENT                                   its validity lasts longer now
//!   end ID MOMENT VALID                               it is given back, or was lost before
//!   killed WORKER MOMENT                              all that this process does is over
//!   closed WORKER MOMENT                              and what it forgot is given back, too
//! ```
//! Lines are appended in one write, so nothing is lost when a process is killed; the last thing that
//! it knew may be missing. An ID has the number of its worker in it.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use fencelock_chaos::boottime_ns;

/// How a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// A mutex, a writer.
    Alone,
    /// A reader.
    Shared,
    /// A hold of an owner.
    Owned(u8),
    /// Permits.
    Permits { permits: u32, limit: u32 },
}

impl Way {
    fn write(self) -> String {
        match self {
            Self::Alone => "alone".to_owned(),
            Self::Shared => "shared".to_owned(),
            Self::Owned(owner) => format!("owned:{owner}"),
            Self::Permits { permits, limit } => format!("permits:{permits}:{limit}"),
        }
    }

    fn read(text: &str) -> Self {
        let mut words = text.split(':');
        let what = words.next().expect("a split has a first part");
        let mut next = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        match what {
            "alone" => Self::Alone,
            "shared" => Self::Shared,
            "owned" => Self::Owned(u8::try_from(next()).expect("a few owners")),
            "permits" => Self::Permits { permits: next(), limit: next() },
            other => panic!("no such way: {other}"),
        }
    }
}

/// One event. Moments are nanoseconds since the boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Somebody holds a name.
    Grant(Grant),
    /// Validity lasts longer.
    Until { id: u64, until: u64 },
    /// A hold is over: `valid` says whether its validity lasted until then.
    End { id: u64, at: u64, valid: bool },
    /// The lease stays, without its process.
    Left { id: u64 },
    /// The process was about to be killed.
    Killed { worker: u64, at: u64 },
    /// The process is about to close its client, which gives back what was forgotten.
    Closed { worker: u64, at: u64 },
    /// Somebody is about to take a step of a latch.
    Step { latch: String, step: u64, at: u64 },
    /// A latch was found open.
    Open { latch: String, count: usize, at: u64 },
    /// Somebody is about to wait at a barrier.
    Party { barrier: String, id: u64, at: u64 },
    /// Somebody passed it.
    Pass(Pass),
    /// The store said that a lease is over, at a moment at which it was to last until another.
    Broken { id: u64, at: u64, until: u64, why: String },
    /// Something went wrong in a way that has to be explained.
    Failed { what: String, kind: String, text: String },
}

/// Somebody holds a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) way: Way,
    /// The fencing token, or what stands for it; 0 where it is not told.
    pub(crate) number: u64,
    /// Before it was asked for.
    pub(crate) asked: u64,
    /// When it was known to be granted.
    pub(crate) from: u64,
    /// When its validity ends, as far as known.
    pub(crate) until: u64,
    /// Whether it ends with its process.
    pub(crate) bound: bool,
}

/// Somebody passed a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) barrier: String,
    pub(crate) parties: usize,
    /// The number of the meeting.
    pub(crate) number: u64,
    pub(crate) leads: bool,
    pub(crate) at: u64,
}

impl Note {
    fn line(&self) -> String {
        match self {
            Self::Grant(Grant { id, name, way, number, asked, from, until, bound }) => {
                let way = way.write();
                format!("grant {id} {name} {way} {number} {asked} {from} {until} {bound}\n")
            }
            Self::Until { id, until } => format!("until {id} {until}\n"),
            Self::End { id, at, valid } => format!("end {id} {at} {valid}\n"),
            Self::Left { id } => format!("left {id}\n"),
            Self::Killed { worker, at } => format!("killed {worker} {at}\n"),
            Self::Closed { worker, at } => format!("closed {worker} {at}\n"),
            Self::Step { latch, step, at } => format!("step {latch} {step} {at}\n"),
            Self::Open { latch, count, at } => format!("open {latch} {count} {at}\n"),
            Self::Party { barrier, id, at } => format!("party {barrier} {id} {at}\n"),
            Self::Pass(Pass { barrier, parties, number, leads, at }) => {
                format!("pass {barrier} {parties} {number} {leads} {at}\n")
            }
            Self::Broken { id, at, until, why } => format!("broken {id} {at} {until} {why}\n"),
            Self::Failed { what, kind, text } => {
                format!("failed {what} {kind} {}\n", text.replace('\n', " "))
            }
        }
    }

    fn read(line: &str) -> Self {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default();
        let mut word = || words.next().unwrap_or_else(|| panic!("too short: {line}"));
        match what {
            "grant" => Self::Grant(Grant {
                id: number(word()),
                name: word().to_owned(),
                way: Way::read(word()),
                number: number(word()),
                asked: number(word()),
                from: number(word()),
                until: number(word()),
                bound: word() == "true",
            }),
            "until" => Self::Until { id: number(word()), until: number(word()) },
            "end" => Self::End { id: number(word()), at: number(word()), valid: word() == "true" },
            "left" => Self::Left { id: number(word()) },
            "killed" => Self::Killed { worker: number(word()), at: number(word()) },
            "closed" => Self::Closed { worker: number(word()), at: number(word()) },
            "step" => {
                Self::Step { latch: word().to_owned(), step: number(word()), at: number(word()) }
            }
            "open" => {
                Self::Open { latch: word().to_owned(), count: size(word()), at: number(word()) }
            }
            "party" => {
                Self::Party { barrier: word().to_owned(), id: number(word()), at: number(word()) }
            }
            "pass" => Self::Pass(Pass {
                barrier: word().to_owned(),
                parties: size(word()),
                number: number(word()),
                leads: word() == "true",
                at: number(word()),
            }),
            "broken" => Self::Broken {
                id: number(word()),
                at: number(word()),
                until: number(word()),
                why: words.collect::<Vec<_>>().join(" "),
            },
            "failed" => Self::Failed {
                what: word().to_owned(),
                kind: word().to_owned(),
                text: words.collect::<Vec<_>>().join(" "),
            },
            other => panic!("no such note: {other}"),
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

fn size(word: &str) -> usize {
    usize::try_from(number(word)).expect("a few")
}

/// Where notes are written.
#[derive(Debug)]
pub(crate) struct Notebook(File);

impl Notebook {
    pub(crate) fn open(folder: &Path) -> Self {
        let file = File::options().create(true).append(true).open(path(folder));
        Self(file.expect("a file"))
    }

    /// In one piece.
    pub(crate) fn write(&self, notes: &[Note]) {
        let text: String = notes.iter().map(Note::line).collect();
        (&self.0).write_all(text.as_bytes()).expect("it is written");
    }

    pub(crate) fn killed(&self, worker: u64) {
        self.write(&[Note::Killed { worker, at: boottime_ns() }]);
    }

    pub(crate) fn closed(&self, worker: u64) {
        self.write(&[Note::Closed { worker, at: boottime_ns() }]);
    }
}

/// All that was noted so far.
pub(crate) fn read(folder: &Path) -> Vec<Note> {
    let text = std::fs::read_to_string(path(folder)).unwrap_or_default();
    // The last line may be on its way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(Note::read).collect()
}

fn path(folder: &Path) -> PathBuf {
    folder.join("notes")
}

/// So many bits of an ID are not the worker's.
const WORKER_SHIFT: u32 = 40;

/// The first ID of a task of a worker.
pub(crate) const fn first_id(worker: u64, task: u64) -> u64 {
    (worker << WORKER_SHIFT) | (task << (WORKER_SHIFT - 8))
}

/// The first ID of the task that an ID is of.
pub(crate) const fn first_of(id: u64) -> u64 {
    id & !((1 << (WORKER_SHIFT - 8)) - 1)
}

/// Whose an ID is.
pub(crate) const fn worker_of(id: u64) -> u64 {
    id >> WORKER_SHIFT
}

#[test]
fn a_note_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let grant = Grant {
        id: first_id(3, 2) + 1,
        name: "lock-0".to_owned(),
        way: Way::Permits { permits: 2, limit: 5 },
        number: 17,
        asked: 1,
        from: 2,
        until: 3,
        bound: true,
    };
    let text = |text: &str| text.to_owned();
    let pass = Pass { barrier: text("b"), parties: 3, number: 8, leads: true, at: 9 };
    let notes = vec![
        Note::Grant(grant.clone()),
        Note::Grant(Grant { way: Way::Owned(1), bound: false, ..grant.clone() }),
        Note::Until { id: 1, until: 5 },
        Note::End { id: 1, at: 6, valid: true },
        Note::Left { id: 1 },
        Note::Killed { worker: 3, at: 7 },
        Note::Closed { worker: 4, at: 7 },
        Note::Step { latch: text("l"), step: 4, at: 8 },
        Note::Open { latch: text("l"), count: 2, at: 9 },
        Note::Party { barrier: text("b"), id: 5, at: 8 },
        Note::Pass(pass),
        Note::Broken { id: 1, at: 2, until: 3, why: text("it is Taken") },
        Note::Failed { what: text("read"), kind: text("Lost"), text: text("it was lost") },
    ];
    Notebook::open(folder.path()).write(&notes);
    assert_eq!(read(folder.path()), notes);
    assert_eq!(worker_of(grant.id), 3);
}
