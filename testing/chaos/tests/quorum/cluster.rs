//! Five servers, the four processes that contend on them, and what is done to the servers.

use std::{
    io::PipeWriter,
    process::Command,
    time::{Duration, Instant},
};

use fencelock::{Client, IfUsed, Initialised};
use fencelock_chaos::Random;
use fencelock_testkit::{Persistence, Process, RedisServer, Witness, process};
use tempfile::TempDir;

use crate::{
    record::{self, Record},
    until,
    worker::{self, Orders},
};

pub(crate) const NODES: usize = 5;
const WORKERS: u64 = 4;

/// Rounds before the first kill: each client then knows the life that each node has.
const WARM: usize = 12;

/// A process that contends.
struct Worker {
    /// No two have the same.
    number: u64,
    process: Process,
    /// It goes on until this is closed.
    input: PipeWriter,
}

/// The nodes and who contends on them.
pub(crate) struct Cluster {
    servers: Vec<RedisServer>,
    /// When each was last started again.
    restarted: [Option<Instant>; NODES],
    workers: Vec<Worker>,
    orders: Orders,
    /// How many workers were started so far.
    started: u64,
    folder: TempDir,
    witness: Witness,
    /// How many servers were killed so far.
    pub(crate) killed: usize,
}

impl Cluster {
    /// Starts the servers and the workers.
    pub(crate) fn start(persistence: Persistence, orders: Orders) -> Self {
        let server = |_| RedisServer::builder().persistence(persistence).start();
        let folder = tempfile::tempdir().expect("a folder");
        let mut cluster = Self {
            servers: (0..NODES).map(server).collect(),
            restarted: [None; NODES],
            workers: Vec::new(),
            orders,
            started: 0,
            witness: Witness::in_directory(folder.path()),
            folder,
            killed: 0,
        };
        cluster.say_that_they_are_new();
        for _ in 0..WORKERS {
            cluster.start_worker();
        }
        cluster.until_warm();
        cluster
    }

    /// Else none of them would count at first.
    fn say_that_they_are_new(&self) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("a runtime");
        for server in &self.servers {
            let new = Client::builder(server.url()).initialise(worker::TTL, IfUsed::Refuse);
            let new = runtime.block_on(new).expect("it answers");
            assert!(matches!(new, Initialised::Written { .. }), "{new:?}");
        }
    }

    fn start_worker(&mut self) {
        let urls: Vec<_> = self.servers.iter().map(RedisServer::url).collect();
        let (input, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["--exact", "worker::worker", "--ignored", "--nocapture", "--test-threads=1"])
            .stdin(input);
        let number = self.started;
        self.orders.write(&mut command, &urls, self.folder.path(), number);
        let process = Process::spawn_with_stdin(command);
        self.workers.push(Worker { number, process, input: writer });
        self.started += 1;
    }

    /// Kills a worker, wherever it is, and starts another one, which knows nothing of the past.
    pub(crate) fn replace_worker(&mut self, random: &mut Random) {
        let at = random.below(WORKERS);
        let worker = self.workers.remove(usize::try_from(at).expect("a few"));
        process::kill(worker.process.pid());
        self.start_worker();
    }

    /// How many acquires were granted so far.
    pub(crate) fn rounds(&self) -> usize {
        record::count_granted(self.folder.path())
    }

    pub(crate) fn overlaps(&self) -> usize {
        self.witness.check().overlaps.len()
    }

    /// Waits until every worker has had the lock, so that each knows the nodes as they are now.
    fn until_warm(&mut self) {
        let folder = self.folder.path();
        until("each worker was inside", || {
            for worker in &mut self.workers {
                let ended = worker.process.exited();
                assert_eq!(ended, None, "a worker ended: {}", worker.process.stderr());
            }
            record::count_granted(folder) >= WARM
                && record::contenders(folder) == self.workers.len()
        });
    }

    pub(crate) fn until_somebody_is_inside(&self) {
        // By their notes: to look at the witness's lock could be in the way of who enters.
        until("somebody is inside", || {
            let inside = |worker: &Worker| record::is_inside(self.folder.path(), worker.number);
            self.workers.iter().any(inside)
        });
    }

    /// Waits until so many nodes have been up for a quarantine or longer, at most so many as there
    /// are; how many more may be restarted while a majority goes on being counted.
    pub(crate) fn until_counted(&self, quarantine: Duration, least: usize) -> usize {
        // A node says how long it has been up in whole seconds; and a client that saw a new life
        // counts from then, which for a busy one is at once.
        let span = quarantine + Duration::from_millis(1_500);
        let counted = || {
            let over = |at: &Option<Instant>| at.is_none_or(|at| at.elapsed() > span);
            self.restarted.iter().filter(|at| over(at)).count()
        };
        until("nodes count again", || counted() >= least);
        counted() - (NODES / 2 + 1)
    }

    /// One or two nodes, at most so many.
    pub(crate) fn draw(&self, random: &mut Random, most: usize) -> Vec<usize> {
        let count = 1 + usize::try_from(random.below(2)).expect("a few");
        self.draw_exactly(random, count.min(most))
    }

    /// So many different nodes; those that were up the longest are not preferred.
    pub(crate) fn draw_exactly(&self, random: &mut Random, count: usize) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..NODES).collect();
        for at in 0..count {
            let left = u64::try_from(NODES - at).expect("a few");
            nodes.swap(at, at + usize::try_from(random.below(left)).expect("a few"));
        }
        nodes.truncate(count);
        nodes
    }

    /// Kills some at once, and starts them again after a while.
    pub(crate) fn bounce(&mut self, nodes: &[usize], down_for: Duration) {
        for node in nodes {
            self.servers[*node].kill();
            self.killed += 1;
        }
        self.pass(down_for);
        for node in nodes {
            self.servers[*node].restart();
            self.restarted[*node] = Some(Instant::now());
        }
    }

    /// Kills three of the five, one after the other: never is more than one down, but a majority
    /// has forgotten what it knew.
    pub(crate) fn bounce_majority(&mut self, random: &mut Random) {
        for victim in self.draw_exactly(random, NODES / 2 + 1) {
            self.bounce(&[victim], Duration::ZERO);
        }
    }

    /// Lets some time go by in which things may happen; nothing depends on it.
    pub(crate) fn pass(&self, span: Duration) {
        for Worker { process, .. } in &self.workers {
            assert!(process::process_exists(process.pid()), "{}", process.stderr());
        }
        std::thread::sleep(span);
    }

    /// Lets every worker end the acquire it is in, which it must within the bound.
    pub(crate) fn finish(&mut self, bound: Duration) -> Record {
        let workers = self.workers.drain(..).map(|worker| {
            drop(worker.input);
            worker.process
        });
        // All of them are told before the first is waited for: they may need each other.
        for mut process in workers.collect::<Vec<_>>() {
            let finished = process.wait_within(bound + worker::LONGEST_WORK);
            assert!(finished.status.success(), "{}\n{}", finished.stdout, finished.stderr);
        }
        Record::read(self.folder.path(), self.witness.check())
    }
}
