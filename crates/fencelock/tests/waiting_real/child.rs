//! A process of the test: started, told what to do, asked what it saw, killed and frozen.

use std::{
    fmt,
    io::{PipeWriter, Write as _},
    process::Command,
    time::Duration,
};

use fencelock_testkit::{
    Process, eventually,
    process::{self, Signal},
};

/// Longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Longer than the pause of a waiter that is not told.
const SILENCE: Duration = Duration::from_millis(400);

/// A running driver.
pub(crate) struct Child {
    process: Process,
    input: PipeWriter,
    asked: usize,
}

/// One line that a driver wrote: `@kind ID NANOSECONDS REST`.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) at: u64,
    pub(crate) rest: String,
}

impl Event {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix('@')?.splitn(4, ' ');
        let (kind, id) = (words.next()?.to_owned(), words.next()?.to_owned());
        let at = words.next()?.parse().ok()?;
        Some(Self { kind, id, at, rest: words.next().unwrap_or_default().to_owned() })
    }

    /// How long after another one.
    pub(crate) fn after(&self, other: &Self) -> Duration {
        Duration::from_nanos(self.at.saturating_sub(other.at))
    }

    /// The fencing token of a grant.
    pub(crate) fn token(&self) -> u64 {
        self.rest.parse().unwrap_or_else(|_| panic!("no fencing token: {self:?}"))
    }
}

impl Child {
    /// A driver for a store, which counts what it asks the store.
    pub(crate) fn start(url: &str) -> Self {
        Self::spawn(url, "counted")
    }

    /// A driver whose client is made as a user makes it.
    pub(crate) fn plain(url: &str) -> Self {
        Self::spawn(url, "plain")
    }

    fn spawn(url: &str, manner: &str) -> Self {
        let (input, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["--exact", "driver::driver", "--ignored", "--nocapture", "--test-threads=1"])
            .env("FENCELOCK_TEST_DRIVER", url)
            .env("FENCELOCK_TEST_MANNER", manner)
            .stdin(input);
        let process = Process::spawn_with_stdin(command);
        let child = Self { process, input: writer, asked: 0 };
        child.wait("ready", "driver");
        child
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn say(&mut self, command: fmt::Arguments<'_>) {
        writeln!(self.input, "{command}").expect("the driver listens");
    }

    /// Begins to wait for a lock: `mode` is default, strict or barging.
    pub(crate) fn lock(&mut self, id: &str, name: &str, mode: &str, ttl: Duration) {
        self.say(format_args!("lock {id} {name} {mode} {}", ttl.as_millis()));
    }

    /// Waits for the lock, which must come.
    #[track_caller]
    pub(crate) fn granted(&self, id: &str) -> Event {
        self.wait("granted", id)
    }

    /// Gives a lock back; what the release said.
    #[track_caller]
    pub(crate) fn release(&mut self, id: &str) -> (Event, Event) {
        self.say(format_args!("release {id}"));
        let released = self.wait("released", id);
        (self.wait("releasing", id), released)
    }

    /// All that was written so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        let text = self.process.stderr();
        // The last line may be on its way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().filter_map(Event::read).collect()
    }

    pub(crate) fn seen(&self, kind: &str, id: &str) -> Option<Event> {
        self.events().into_iter().find(|event| event.kind == kind && event.id == id)
    }

    /// Waits for an event.
    #[track_caller]
    pub(crate) fn wait(&self, kind: &str, id: &str) -> Event {
        let mut found = None;
        eventually(LIMIT, &format!("@{kind} {id} of process {}", self.pid()), || {
            found = self.seen(kind, id);
            assert!(
                found.is_some() || process::process_exists(self.pid()),
                "ended without @{kind} {id}: {}",
                self.process.stderr()
            );
            found.is_some()
        });
        found.expect("it was found")
    }

    /// Asks something that is answered by an event of a number of its own.
    #[track_caller]
    pub(crate) fn ask(&mut self, question: &str, what: &str) -> Event {
        self.asked += 1;
        let number = self.asked;
        self.say(format_args!("{question} {number} {what}"));
        self.wait(question, &number.to_string())
    }

    /// How often it has asked the store for a lock.
    #[track_caller]
    pub(crate) fn questions(&mut self) -> u64 {
        self.ask("questions", "").rest.parse().expect("a number")
    }

    /// Waits until it is told what happens to its place: then it asks no more, but for the first in
    /// line where leases end with processes, which looks for those that have ended.
    #[track_caller]
    pub(crate) fn is_told(&mut self, name: &str) {
        eventually(LIMIT, "it asks no more", || {
            let before = self.questions();
            std::thread::sleep(SILENCE);
            before >= 5 || (before >= 1 && self.questions() == before)
        });
        // Answered behind the last of them.
        self.waiting(name);
    }

    /// How many wait for a lock at the store, as it is told there.
    #[track_caller]
    pub(crate) fn waiting(&mut self, name: &str) -> u64 {
        self.ask("waiting", name).rest.parse().expect("a number")
    }

    /// Whether it counts on a lock.
    #[track_caller]
    pub(crate) fn is_valid(&mut self, id: &str) -> bool {
        self.ask("valid", id).rest == "true"
    }

    pub(crate) fn kill(&self) {
        process::kill(self.pid());
    }

    pub(crate) fn freeze(&self) {
        process::stop(self.pid());
    }

    pub(crate) fn thaw(&self) {
        process::send(self.pid(), Signal::CONT);
    }

    pub(crate) fn shown(&self) -> String {
        self.process.stderr()
    }
}
