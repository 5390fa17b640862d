//! What the ways have in common: somebody waits, does a step under the lock, and hears how it ended.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fencelock::{
    Client, Error, ErrorKind, Inspection, LossReason, MemoryStore, Mutex, Released, Renew, blocking,
};
use fencelock_testkit::RedisServer;
use futures_util::{StreamExt as _, stream};
use tokio::runtime::Runtime;

pub(crate) const TTL: Duration = Duration::from_secs(60);
/// How long something may take that only needs other threads to run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One way to hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Run,
    /// The step is done for the second item of three.
    Stream,
    TryStream,
    Guard,
    Thread,
    ThreadRun,
    /// The step is done for the second item of three.
    ThreadIter,
    /// As a guard and a `run` of threads, inside a task of a runtime that has one thread.
    ThreadInTask,
    ThreadRunInTask,
}

pub(crate) const FORMS: [Form; 9] = [
    Form::Run,
    Form::Stream,
    Form::TryStream,
    Form::Guard,
    Form::Thread,
    Form::ThreadRun,
    Form::ThreadIter,
    Form::ThreadInTask,
    Form::ThreadRunInTask,
];

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Lost(LossReason),
    Failed(ErrorKind),
}

impl From<Result<(), Error>> for Ended {
    fn from(result: Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => match error.loss() {
                Some(reason) => Self::Lost(reason),
                None => Self::Failed(error.kind()),
            },
        }
    }
}

impl From<Released> for Ended {
    fn from(released: Released) -> Self {
        match released {
            Released::Held => Self::Done,
            Released::Taken => Self::Lost(LossReason::Taken),
            Released::Expired => Self::Lost(LossReason::ExpiredAtStore),
            other => panic!("the store answers: {other:?}"),
        }
    }
}

/// A lock to be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) name: &'static str,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) renewal: Renew,
}

impl Wish {
    pub(crate) fn of(name: &'static str) -> Self {
        Self { name, ttl: TTL, wait: PATIENCE, renewal: Renew::Auto }
    }

    fn mutex(self, client: &Client) -> Mutex {
        client.mutex(self.name).ttl(self.ttl).wait(self.wait).renewal(self.renewal)
    }

    fn blocking(self, client: &blocking::Client) -> blocking::Mutex {
        client.mutex(self.name).ttl(self.ttl).wait(self.wait).renewal(self.renewal)
    }
}

impl Form {
    /// Whether the step is told at once that it asks for what is held around it.
    pub(crate) fn is_scoped(self) -> bool {
        !matches!(self, Self::Guard | Self::Thread | Self::ThreadInTask)
    }

    /// Waits for the lock, does the step while it is held, and gives it back.
    pub(crate) fn hold(self, client: &blocking::Client, wish: Wish, step: impl FnOnce()) -> Ended {
        let mutex = wish.mutex(client.as_async());
        let threads = wish.blocking(client);
        match self {
            Self::Run => runtime().block_on(mutex.run(|_held| async { step() })).into(),
            Self::Stream => {
                let mut step = Some(step);
                let numbers = mutex.run_stream(|_held| stream::iter(numbers(&mut step)));
                ended(runtime().block_on(numbers.collect()))
            }
            Self::TryStream => {
                let mut step = Some(step);
                let numbers = mutex
                    .run_try_stream(|_held| stream::iter(numbers(&mut step)).map(Ok::<u32, Error>));
                ended(runtime().block_on(numbers.collect()))
            }
            Self::Guard => runtime().block_on(async {
                match mutex.lock().await {
                    Ok(guard) => {
                        step();
                        guard.release().await.into()
                    }
                    Err(error) => Err(error).into(),
                }
            }),
            Self::Thread => guarded(&threads, step),
            Self::ThreadRun => threads.run(|_held| step()).into(),
            Self::ThreadIter => {
                let mut step = Some(step);
                ended(threads.run_iter(|_held| numbers(&mut step)).collect())
            }
            Self::ThreadInTask => runtime().block_on(async { guarded(&threads, step) }),
            Self::ThreadRunInTask => {
                runtime().block_on(async { threads.run(|_held| step()).into() })
            }
        }
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Three numbers; the step is done to have the second.
pub(crate) fn numbers<'a>(step: &'a mut Option<impl FnOnce()>) -> impl Iterator<Item = u32> + 'a {
    (1..=3).inspect(move |number| {
        if *number == 2 {
            step.take().expect("once")();
        }
    })
}

/// Looks at all items. An error is the last of them.
pub(crate) fn ended(mut items: Vec<Result<u32, Error>>) -> Ended {
    let last = items.pop_if(|item| item.is_err());
    let numbers: Vec<u32> = items.into_iter().map(|item| item.expect("errors are last")).collect();
    match last {
        None => assert_eq!(numbers, [1, 2, 3]),
        Some(_) => assert!([1, 2, 3].starts_with(&numbers), "{numbers:?}"),
    }
    last.transpose().map(drop).into()
}

fn guarded(mutex: &blocking::Mutex, step: impl FnOnce()) -> Ended {
    match mutex.lock() {
        Ok(guard) => {
            step();
            guard.release().into()
        }
        Err(error) => Err(error).into(),
    }
}

/// A store, seen by two processes.
pub(crate) struct Pair {
    pub(crate) own: blocking::Client,
    pub(crate) other: blocking::Client,
}

impl Pair {
    fn of(own: Client, other: Client) -> Self {
        let threads = |client| blocking::Client::new(client).expect("the system gives a thread");
        Self { own: threads(own), other: threads(other) }
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        matches!(self.other.inspect(name), Ok(Inspection::Free { .. }))
    }

    /// How many wait for a name.
    pub(crate) fn waiting(&self, name: &str) -> u32 {
        match self.other.inspect(name) {
            Ok(Inspection::Held(holder)) => holder.waiting,
            _ => 0,
        }
    }

    /// Takes a lock that nobody holds, as another process.
    pub(crate) fn taken_by_other(&self, name: &str) -> blocking::Guard {
        let answer = elsewhere(|| self.other.mutex(name).ttl(TTL).try_lock());
        answer.expect("the store works").granted().expect("nobody holds it")
    }
}

/// All kinds of stores, with what they need to live.
pub(crate) struct Stores {
    _server: RedisServer,
    _folder: tempfile::TempDir,
    pub(crate) pairs: Vec<Pair>,
}

impl Stores {
    /// A machine that is busy with other things may take long to answer: no test is about that.
    pub(crate) fn new() -> Self {
        Self::answering_within(PATIENCE)
    }

    /// The keeper looks after a request whose answer nobody saw for as long as one may take.
    pub(crate) fn answering_within(request_timeout: Duration) -> Self {
        let server = RedisServer::start();
        let folder = memory_folder();
        let file = format!("sqlite:{}", folder.path().join("locks.db").display());
        let client = |url: &str| {
            Client::builder(url).request_timeout(request_timeout).build().expect("the url is right")
        };
        let memory = MemoryStore::new();
        let second = memory.another_client();
        let pairs = vec![
            Pair::of(Client::with_store(Arc::new(memory)), Client::with_store(Arc::new(second))),
            Pair::of(client(&file), client(&file)),
            Pair::of(client(&server.url()), client(&server.url())),
        ];
        for pair in &pairs {
            pair.own.connect_now().expect("the store works");
            pair.other.connect_now().expect("the store works");
        }
        Self { _server: server, _folder: folder, pairs }
    }

    /// Runs a scenario in every form on every store.
    pub(crate) fn each(&self, scenario: impl Fn(Form, &Pair)) {
        for pair in &self.pairs {
            for form in FORMS {
                eprintln!("{form:?} on {}", pair.own.store_display());
                scenario(form, pair);
            }
        }
    }
}

/// Keeps tests apart that have very many threads, or waits that such a machine would cut off in the
/// middle of a question.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something that other threads do is the case.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}, within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Does something in another thread, where nothing is held around it: two clients of one store are one
/// store to whoever nests locks, though they stand for two processes here.
pub(crate) fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"))
}

/// A folder in memory, where there is one: a disk that stands still for seconds is no part of these tests, and
/// then a wait that ends rightly says that the store does not answer.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}
