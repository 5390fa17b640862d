//! The processes of a run: started, killed, frozen, and let come to an end.

use std::{io::PipeWriter, path::Path, process::Command, time::Duration};

use fencelock_chaos::Random;
use fencelock_testkit::{
    Process,
    process::{self, Signal},
};
use tempfile::TempDir;

use crate::{
    notes::{self, Note, Notebook},
    worker::{self, Conduct},
};

const WORKERS: usize = 4;

/// A process that does things.
struct Worker {
    /// No two have the same.
    number: u64,
    process: Process,
    /// It goes on until this is closed.
    input: PipeWriter,
}

/// All of them.
pub(crate) struct Crew {
    url: String,
    workers: Vec<Worker>,
    /// How many were started so far.
    started: u64,
    seed: u64,
    conduct: Conduct,
    folder: TempDir,
    notes: Notebook,
    /// How many were killed so far.
    pub(crate) killed: usize,
    /// How many were frozen so far.
    pub(crate) frozen: usize,
}

impl Crew {
    pub(crate) fn start(url: &str, random: &mut Random, conduct: Conduct) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut crew = Self {
            url: url.to_owned(),
            workers: Vec::new(),
            started: 0,
            seed: random.below(u64::MAX),
            conduct,
            notes: Notebook::open(folder.path()),
            folder,
            killed: 0,
            frozen: 0,
        };
        for _ in 0..WORKERS {
            crew.start_worker();
        }
        crew
    }

    fn start_worker(&mut self) {
        let (input, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["--exact", "worker::worker", "--ignored", "--nocapture", "--test-threads=1"])
            .stdin(input);
        self.started += 1;
        let number = self.started;
        let folder = self.folder.path();
        worker::order(&mut command, &self.url, folder, number, self.seed, self.conduct);
        let process = Process::spawn_with_stdin(command);
        self.workers.push(Worker { number, process, input: writer });
    }

    /// Kills one, wherever it is, and starts another one, which knows nothing of the past.
    pub(crate) fn replace_one(&mut self, random: &mut Random) {
        let worker = self.workers.remove(pick(random));
        worker.assert_alive();
        // Before: what ends with its process may be granted to others from now on.
        self.notes.killed(worker.number);
        process::kill(worker.process.pid());
        self.killed += 1;
        self.start_worker();
    }

    /// Stops one wherever it is, for a while.
    pub(crate) fn freeze_one(&mut self, random: &mut Random, span: Duration) {
        let worker = &self.workers[pick(random)];
        worker.assert_alive();
        process::stop(worker.process.pid());
        std::thread::sleep(span);
        process::send(worker.process.pid(), Signal::CONT);
        self.frozen += 1;
    }

    /// Lets some time go by in which things may happen; nothing depends on it.
    pub(crate) fn pass(&self, span: Duration) {
        self.workers.iter().for_each(Worker::assert_alive);
        std::thread::sleep(span);
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        notes::read(self.folder())
    }

    /// Lets every worker end what it does, which it must within the bound, and says all that was
    /// noted.
    pub(crate) fn finish(&mut self, bound: Duration) -> Vec<Note> {
        let workers: Vec<_> = self
            .workers
            .drain(..)
            .map(|Worker { process, input, .. }| {
                drop(input);
                process
            })
            .collect();
        // All of them are told before the first is waited for: they may need each other.
        for mut process in workers {
            let finished = process.wait_within(bound);
            assert!(finished.status.success(), "{}\n{}", finished.stdout, finished.stderr);
        }
        self.notes()
    }
}

impl Worker {
    fn assert_alive(&self) {
        let Self { process, .. } = self;
        let shown = || format!("{}\n{}", process.stdout(), process.stderr());
        assert!(process::process_exists(process.pid()), "a worker ended: {}", shown());
    }
}

fn pick(random: &mut Random) -> usize {
    let count = u64::try_from(WORKERS).expect("a few");
    usize::try_from(random.below(count)).expect("a few")
}
