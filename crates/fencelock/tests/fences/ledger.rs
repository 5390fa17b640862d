//! The witness: an append-only file of what was asked and what was got, and its verdict.
//!
//! ```text
//!   ask ID NAME          before anything is sent
//!   got ID NAME TOKEN    after the grant was answered
//! ```
//! A line is one write to a file that is open for appending, so the order of the lines is an order
//! in real time: if a `got` stands above an `ask`, that grant was answered before that question was
//! asked. The protocol promises (rule R) that the later one then has the larger token, and (rule U)
//! that no two have the same. Where exclusion holds as well, who is inside writes its `got`, so
//! the `got` lines are in the order of the grants.
//!
//! A process that a lease is passed on in does not ask the store. When the store has forgotten the
//! lease, and the process does not know yet, it goes on with the tokens of its range, below those of
//! the next holder: its grants are part of the old lease. From outside such a token is known by the
//! one before it, which the same process got ([`Order::Leases`]).

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

/// What the lines are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A grant that was answered before another was asked for has a smaller token, unless the other
    /// was passed on inside its process, with a lease that the store may have forgotten.
    Leases,
    /// A grant that was answered before another was asked for has a smaller token.
    RealTime,
    /// Besides, each `got` of a name is above the one before it: where exclusion holds.
    Strict,
}

/// The file, as one process writes it.
pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &Path) -> Self {
        Self(OpenOptions::new().append(true).create(true).open(path).expect("the ledger opens"))
    }

    pub(crate) fn ask(&self, id: &str, name: &str) {
        self.write(&format!("ask {id} {name}\n"));
    }

    pub(crate) fn got(&self, id: &str, name: &str, token: u64) {
        self.write(&format!("got {id} {name} {token}\n"));
    }

    fn write(&self, line: &str) {
        let written = (&self.0).write(line.as_bytes()).expect("the ledger can be written");
        assert_eq!(written, line.len(), "a line is one write");
    }
}

/// The file, as the test reads it while it grows.
pub(crate) struct Reader {
    path: PathBuf,
    file: File,
    text: String,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::open(path).expect("the ledger is there");
        Self { path: path.to_owned(), file, text: String::new() }
    }

    /// How many grants there are so far.
    pub(crate) fn grants(&mut self) -> u64 {
        self.file.read_to_string(&mut self.text).expect("the ledger is text");
        self.text.lines().filter(|line| line.starts_with("got ")).count() as u64
    }

    /// What all of it says.
    pub(crate) fn verdict(mut self, order: Order) -> Verdict {
        self.grants();
        assert!(self.text.ends_with('\n'), "{} ends in a line", self.path.display());
        check(&self.text, order)
    }
}

/// What the ledger says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) grants: u64,
    /// Grants whose question came after another grant of the name: what rule R speaks of.
    pub(crate) compared: u64,
    /// Grants below another one, out of leases that the store had forgotten.
    pub(crate) outlived: u64,
    /// Grants of the same name that were answered between the question and its answer, at most.
    pub(crate) overlapping_max: u64,
    pub(crate) violations: Vec<String>,
}

/// How many tokens between two of a lease may be nobody's: those that were passed to tasks which gave
/// up at that moment. No process has more tasks for a name.
const GIVEN_UP_MAX: u64 = 4;

#[derive(Default)]
struct Name<'a> {
    highest: u64,
    last: u64,
    grants: u64,
    /// And which process got it.
    tokens: HashMap<u64, &'a str>,
}

/// What stood in the ledger when somebody asked.
struct Asked {
    highest: u64,
    grants: u64,
}

/// Goes through the lines once.
pub(crate) fn check(text: &str, order: Order) -> Verdict {
    let mut verdict = Verdict::default();
    let mut names: HashMap<&str, Name<'_>> = HashMap::new();
    let mut asked: HashMap<&str, Asked> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["ask", id, name] => {
                let name = names.entry(name).or_default();
                asked.insert(id, Asked { highest: name.highest, grants: name.grants });
            }
            ["got", id, name, token] => {
                let token: u64 = token.parse().expect("a token");
                let before = asked.remove(id).expect("it was asked for");
                let name = names.entry(name).or_default();
                verdict.grants += 1;
                verdict.compared += u64::from(before.highest > 0);
                let overlapping = name.grants - before.grants;
                verdict.overlapping_max = verdict.overlapping_max.max(overlapping);
                let process = id.split('.').next().expect("an id");
                let passed_on = (token.saturating_sub(GIVEN_UP_MAX)..token)
                    .any(|before| name.tokens.get(&before) == Some(&process));
                if order == Order::Leases && token <= before.highest && passed_on {
                    verdict.outlived += 1;
                } else if token <= before.highest {
                    let what = format!("{line}: {} was answered before it asked", before.highest);
                    verdict.violations.push(what);
                } else if order == Order::Strict && token <= name.last {
                    verdict.violations.push(format!("{line}: right behind {}", name.last));
                }
                if name.tokens.insert(token, process).is_some() {
                    verdict.violations.push(format!("{line}: for the second time"));
                }
                name.highest = name.highest.max(token);
                name.last = token;
                name.grants += 1;
            }
            _ => panic!("no line of a ledger: {line:?}"),
        }
    }
    verdict
}

#[test]
fn the_witness_finds_what_it_looks_for() {
    let verdict = |text: &str, order| check(text, order).violations.len();
    let both = |text: &str| (verdict(text, Order::RealTime), verdict(text, Order::Strict));
    // One after the other.
    assert_eq!(both("ask 1 a\ngot 1 a 10\nask 2 a\ngot 2 a 11\n"), (0, 0));
    // A counter that began anew; and the same number twice, one after the other and at once.
    assert_eq!(both("ask 1 a\ngot 1 a 10\nask 2 a\ngot 2 a 1\n"), (1, 1));
    assert_eq!(both("ask 1 a\ngot 1 a 10\nask 2 a\ngot 2 a 10\n"), (2, 2));
    assert_eq!(both("ask 1 a\nask 2 a\ngot 1 a 10\ngot 2 a 10\n"), (1, 2));
    // Two that asked before either was answered: their order is known only if they exclude.
    assert_eq!(both("ask 1 a\nask 2 a\ngot 1 a 10\ngot 2 a 9\n"), (0, 1));
    // A third is compared with the larger one, though the smaller was written last.
    assert_eq!(both("ask 1 a\nask 2 a\ngot 1 a 10\ngot 2 a 8\nask 3 a\ngot 3 a 9\n"), (1, 2));
    // What a process passes on out of a lease that is over counts as that lease; nothing else does.
    let leases = |text: &str| (verdict(text, Order::RealTime), verdict(text, Order::Leases));
    let lease = "ask p.1 a\ngot p.1 a 10\nask q.1 a\ngot q.1 a 90\n";
    assert_eq!(leases(&format!("{lease}ask p.2 a\ngot p.2 a 11\n")), (1, 0));
    assert_eq!(leases(&format!("{lease}ask p.2 a\ngot p.2 a 20\n")), (1, 1));
    assert_eq!(leases(&format!("{lease}ask q.2 a\ngot q.2 a 11\n")), (1, 1));
    // Names have nothing to do with each other, and who gets nothing counts for nothing.
    assert_eq!(both("ask 1 a\nask 2 b\ngot 1 a 10\nask 3 b\ngot 2 b 9\n"), (0, 0));
    let counted = check("ask 1 a\ngot 1 a 10\nask 2 a\ngot 2 a 11\n", Order::RealTime);
    assert_eq!((counted.grants, counted.compared, counted.overlapping_max), (2, 1, 0));
}
