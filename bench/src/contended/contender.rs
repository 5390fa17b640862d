//! The driver's side of the contended benchmark: what a process full of contenders is told, when
//! it starts and ends, and what it writes down.
//!
//! ```text
//! harness                                driver
//!   starts it with the arguments  ->     connects
//!                                 <-     ready
//!   start and end, CLOCK_MONOTONIC ->    contends from start to end, in silence
//!                                 <-     grant OWNER CALLED ACQUIRED RELEASING RELEASED (ns), ...
//!                                 <-     failed N
//! ```
//!
//! The drivers in other languages do the same. Nothing is printed while it is measured. This file
//! is also compiled into the drivers of the Rust peers, so it needs nothing but rustix.

use std::{
    fmt::Write as _,
    io::{BufRead as _, Write as _},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// What a driver is started with: URL NAME CONTENDERS SECTION_US TTL_MS SETTING FIRST_OWNER.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The server.
    pub url: String,
    /// The lock.
    pub name: String,
    /// How many contend in this process.
    pub contenders: u32,
    /// How long a holder works before it releases.
    pub section: Duration,
    /// The lease.
    pub ttl: Duration,
    /// Which of the peer's settings.
    pub setting: String,
    /// The number of this process's first contender; numbers are unique over all processes.
    pub first_owner: u32,
}

impl Arguments {
    /// Reads the command line.
    ///
    /// # Panics
    /// When it is not what the harness passes.
    #[must_use]
    pub fn read() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [url, name, contenders, section, ttl, setting, first_owner] = &arguments[..] else {
            panic!("usage: URL NAME CONTENDERS SECTION_US TTL_MS SETTING FIRST_OWNER");
        };
        Self {
            url: url.clone(),
            name: name.clone(),
            contenders: contenders.parse().expect("CONTENDERS is a number"),
            section: Duration::from_micros(section.parse().expect("SECTION_US is a number")),
            ttl: Duration::from_millis(ttl.parse().expect("TTL_MS is a number")),
            setting: setting.clone(),
            first_owner: first_owner.parse().expect("FIRST_OWNER is a number"),
        }
    }

    /// A number for each contender of this process.
    #[must_use]
    pub fn owners(&self) -> std::ops::Range<u32> {
        self.first_owner..self.first_owner + self.contenders
    }
}

/// From when to when contenders call for the lock.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// In nanoseconds of CLOCK_MONOTONIC.
    pub start: u64,
    /// The same; who waits then still gets its turn.
    pub end: u64,
}

impl Span {
    /// Says that this process is ready and learns when to start.
    ///
    /// # Panics
    /// When the harness is gone.
    #[must_use]
    pub fn agree() -> Self {
        println!("ready");
        std::io::stdout().flush().expect("the harness listens");
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).expect("the harness answers");
        let mut numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
        let (start, end) = (numbers.next(), numbers.next());
        Self { start: start.expect("a start"), end: end.expect("an end") }
    }

    /// How long it is until the start.
    #[must_use]
    pub fn until_start(&self) -> Duration {
        Duration::from_nanos(self.start.saturating_sub(now()))
    }
}

/// One grant of the lock, in nanoseconds of CLOCK_MONOTONIC, which all processes share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Who got it.
    pub owner: u32,
    /// Just before acquire was called.
    pub called: u64,
    /// Just after it had returned.
    pub acquired: u64,
    /// Just before release was called.
    pub releasing: u64,
    /// Just after it had returned.
    pub released: u64,
}

/// What one contender writes down.
#[derive(Debug)]
pub struct Record {
    span: Span,
    current: Grant,
    grants: Vec<Grant>,
    failed: u64,
}

impl Record {
    /// An empty one.
    #[must_use]
    pub fn new(owner: u32, span: Span) -> Self {
        let current = Grant { owner, ..Grant::default() };
        Self { span, current, grants: Vec::new(), failed: 0 }
    }

    /// Before a call for the lock; no when it is time to stop.
    pub fn call(&mut self) -> bool {
        self.current.called = now();
        self.current.called < self.span.end
    }

    /// The peer gave up or failed and will be called again: the wait goes on.
    pub fn failed(&mut self) {
        self.failed += 1;
    }

    /// The lock is ours.
    pub fn acquired(&mut self) {
        self.current.acquired = now();
    }

    /// It is about to be released.
    pub fn releasing(&mut self) {
        self.current.releasing = now();
    }

    /// It is released.
    pub fn released(&mut self) {
        self.current.released = now();
        self.grants.push(self.current);
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
///
/// # Panics
/// When the clock is before the machine's start.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).expect("the clock counts from the start");
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Tells the harness everything.
///
/// # Panics
/// When it is gone.
pub fn tell(records: &[Record]) {
    let mut text = String::new();
    let mut failed = 0;
    for record in records {
        failed += record.failed;
        for Grant { owner, called, acquired, releasing, released } in &record.grants {
            writeln!(text, "grant {owner} {called} {acquired} {releasing} {released}")
                .expect("a string takes it");
        }
    }
    writeln!(text, "failed {failed}").expect("a string takes it");
    std::io::stdout().write_all(text.as_bytes()).expect("the harness listens");
}
