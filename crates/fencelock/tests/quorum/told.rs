//! Waiters of a quorum: told by its nodes, served without a look at the clock, and gone without a
//! trace.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock::{
    Client, ErrorKind, Guard, ManualClock, MemoryStore, Mutex, Released, Store,
    store::{
        Fault, FaultyStore, StoreErrorKind, Verb,
        core::{AcquireRequest, Acquired, LockName, ReleaseRequest, Token, Ttl},
        rt,
    },
};
use fencelock_quorum::QuorumStore;
use tokio::task::JoinHandle;

const TTL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Nodes in memory on a clock that stands still, unless a test moves it.
struct World {
    clock: ManualClock,
    nodes: Vec<FaultyStore<MemoryStore>>,
}

impl World {
    fn new(count: usize) -> Self {
        let clock = ManualClock::new();
        let node = |_| FaultyStore::new(MemoryStore::manual(clock.clone()));
        Self { nodes: (0..count).map(node).collect(), clock }
    }

    fn store(&self) -> QuorumStore {
        let stores = self.nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Store>);
        QuorumStore::builder(stores).build().expect("the settings can work")
    }

    fn client(&self) -> Client {
        Client::with_store(Arc::new(self.store()))
    }

    fn name() -> LockName {
        LockName::new("job").expect("a name")
    }

    /// A lease that no keeper renews, on all nodes.
    async fn hold(&self) -> Token {
        let ttl = Ttl::new(TTL).expect("a ttl");
        let asked = AcquireRequest::new(Self::name(), rt::fresh_token(), ttl);
        let by = self.clock.now().saturating_add(millis(1_000));
        let reply = self.store().acquire(&asked, by).await.expect("all answer");
        assert!(matches!(reply.answer, Acquired::Granted(_)), "{reply:?}");
        asked.token
    }

    async fn release(&self, token: Token) {
        let request = ReleaseRequest::new(Self::name(), token);
        let by = self.clock.now().saturating_add(millis(1_000));
        let reply = self.store().release(&request, by).await.expect("a majority answers");
        assert_eq!(reply.answer, fencelock::store::core::Released::Held);
    }

    /// How many places there are at each node.
    fn lines(&self) -> Vec<u32> {
        let line = |node: &FaultyStore<MemoryStore>| {
            node.inner().with_table(|table| table.waiting(&Self::name()))
        };
        self.nodes.iter().map(line).collect()
    }

    fn asked(&self) -> u64 {
        self.nodes[0].calls(Verb::Acquire)
    }

    /// Waits for what tasks and threads bring about while time stands still.
    async fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let end = std::time::Instant::now() + PATIENCE;
        while !so() {
            assert!(std::time::Instant::now() < end, "it comes about that {what}");
            tokio::time::sleep(millis(1)).await;
        }
    }

    /// Begins to wait, and has a place at so many nodes when it returns.
    async fn waiter(&self, lines: &[u32]) -> JoinHandle<Guard> {
        let mutex = self.client().mutex("job").ttl(TTL);
        let waiter = tokio::spawn(async move { mutex.lock().await.expect("its turn comes") });
        self.until("it waits", || self.lines() == lines).await;
        waiter
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends")
}

/// Time stands still: neither a timer nor a pause can have served it.
#[tokio::test]
async fn a_release_wakes_a_waiter_whom_a_majority_tells_without_a_pause() {
    for count in [3, 4, 5] {
        let world = World::new(count);
        let holder = world.hold().await;
        let waiter = world.waiter(&vec![1; count]).await;
        world.release(holder).await;
        let guard = within(waiter).await.expect("no panic");
        assert!(guard.is_valid());
        world.until("its places are gone", || world.lines() == vec![0; count]).await;
        assert_eq!(guard.release().await, Released::Held);
    }
}

/// Goal: whoever gives back what others want does not take it again before they could. Method: time
/// stands still, so who stands back for a moment stands back for as long as the test likes.
#[tokio::test]
async fn who_gives_a_wanted_lock_back_lets_the_next_go_first() {
    let world = World::new(3);
    let holder = world.hold().await;
    let client = world.client();
    let again = |mutex: Mutex| tokio::spawn(async move { mutex.lock().await.expect("its turn") });
    let first = again(client.mutex("job").ttl(TTL));
    world.until("it waits", || world.lines() == [1; 3]).await;
    let other = world.waiter(&[2; 3]).await;
    world.release(holder).await;
    let guard = within(first).await.expect("no panic");
    let asked = world.asked();
    assert_eq!(guard.release().await, Released::Held);
    let first = again(client.mutex("job").ttl(TTL));
    let guard = within(other).await.expect("no panic");
    assert_eq!(world.asked(), asked + 1, "only the other has asked");
    // Behind it, and served as anybody.
    world
        .until("it waits again", || {
            world.clock.advance(millis(1));
            world.lines() == [1; 3]
        })
        .await;
    assert_eq!(guard.release().await, Released::Held);
    assert_eq!(within(first).await.expect("no panic").release().await, Released::Held);
}

#[tokio::test]
async fn a_node_that_is_down_keeps_nobody_from_being_told() {
    let world = World::new(3);
    world.nodes[1].plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    let holder = world.hold().await;
    let waiter = world.waiter(&[1, 0, 1]).await;
    world.release(holder).await;
    let guard = within(waiter).await.expect("no panic");
    assert_eq!(guard.release().await, Released::Held);
}

/// Goal: who waits asks at its heart-beat, and not from time to time. Method: fifty seconds pass on
/// the clock behind a lease of sixty; who polls would have asked more than two hundred times.
#[tokio::test]
async fn waiters_behind_a_long_lease_ask_hardly_ever() {
    const WAITERS: u32 = 8;
    const SHORTEST_BEAT: Duration = Duration::from_millis(3_750);
    let world = World::new(3);
    let holder = world.hold().await;
    let mut waiters = Vec::new();
    for count in 1..=WAITERS {
        let waiter = world.waiter(&[count; 3]).await;
        // In whatever order they are served.
        waiters.push(tokio::spawn(async move { waiter.await.expect("no panic").release().await }));
    }
    let (before, span) = (world.asked(), Duration::from_secs(50));
    for _ in 0..500 {
        world.clock.advance(span / 500);
        // Each of them goes on as far as it can.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    let asked = world.asked() - before;
    let beats = u64::try_from(span.as_nanos() / SHORTEST_BEAT.as_nanos()).expect("a few") + 1;
    assert!(asked >= u64::from(WAITERS), "they do look: {asked}");
    assert!(asked <= beats * u64::from(WAITERS), "{asked} questions in {span:?}");
    world.release(holder).await;
    let served = async {
        for waiter in waiters {
            assert_eq!(waiter.await.expect("no panic"), Released::Held);
        }
    };
    // Those that are not told by a majority begin after a pause.
    let mut served = std::pin::pin!(served);
    let end = std::time::Instant::now() + PATIENCE;
    while tokio::time::timeout(millis(1), served.as_mut()).await.is_err() {
        assert!(std::time::Instant::now() < end, "all are served: {:?}", world.lines());
        world.clock.advance(millis(1));
    }
}

/// Nobody told anybody: the timer of the lease's end is enough.
#[tokio::test]
async fn a_lease_that_nobody_gave_back_is_over_for_its_waiters_in_time() {
    let world = World::new(3);
    let _never_given_back = world.hold().await;
    let waiter = world.waiter(&[1; 3]).await;
    let end = std::time::Instant::now() + PATIENCE;
    let passed = world.clock.now();
    while !waiter.is_finished() {
        assert!(std::time::Instant::now() < end, "it is served");
        world.clock.advance(millis(10));
        tokio::task::yield_now().await;
        if world.clock.now().saturating_since(passed) > TTL {
            tokio::time::sleep(millis(1)).await;
        }
    }
    assert!(world.clock.now().saturating_since(passed) >= TTL - millis(10));
    drop(waiter.await.expect("no panic"));
}

#[tokio::test]
async fn a_waiter_whom_no_majority_would_tell_polls() {
    let world = World::new(3);
    for node in &world.nodes[..2] {
        for _ in 0..100 {
            node.plan(Verb::Listen, Fault::Fail(StoreErrorKind::Denied));
        }
    }
    let holder = world.hold().await;
    let before = world.asked();
    let mutex = world.client().mutex("job").ttl(TTL);
    let waiter = tokio::spawn(async move { mutex.lock().await.expect("its turn comes") });
    let moving = || world.clock.advance(millis(5));
    world
        .until("it asks again and again", || {
            moving();
            world.asked() >= before + 10
        })
        .await;
    assert_eq!(world.lines(), [0, 0, 0], "a place that nobody would tell is none");
    world.release(holder).await;
    world
        .until("it is served", || {
            moving();
            waiter.is_finished()
        })
        .await;
    assert_eq!(waiter.await.expect("no panic").release().await, Released::Held);
}

#[tokio::test]
async fn a_wait_that_is_over_leaves_no_place() {
    let world = World::new(3);
    let holder = world.hold().await;
    let mutex = world.client().mutex("job").ttl(TTL).wait(millis(700));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    world.until("it waits", || world.lines() == [1; 3]).await;
    world.clock.advance(millis(700));
    let error = within(waiter).await.expect("no panic").expect_err("it is held");
    assert_eq!(error.kind(), ErrorKind::WaitExpired, "{error}");
    world.until("its places are gone", || world.lines() == [0; 3]).await;
    world.release(holder).await;
}

type Waiting = Pin<Box<dyn Future<Output = Result<Guard, fencelock::Error>> + Send>>;

fn waiting(mutex: Mutex) -> Waiting {
    Box::pin(async move { mutex.ttl(TTL).lock().await })
}

/// Goal: wherever a wait is dropped, no place and no lease is left at any node. Method: after every
/// number of polls, before and after a release, by a client that waits for the first time and by
/// one that has waited before.
#[tokio::test]
async fn a_wait_that_is_dropped_at_any_poll_leaves_no_place() {
    for release_at in [Some(1), Some(3), None] {
        for polls in 0..12 {
            let world = World::new(3);
            let client = world.client();
            for _ in 0..2 {
                let mut holder = Some(world.hold().await);
                let mut subject = waiting(client.mutex("job"));
                for poll in 0..polls {
                    if Some(poll) == release_at
                        && let Some(token) = holder.take()
                    {
                        world.release(token).await;
                    }
                    let mut context = Context::from_waker(Waker::noop());
                    if let Poll::Ready(guard) = subject.as_mut().poll(&mut context) {
                        drop(guard.expect("it was granted"));
                        // A future that has ended is not polled.
                        subject = Box::pin(std::future::pending());
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                drop(subject);
                let what = format!("nothing is left after {polls} polls, {release_at:?}");
                world.until(&what, || world.lines() == [0; 3]).await;
                if let Some(token) = holder.take() {
                    world.release(token).await;
                }
                let free = |node: &FaultyStore<MemoryStore>| {
                    let look = fencelock::store::core::InspectRequest::new(World::name());
                    let now = node.inner().store_now();
                    let seen = node.inner().with_table(|table| table.inspect(&look, now));
                    matches!(seen, fencelock::store::core::Inspection::Free { .. })
                };
                world.until(&what, || world.nodes.iter().all(free)).await;
                let shown = || format!("{client:?}");
                let none = ["leases: 0", "pending: 0", "routes: 0"];
                world.until(&what, || none.iter().all(|none| shown().contains(none))).await;
            }
        }
    }
}
