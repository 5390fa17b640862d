//! The stores of these tests, each with two clients, and what is said of them after a drop.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use fencelock::{Attempt, Client, Guard, Inspection, Mutex, Released};
use fencelock_testkit::RedisServer;
use tokio::{runtime::Runtime, sync::Notify};

pub(crate) const TTL: Duration = Duration::from_secs(60);
pub(crate) const SOON: Duration = Duration::from_secs(5);
/// When nothing has woken a future for so long, it waits for somebody else.
pub(crate) const QUIET: Duration = Duration::from_millis(25);
pub(crate) const MOST_POLLS: usize = 14;

/// Two clients of each kind of store, as two processes would have them.
pub(crate) struct Stores {
    pub(crate) server: RedisServer,
    _folder: tempfile::TempDir,
    pub(crate) pairs: Vec<(Client, Client)>,
}

impl Stores {
    pub(crate) fn new() -> Self {
        let server = RedisServer::start();
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", folder.path().join("locks.db").display());
        let client = |url: &str| Client::builder(url).build().expect("the url is right");
        let memory = fencelock::MemoryStore::new();
        let second = memory.another_client();
        let pairs = vec![
            (client(&server.url()), client(&server.url())),
            (client(&file), client(&file)),
            (Client::with_store(Arc::new(memory)), Client::with_store(Arc::new(second))),
        ];
        // A first question whose answer nobody saw may arrive at any time, since nothing is known yet
        // of the store's clock: the keeper looks after it until the ttl is over.
        let connect = || {
            runtime().block_on(async {
                for client in pairs.iter().flat_map(|(own, other)| [own, other]) {
                    client.connect_now().await.expect("the store works");
                }
            });
        };
        std::thread::scope(|scope| scope.spawn(connect).join().unwrap());
        Self { server, _folder: folder, pairs }
    }

    pub(crate) fn connections(&self) -> usize {
        let list = format!("{:?}", self.server.cli(&["CLIENT", "LIST"]));
        list.matches(" cmd=").count()
    }

    pub(crate) fn channels(&self) -> String {
        format!("{:?}", self.server.cli(&["PUBSUB", "CHANNELS"]))
    }
}

/// Says that a future was woken.
pub(crate) struct Woken(pub(crate) Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

pub(crate) type Subject<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Polls so often, each time when it was woken or nothing happens any more, and drops it. True when
/// it ended by itself.
pub(crate) async fn poll_then_drop(
    mut subject: Subject<'_>,
    polls: usize,
    mut before: impl AsyncFnMut(usize),
) -> bool {
    let woken = Arc::new(Woken(Notify::new()));
    let waker = Waker::from(Arc::clone(&woken));
    for poll in 0..polls {
        before(poll).await;
        if subject.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            return true;
        }
        let _quiet = tokio::time::timeout(QUIET, woken.0.notified()).await;
    }
    false
}

pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what}, within {SOON:?}"))
}

pub(crate) async fn take(mutex: Mutex) -> Guard {
    match mutex.ttl(TTL).try_lock().await.expect("the store works") {
        Attempt::Granted(guard) => guard,
        Attempt::Busy(busy) => panic!("nobody holds it: {busy:?}"),
    }
}

/// Waits until as many wait for a lock that is held.
pub(crate) async fn until_waiting(client: &Client, name: &str, count: u32, what: &str) {
    let waiting = async {
        loop {
            match client.inspect(name).await.expect("the store works") {
                Inspection::Held(holder) if holder.waiting == count => return,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    soon(&format!("{count} wait: {what}"), waiting).await;
}

/// The other client has the lock at once, and nothing is left of the first.
pub(crate) async fn is_free(own: &Client, other: &Client, names: &[&str], what: &str) {
    for name in names {
        let mutex = other.mutex(*name).ttl(TTL);
        let guard = soon(&format!("it is free: {what}"), mutex.lock()).await.unwrap();
        until_waiting(other, name, 0, what).await;
        assert_eq!(guard.release().await, Released::Held, "{what}");
    }
    is_drained(own, what).await;
}

/// A client holds nothing, waits for nothing, and has nothing to give back.
pub(crate) async fn is_drained(client: &Client, what: &str) {
    let is_done = || {
        let shown = format!("{client:?}");
        ["leases: 0", "pending: 0", "lines: 0", "routes: 0"].iter().all(|none| shown.contains(none))
    };
    let done = async {
        while !is_done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(&format!("nothing is left: {what}: {client:?}"), done).await;
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn background() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
