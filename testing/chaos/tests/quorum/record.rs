//! What the workers note, and what it comes to.
//!
//! ```text
//!   notes    one line for each event of a worker: WORKER WHAT REST
//!   tokens   the fencing tokens, in the order in which their holders were inside
//! ```
//! Lines are appended whole, in one write, so nothing is lost when a process is killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use fencelock::Moment;
use fencelock_chaos::boottime_ns;
use fencelock_testkit::witness::Verdict;

/// Where one worker writes.
pub(crate) struct Notes {
    pub(crate) worker: u64,
    path: PathBuf,
}

impl Notes {
    pub(crate) fn of(folder: &Path, worker: u64) -> Self {
        Self { worker, path: notes(folder) }
    }

    pub(crate) fn write(&self, what: &str, rest: &str) {
        append(&self.path, &format!("{} {what} {rest}", self.worker));
    }

    /// To be called when outside again: what came before was within validity, or this says so.
    pub(crate) fn left(&self, until: Moment) {
        if boottime_ns() > until.as_nanos() {
            self.write("late", "");
        }
    }
}

pub(crate) fn note_token(folder: &Path, token: u64) {
    append(&tokens(folder), &token.to_string());
}

/// How many acquires were granted so far.
pub(crate) fn count_granted(folder: &Path) -> usize {
    lines(&notes(folder)).iter().filter(|line| what(line) == "granted").count()
}

/// How many workers were inside.
pub(crate) fn contenders(folder: &Path) -> usize {
    let lines = lines(&notes(folder));
    let entered = lines.iter().filter(|line| what(line) == "entered");
    entered.filter_map(|line| line.split(' ').next()).collect::<BTreeSet<_>>().len()
}

/// Whether a worker is inside, as far as it has noted.
pub(crate) fn is_inside(folder: &Path, worker: u64) -> bool {
    let (lines, begin) = (lines(&notes(folder)), format!("{worker} "));
    let own = lines.iter().rev().filter(|line| line.starts_with(&begin));
    own.map(|line| what(line)).find(|what| ["entered", "leaving"].contains(what)) == Some("entered")
}

/// All that a run left behind.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) verdict: Verdict,
    /// How long each acquire took, granted or not.
    pub(crate) waits: Vec<Duration>,
    pub(crate) fencing_tokens: Vec<u64>,
    /// How often somebody was inside when its validity was over.
    pub(crate) late: usize,
    granted: usize,
    failures: Vec<String>,
    losses: BTreeMap<String, usize>,
    releases: BTreeMap<String, usize>,
}

impl Record {
    pub(crate) fn read(folder: &Path, verdict: Verdict) -> Self {
        let mut record = Self {
            verdict,
            waits: Vec::new(),
            fencing_tokens: Vec::new(),
            late: 0,
            granted: 0,
            failures: Vec::new(),
            losses: BTreeMap::new(),
            releases: BTreeMap::new(),
        };
        let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text}?"));
        for line in lines(&notes(folder)) {
            let mut words = line.splitn(3, ' ').skip(1);
            let (what, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
            match what {
                "granted" => {
                    record.granted += 1;
                    record.waits.push(Duration::from_micros(number(first)));
                }
                "failed" => {
                    record.waits.push(Duration::from_micros(number(first)));
                    record.failures.push(more.to_owned());
                }
                "lost" => *record.losses.entry(rest.to_owned()).or_default() += 1,
                "released" => *record.releases.entry(rest.to_owned()).or_default() += 1,
                "late" => record.late += 1,
                "entered" | "leaving" => {}
                other => panic!("no such note: {other}"),
            }
        }
        record.fencing_tokens = lines(&tokens(folder)).iter().map(|line| number(line)).collect();
        record
    }

    /// How often a fencing token was not larger than that of the holder before.
    pub(crate) fn steps_back(&self) -> usize {
        self.fencing_tokens.windows(2).filter(|pair| pair[0] >= pair[1]).count()
    }

    /// How often a lease was lost for a reason.
    pub(crate) fn lost(&self, reason: &str) -> usize {
        self.losses.get(reason).copied().unwrap_or_default()
    }

    /// Failures that neither a wait that is over nor nodes that are away explain.
    pub(crate) fn strange(&self) -> Vec<&String> {
        let explained = ["WaitExpired", "NoQuorum", "Unavailable", "Unknown"];
        self.failures.iter().filter(|failure| !explained.contains(&kind(failure))).collect()
    }

    /// One line for people.
    pub(crate) fn report(&self, what: &str, killed: usize) {
        let mut waits = self.waits.clone();
        waits.sort();
        let at = |part: usize| waits.get(waits.len() * part / 100).copied().unwrap_or_default();
        let mut failures = BTreeMap::<&str, usize>::new();
        for failure in &self.failures {
            *failures.entry(kind(failure)).or_default() += 1;
        }
        println!(
            "{what}: {} rounds, {} entries, {killed} kills; waits: median {:.0?}, 99 of 100 within \
             {:.0?}, longest {:.0?}; {} overlaps, {} late, {} steps back of the fencing token; \
             losses {:?}, releases {:?}, failures {failures:?}",
            self.granted,
            self.verdict.entries,
            at(50),
            at(99),
            waits.last().copied().unwrap_or_default(),
            self.verdict.overlaps.len(),
            self.late,
            self.steps_back(),
            self.losses,
            self.releases,
        );
    }
}

fn kind(failure: &str) -> &str {
    failure.split(' ').next().unwrap_or_default()
}

fn what(line: &str) -> &str {
    line.split(' ').nth(1).unwrap_or_default()
}

fn notes(folder: &Path) -> PathBuf {
    folder.join("notes")
}

fn tokens(folder: &Path) -> PathBuf {
    folder.join("tokens")
}

/// The lines that are whole.
fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

fn append(path: &Path, line: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.expect("a file").write_all(format!("{line}\n").as_bytes()).expect("it is written");
}
