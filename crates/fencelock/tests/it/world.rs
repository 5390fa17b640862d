//! A store in memory on a clock that stands still, with faults, and clients of it.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock::{
    Client, Guard, LockName, ManualClock, MemoryStore, Mutex, Store, Token,
    store::{
        FaultyStore,
        core::{AcquireRequest, InspectRequest, Inspection, Names, Ttl},
    },
};

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("a name")
}

/// How long a condition may take that only needs other threads to run.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) memory: MemoryStore,
    pub(crate) faulty: FaultyStore<MemoryStore>,
    pub(crate) client: Client,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let memory = MemoryStore::manual(clock.clone());
        let faulty = FaultyStore::new(memory.clone());
        let client = Client::with_store(Arc::new(faulty.clone()) as Arc<dyn Store>);
        Self { clock, memory, faulty, client }
    }

    /// A client whose offset to the store is known and that has reached it.
    pub(crate) async fn reached() -> Self {
        let world = Self::new();
        world.client.connect_now().await.expect("nothing fails");
        world
    }

    /// Another client of the same store, without faults.
    pub(crate) fn other(&self) -> Client {
        Client::with_store(Arc::new(self.memory.clone()) as Arc<dyn Store>)
    }

    pub(crate) fn mutex(&self, name: &str) -> Mutex {
        self.client.mutex(name)
    }

    pub(crate) fn seen(&self, text: &str) -> Inspection {
        let now = self.memory.store_now();
        let request = InspectRequest::new(name(text));
        self.memory.with_table(|table| table.inspect(&request, now))
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        matches!(self.seen(name), Inspection::Held(_))
    }

    /// What the store has left of a lease; zero when it is free.
    pub(crate) fn left(&self, name: &str) -> Duration {
        match self.seen(name) {
            Inspection::Held(holder) => holder.remaining.expect("leases end"),
            _ => Duration::ZERO,
        }
    }

    /// How many wait in the store's line.
    pub(crate) fn waiting(&self, text: &str) -> u32 {
        self.memory.with_table(|table| table.waiting(&name(text)))
    }

    /// Removes a record, as an operator or an eviction would.
    pub(crate) fn delete(&self, text: &str) {
        self.memory.with_table(|table| table.delete(&name(text)));
    }

    /// Somebody else takes a name that is free at the store.
    pub(crate) fn taken_by_another(&self, text: &str) -> Token {
        let token = fencelock::store::rt::fresh_token();
        let ttl = Ttl::new(secs(3_600)).expect("a ttl");
        let request = AcquireRequest::new(Names::one(name(text)), token, ttl);
        let now = self.memory.store_now();
        let answer = self.memory.with_table(|table| table.acquire(&request, now));
        assert!(
            matches!(answer, fencelock::store::core::Acquired::Granted(_)),
            "it was free: {answer:?}"
        );
        token
    }

    pub(crate) fn holder_token(&self, name: &str) -> Option<Vec<u8>> {
        match self.seen(name) {
            Inspection::Held(holder) => holder.proof.map(|proof| proof.reveal().to_vec()),
            _ => None,
        }
    }

    /// Whether the first who waits for a name can be told.
    pub(crate) fn listens(&self, text: &str) -> bool {
        let at = name(text);
        self.memory.with_table(|table| table.line(&at).any(|place| place.listener.is_some()))
    }

    /// How many leases the keeper of the client looks after, and how many releases it has to do:
    /// what its `Debug` says.
    pub(crate) fn keeper(&self) -> (u64, u64) {
        self.keeper_of(&self.client)
    }

    /// The same of another client.
    pub(crate) fn keeper_of(&self, client: &Client) -> (u64, u64) {
        (shown(client, "leases: "), shown(client, "pending: "))
    }

    /// How many names the client holds or waits for, in the lines of this process.
    pub(crate) fn own_lines(&self) -> u64 {
        shown(&self.client, "lines: ")
    }

    /// For how many of its tokens the client expects messages.
    pub(crate) fn routes(&self) -> u64 {
        shown(&self.client, "routes: ")
    }

    /// Moves the clock in short steps until something is the case, for at most so long on it.
    pub(crate) async fn pass_until(&self, span: Duration, what: &str, done: impl Fn() -> bool) {
        self.pass_by(millis(50), span, what, done).await;
    }

    /// The same in steps of another length. The threads get time to act before each of them.
    pub(crate) async fn pass_by(
        &self,
        step: Duration,
        span: Duration,
        what: &str,
        done: impl Fn() -> bool,
    ) {
        let end = self.clock.now().saturating_add(span);
        while self.clock.now() < end {
            for _ in 0..10 {
                if done() {
                    return;
                }
                tokio::time::sleep(millis(1)).await;
            }
            self.clock.advance(step);
        }
        assert!(done(), "{what}, within {span:?}");
    }
}

/// A number that the `Debug` of a client shows.
fn shown(client: &Client, field: &str) -> u64 {
    let shown = format!("{client:?}");
    let (_, rest) = shown.split_once(field).expect("the field is shown");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Waits until something that other threads do is the case.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !done() {
        assert!(std::time::Instant::now() < end, "{what}, within {PATIENCE:?}");
        tokio::time::sleep(millis(1)).await;
    }
}

/// Whether a future is ready at once.
pub(crate) fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The guard of a lock that nobody else holds.
pub(crate) async fn take(mutex: Mutex) -> Guard {
    mutex.try_lock().await.expect("the store works").granted().expect("nobody holds it")
}
