//! Who makes the grants: two processes, which are this very test binary, with several tasks each.
//!
//! A task asks, writes down what it got, and gives it back. Every fourth question does not wait, so
//! that it is asked right before it is answered. Nobody cares for errors: the store is being broken,
//! and the task asks again.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use fencelock::{Attempt, Client, Error, Guard, Mutex, Renew};
use fencelock_testkit::Process;
use tokio::task::JoinSet;

use crate::ledger::Ledger;

/// The names of the locks: each is asked for by half of the tasks of each process.
pub(crate) const NAMES: [&str; 2] = ["even", "odd"];

const PROCESSES: u64 = 2;
const TASKS: u64 = 8;

/// What the crew does.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    grants: u64,
    ttl: Duration,
    retain: Option<Duration>,
    abandoning: bool,
    strict: bool,
    voting: Voting,
    tasks: u64,
}

/// What the clients of a quorum are told, besides its urls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Voting {
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) quarantine: Option<Duration>,
}

impl Work {
    pub(crate) fn new(grants: u64) -> Self {
        let ttl = Duration::from_secs(30);
        let voting = Voting::default();
        Self { grants, ttl, retain: None, abandoning: false, strict: false, voting, tasks: TASKS }
    }

    pub(crate) fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(crate) fn retain(self, retain: Duration) -> Self {
        Self { retain: Some(retain), ..self }
    }

    /// Every sixteenth grant of a task is not given back: its lease expires.
    pub(crate) fn abandoning(self) -> Self {
        Self { abandoning: true, ..self }
    }

    /// Every grant is the store's: nothing is passed on inside a process.
    pub(crate) fn strict_fifo(self) -> Self {
        Self { strict: true, ..self }
    }

    /// On a quorum: one task of each process for a name. More split the votes, most of all where each
    /// node that is left is needed, and a busy machine then grants next to nothing.
    pub(crate) fn voting(self, voting: Voting) -> Self {
        Self { voting, tasks: NAMES.len() as u64, ..self }
    }

    /// How many grants there will be.
    pub(crate) fn all_grants(&self) -> u64 {
        self.grants.div_ceil(PROCESSES * self.tasks) * PROCESSES * self.tasks
    }

    /// Starts all processes on a store.
    pub(crate) fn start(&self, url: &str, ledger: &Path) -> Vec<Process> {
        (0..PROCESSES).map(|_| self.process(url, ledger)).collect()
    }

    fn process(&self, url: &str, ledger: &Path) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["--exact", "crew::member", "--ignored", "--nocapture", "--test-threads=1"])
            .env("FENCELOCK_TEST_FENCES", url)
            .env("FENCELOCK_TEST_LEDGER", ledger)
            .env("FENCELOCK_TEST_GRANTS", (self.all_grants() / PROCESSES / self.tasks).to_string())
            .env("FENCELOCK_TEST_TASKS", self.tasks.to_string())
            .env("FENCELOCK_TEST_TTL_MS", self.ttl.as_millis().to_string())
            .env("FENCELOCK_TEST_ABANDON", self.abandoning.to_string())
            .env("FENCELOCK_TEST_STRICT", self.strict.to_string());
        let optional = [
            ("RETAIN_MS", self.retain),
            ("MAX_TTL_MS", self.voting.max_ttl),
            ("QUARANTINE_MS", self.voting.quarantine),
        ];
        for (name, span) in optional {
            if let Some(span) = span {
                command.env(format!("FENCELOCK_TEST_{name}"), span.as_millis().to_string());
            }
        }
        Process::spawn(command)
    }
}

#[test]
#[ignore = "the processes of these tests"]
fn member() {
    let Ok(url) = std::env::var("FENCELOCK_TEST_FENCES") else { return };
    let setting = |name: &str| std::env::var(format!("FENCELOCK_TEST_{name}")).ok();
    let number = |name: &str| setting(name).map(|text| text.parse::<u64>().expect("a number"));
    let span = |name: &str| number(name).map(Duration::from_millis);
    let voting = Voting { max_ttl: span("MAX_TTL_MS"), quarantine: span("QUARANTINE_MS") };
    let client = connect(&url, span("RETAIN_MS"), voting);
    let ledger = Arc::new(Ledger::open(Path::new(&setting("LEDGER").expect("a ledger"))));
    let ttl = Duration::from_millis(number("TTL_MS").expect("a ttl"));
    let grants = number("GRANTS").expect("a number of grants");
    let is_set = |name: &str| setting(name).is_some_and(|it| it == "true");
    let (abandons, strict) = (is_set("ABANDON"), is_set("STRICT"));

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for number in 0..number("TASKS").expect("a number of tasks") {
            let name = NAMES[usize::try_from(number).expect("few") % NAMES.len()];
            let id = format!("{}.{number}", std::process::id());
            let mut mutex = client.mutex(name).ttl(ttl).wait(Duration::from_secs(2));
            if strict {
                mutex = mutex.strict_fifo();
            }
            let task = Task { mutex, ledger: Arc::clone(&ledger), id, name };
            tasks.spawn(task.work(grants, abandons));
        }
        tasks.join_all().await;
    });
}

/// A client of one store, or of a quorum of several.
fn connect(url: &str, retain: Option<Duration>, voting: Voting) -> Client {
    let client = if url.contains(' ') {
        // A starved machine needs long for what takes a millisecond elsewhere. A node that is dead
        // refuses at once.
        let mut builder = Client::quorum_builder(url.split(' '))
            .node_timeout(Duration::from_secs(1))
            .request_timeout(Duration::from_secs(3));
        if let Some(max_ttl) = voting.max_ttl {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(quarantine) = voting.quarantine {
            builder = builder.quarantine(quarantine);
        }
        builder.build()
    } else {
        let builder = Client::builder(url);
        match retain {
            Some(retain) => builder.retain(retain),
            None => builder,
        }
        .build()
    };
    client.expect("the url is right")
}

struct Task {
    mutex: Mutex,
    ledger: Arc<Ledger>,
    id: String,
    name: &'static str,
}

impl Task {
    async fn work(self, grants: u64, abandons: bool) {
        let (mut got, mut asked) = (0, 0_u64);
        while got < grants {
            asked += 1;
            let abandon = abandons && asked % 16 == 1;
            let id = format!("{}.{asked}", self.id);
            self.ledger.ask(&id, self.name);
            match self.ask(asked.is_multiple_of(4), abandon).await {
                Ok(Some(guard)) => {
                    let token = guard.fencing_token().expect("a native lock has them");
                    self.ledger.got(&id, self.name, token.as_u64());
                    got += 1;
                    self.end(guard, abandon).await;
                }
                // Not at full speed while the store is away.
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                Ok(None) => tokio::task::yield_now().await,
            }
        }
    }

    async fn ask(&self, at_once: bool, abandon: bool) -> Result<Option<Guard>, Error> {
        let mut mutex = self.mutex.clone();
        if abandon {
            mutex = mutex.ttl(Duration::from_millis(20)).renewal(Renew::Manual);
        }
        if !at_once {
            return mutex.lock().await.map(Some);
        }
        match mutex.try_lock().await? {
            Attempt::Granted(guard) => Ok(Some(guard)),
            Attempt::Busy(_) => Ok(None),
        }
    }

    async fn end(&self, guard: Guard, abandon: bool) {
        if abandon {
            // Whether it is still there, the store will find out.
            let _ = guard.leak().await;
        } else {
            guard.release().await;
        }
    }
}
