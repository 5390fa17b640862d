//! Kind CANCEL on real stores: a Redis server of the test's own, a file, and memory. Every future is
//! dropped after every number of polls; runtimes end, work panics, futures are dropped outside.
//!
//! The bounds are generous, and far below what must not have been waited for: the ttl of a minute and
//! the heart-beat of ten seconds.
#![cfg(all(feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use fencelock::{Attempt, Client, Clock, Error, Guard, Inspection, Moment, Mutex, Released};
use fencelock_testkit::RedisServer;
use tokio::{runtime::Runtime, sync::Notify, task::JoinHandle};

const TTL: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(5);
/// When nothing has woken a future for so long, it waits for somebody else.
const QUIET: Duration = Duration::from_millis(25);
const MOST_POLLS: usize = 14;

/// Two clients of each kind of store, as two processes would have them.
struct Stores {
    server: RedisServer,
    _folder: tempfile::TempDir,
    pairs: Vec<(Client, Client)>,
}

impl Stores {
    fn new() -> Self {
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

    fn connections(&self) -> usize {
        let list = format!("{:?}", self.server.cli(&["CLIENT", "LIST"]));
        list.matches(" cmd=").count()
    }

    fn channels(&self) -> String {
        format!("{:?}", self.server.cli(&["PUBSUB", "CHANNELS"]))
    }
}

/// Says that a future was woken.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

type Subject<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Polls so often, each time when it was woken or nothing happens any more, and drops it. True when
/// it ended by itself.
async fn poll_then_drop(
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

async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what}, within {SOON:?}"))
}

async fn take(mutex: Mutex) -> Guard {
    match mutex.ttl(TTL).try_lock().await.expect("the store works") {
        Attempt::Granted(guard) => guard,
        Attempt::Busy(busy) => panic!("nobody holds it: {busy:?}"),
    }
}

/// Waits until as many wait for a lock that is held.
async fn until_waiting(client: &Client, name: &str, count: u32, what: &str) {
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
async fn is_free(own: &Client, other: &Client, names: &[&str], what: &str) {
    for name in names {
        let mutex = other.mutex(*name).ttl(TTL);
        let guard = soon(&format!("it is free: {what}"), mutex.lock()).await.unwrap();
        until_waiting(other, name, 0, what).await;
        assert_eq!(guard.release().await, Released::Held, "{what}");
    }
    let is_done = || {
        let shown = format!("{own:?}");
        ["leases: 0", "pending: 0", "lines: 0", "routes: 0"].iter().all(|none| shown.contains(none))
    };
    let done = async {
        while !is_done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(&format!("nothing is left: {what}: {own:?}"), done).await;
}

/// Drops a wait after every number of polls; the lock is released before each of them, or after all.
async fn waits_are_dropped(names: &[&str], subject_of: impl Fn(&Client) -> Subject<'_>) {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        // The first round connects all that is needed, and subscribes.
        let mut connections = None;
        for release_at in (0..6).chain([usize::MAX]) {
            for polls in 0..MOST_POLLS {
                let what = format!("{} release {release_at} polls {polls}", own.store_display());
                let mut holder = Some(take(other.mutex(names[0])).await);
                let ended = poll_then_drop(subject_of(own), polls, async |poll| {
                    if poll == release_at {
                        holder.take().unwrap().release().await;
                    }
                })
                .await;
                if let Some(guard) = holder {
                    until_waiting(other, names[0], 0, &what).await;
                    assert_eq!(guard.release().await, Released::Held, "{what}");
                }
                is_free(own, other, names, &what).await;
                if ended || (polls > 8 && release_at == usize::MAX) {
                    break;
                }
            }
            let now = stores.connections();
            assert!(now <= *connections.get_or_insert(now), "connections stay");
        }
        own.clone().close().await;
        other.clone().close().await;
    }
    let gone = async {
        while !stores.channels().contains("[]") {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon("nobody listens", gone).await;
}

#[tokio::test]
async fn a_dropped_wait_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job"], |client| {
        Box::pin(async { drop(client.mutex("job").ttl(TTL).lock().await) })
    })
    .await;
}

/// Where a store has only mutexes it is refused at once, and that leaves nothing either.
#[tokio::test]
async fn a_dropped_wait_for_a_lock_that_others_may_join_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job"], |client| {
        Box::pin(async {
            drop(client.rwlock("job").ttl(TTL).read().await);
            drop(client.reentrant("job", "me").ttl(TTL).lock().await);
        })
    })
    .await;
    waits_are_dropped(&["job"], |client| {
        Box::pin(async { drop(client.rwlock("job").ttl(TTL).write().await) })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_place_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job"], |client| {
        Box::pin(async {
            let mut queued = client.mutex("job").ttl(TTL).enqueue().await.unwrap();
            drop(queued.granted().await);
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_set_leaves_nothing_on_every_store() {
    waits_are_dropped(&["job", "zeta"], |client| {
        Box::pin(async { drop(client.mutexes(["zeta", "job"]).ttl(TTL).lock().await) })
    })
    .await;
}

/// Drops what is done with a guard after every number of polls.
async fn uses_are_dropped<F>(use_of: F)
where
    F: for<'a> Fn(&'a Client, Guard) -> Subject<'a>,
{
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", own.store_display());
            let guard = take(own.mutex("job")).await;
            let ended = poll_then_drop(use_of(own, guard), polls, async |_| {}).await;
            is_free(own, other, &["job"], &what).await;
            if ended {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_release_is_finished_on_every_store() {
    uses_are_dropped(|_, guard| {
        Box::pin(async {
            let _released = guard.release().await;
        })
    })
    .await;
}

#[tokio::test]
async fn a_dropped_renewal_gives_back_on_every_store() {
    uses_are_dropped(|_, guard| {
        Box::pin(async move {
            let _renewed = guard.renew(TTL).await;
        })
    })
    .await;
}

/// Goal: what a dropped `detach` or `adopt` leaves is nothing, or the lease of the ticket. Method: as
/// above; the ticket's lease, if there is one, is released by its token.
#[tokio::test]
async fn a_dropped_hand_over_leaves_its_ticket_at_most_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", own.store_display());
            let guard = take(own.mutex("job")).await;
            let mut ticket = None;
            let detached = async { ticket = guard.detach().await.ok() };
            let ended = poll_then_drop(Box::pin(detached), polls, async |_| {}).await;
            assert_eq!(ended, ticket.is_some(), "{what}");
            if let Some(ticket) = ticket {
                let lease = other.lease(ticket.names().clone(), ticket.token());
                assert_eq!(lease.release().await.unwrap(), Released::Held, "{what}");
            }
            is_free(own, other, &["job"], &what).await;
            if ended {
                break;
            }
        }
        for polls in 0..MOST_POLLS {
            let what = format!("{} polls {polls}", own.store_display());
            let ticket = take(own.mutex("job")).await.leak().await.unwrap();
            let lease = other.lease(ticket.names().clone(), ticket.token());
            let adopted = async { drop(own.adopt(ticket).await) };
            let ended = poll_then_drop(Box::pin(adopted), polls, async |_| {}).await;
            // Either it was not adopted, and this ends it; or what was adopted is given back.
            let _released = lease.release().await.unwrap();
            is_free(own, other, &["job"], &what).await;
            if ended {
                break;
            }
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn background() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Waits for the lock, and gives it back.
fn waits(runtime: &Runtime, mutex: Mutex) -> JoinHandle<Result<Released, Error>> {
    let mut wait = Box::pin(async move { mutex.ttl(TTL).lock().await });
    // It has its place in the line of the process when this returns.
    let once = std::future::poll_fn(|context| Poll::Ready(wait.as_mut().poll(context)));
    let early = runtime.block_on(once);
    runtime.spawn(async move {
        let guard = match early {
            Poll::Ready(granted) => granted?,
            Poll::Pending => wait.await?,
        };
        Ok(guard.release().await)
    })
}

/// Goal: the line of a process goes on in another runtime when that of its first ends, and nobody
/// has to wait for a heart-beat. Method: somebody else waits, too. Who is first depends on whether
/// the lock comes free before the store knows where the place is heard now.
#[test]
fn a_runtime_that_ends_leaves_its_place_to_another_one_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let (first, second, main) = (background(), background(), runtime());
        let guard = main.block_on(take(other.mutex("job")));
        let waiting = waits(&first, own.mutex("job"));
        main.block_on(until_waiting(other, "job", 1, &what));
        let next = waits(&second, own.mutex("job"));
        let elsewhere = waits(&main, other.mutex("job"));
        main.block_on(until_waiting(other, "job", 2, &what));
        first.shutdown_timeout(SOON);
        drop(waiting);
        main.block_on(async {
            until_waiting(other, "job", 2, &what).await;
            assert_eq!(guard.release().await, Released::Held, "{what}");
            for waiter in [next, elsewhere] {
                soon(&what, waiter).await.unwrap().unwrap();
            }
            is_free(own, other, &["job"], &what).await;
        });
    }
}

/// Goal: a place is heard where its new owner runs. Method: the runtime of the old one lives, but
/// nothing runs in it any more: what is told there nobody reads.
#[test]
fn a_place_of_a_runtime_that_stands_still_moves_to_another_one_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let (first, second, main) = (runtime(), background(), runtime());
        let guard = main.block_on(take(other.mutex("job")));
        let mut wait = {
            let mutex = own.mutex("job").ttl(TTL);
            Box::pin(async move { mutex.lock().await })
        };
        // Until it has a place, and listens.
        first.block_on(async {
            let _waits = tokio::time::timeout(8 * QUIET, wait.as_mut()).await.unwrap_err();
            until_waiting(other, "job", 1, &what).await;
        });
        let next = waits(&second, own.mutex("job"));
        drop(wait);
        main.block_on(async {
            until_waiting(other, "job", 1, &what).await;
            assert_eq!(guard.release().await, Released::Held, "{what}");
            assert_eq!(soon(&what, next).await.unwrap().unwrap(), Released::Held, "{what}");
        });
        drop(first);
        main.block_on(is_free(own, other, &["job"], &what));
    }
}

#[test]
fn a_runtime_that_ends_while_it_holds_passes_the_lease_to_another_one_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let (first, second, main) = (background(), background(), runtime());
        let mutex = own.mutex("job").ttl(TTL);
        let holding = first.spawn(async move {
            let _guard = mutex.lock().await.unwrap();
            std::future::pending::<()>().await;
        });
        main.block_on(until_waiting(other, "job", 0, &what));
        let next = waits(&second, own.mutex("job"));
        let queued = waits(&first, other.mutex("other"));
        first.shutdown_timeout(SOON);
        main.block_on(async {
            assert!(holding.await.unwrap_err().is_cancelled());
            drop(queued);
            assert_eq!(soon(&what, next).await.unwrap().unwrap(), Released::Held, "{what}");
            is_free(own, other, &["job", "other"], &what).await;
        });
    }
}

#[test]
fn a_runtime_that_ends_takes_its_places_along_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let (first, main) = (background(), runtime());
        let guard = main.block_on(take(other.mutex("job")));
        let places: Vec<_> =
            (0..4).map(|_| waits(&first, own.mutex("job").strict_fifo())).collect();
        main.block_on(until_waiting(other, "job", 4, &what));
        first.shutdown_timeout(SOON);
        drop(places);
        main.block_on(async {
            until_waiting(other, "job", 0, &what).await;
            assert_eq!(guard.release().await, Released::Held, "{what}");
            is_free(own, other, &["job"], &what).await;
        });
    }
}

#[tokio::test]
async fn work_that_panics_leaves_its_lock_to_those_behind_it_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let go = Arc::new(Notify::new());
        let (mutex, begin) = (own.mutex("job").ttl(TTL), Arc::clone(&go));
        let work = tokio::spawn(async move {
            let panics = async move |_| {
                begin.notified().await;
                panic!("of the test");
            };
            mutex.run(panics).await
        });
        until_waiting(other, "job", 0, &what).await;
        let mutex = own.mutex("job").ttl(TTL);
        let behind = tokio::spawn(async move { mutex.run(async |_| 7).await });
        tokio::task::yield_now().await;
        let mutex = other.mutex("job").ttl(TTL);
        let elsewhere = tokio::spawn(async move { mutex.run(async |_| 8).await });
        until_waiting(other, "job", 1, &what).await;
        go.notify_one();
        assert!(soon(&what, work).await.unwrap_err().is_panic());
        assert_eq!(soon(&what, behind).await.unwrap().unwrap(), 7);
        assert_eq!(soon(&what, elsewhere).await.unwrap().unwrap(), 8);
        is_free(own, other, &["job"], &what).await;
    }
}

/// A future may be moved out of its runtime and be dropped anywhere.
#[test]
fn a_wait_that_is_dropped_outside_of_every_runtime_leaves_nothing_on_every_store() {
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let main = runtime();
        for strict in [false, true] {
            for polls in 1..8 {
                let guard = main.block_on(take(other.mutex("job")));
                let mutex = own.mutex("job").ttl(TTL);
                let mutex = if strict { mutex.strict_fifo() } else { mutex };
                let mut wait = Box::pin(mutex.lock());
                main.block_on(async {
                    let woken = Arc::new(Woken(Notify::new()));
                    let waker = Waker::from(Arc::clone(&woken));
                    for _ in 0..polls {
                        let mut context = Context::from_waker(&waker);
                        assert!(wait.as_mut().poll(&mut context).is_pending());
                        let _quiet = tokio::time::timeout(QUIET, woken.0.notified()).await;
                    }
                });
                drop(wait);
                drop(guard);
                main.block_on(is_free(own, other, &["job"], &what));
            }
        }
    }
}

#[test]
fn runtimes_of_one_process_take_turns_on_every_store() {
    const ROUNDS: u64 = 200;
    let stores = Stores::new();
    for (own, other) in &stores.pairs {
        let what = own.store_display();
        let (runtimes, main) = ([background(), background()], runtime());
        let guard = main.block_on(take(other.mutex("job")));
        let inside = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..4)
            .map(|n| {
                let (mutex, inside) = (own.mutex("job").ttl(TTL), Arc::clone(&inside));
                runtimes[n % 2].spawn(async move {
                    let mut last = None;
                    for _ in 0..ROUNDS {
                        let guard = mutex.lock().await.unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(guard.fencing_token() > last);
                        last = guard.fencing_token();
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        guard.release().await;
                    }
                })
            })
            .collect();
        main.block_on(async {
            until_waiting(other, "job", 1, &what).await;
            guard.release().await;
            for task in tasks {
                tokio::time::timeout(4 * SOON, task).await.expect("it ends").unwrap();
            }
            is_free(own, other, &["job"], &what).await;
        });
    }
}

/// Goal: many threads, many tasks, dropped at random moments: no two hold, nobody is stalled, and
/// nothing is left. For three seconds; for thirty with `FENCELOCK_SOAK`.
#[test]
fn tasks_of_many_threads_that_are_dropped_at_any_moment_stall_nobody() {
    const TASKS: u64 = 24;
    let seconds = if std::env::var_os("FENCELOCK_SOAK").is_some() { 30 } else { 3 };
    let stores = Stores::new();
    let (own, other) = stores.pairs.last().unwrap();
    let workers =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let holds = Arc::new(Holds::default());
    workers.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                let client = if n % 8 == 7 { other.clone() } else { own.clone() };
                let holds = Arc::clone(&holds);
                tokio::spawn(async move {
                    let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(n + 1);
                    while Instant::now() < end {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let mutex = client.mutex("job").ttl(TTL);
                        let mutex = match random % 11 {
                            0 => mutex.strict_fifo(),
                            1 => mutex.barging(),
                            2 => mutex.wait(Duration::from_micros(random % 2_000)),
                            3 => mutex.ttl(2 * TTL),
                            _ => mutex,
                        };
                        let (clock, holds) = (client.clock(), Arc::clone(&holds));
                        let work = async move {
                            let Ok(guard) = mutex.lock().await else { return };
                            let mut inside = Inside::new(guard, clock, &holds);
                            tokio::task::yield_now().await;
                            let Some(guard) = inside.leave() else { return };
                            if random & 64 == 0 {
                                drop(guard);
                            } else {
                                guard.release().await;
                            }
                        };
                        let dropped_after = random >> 60;
                        if dropped_after < 8 {
                            let mut work = Box::pin(work);
                            for _ in 0..dropped_after {
                                let once = std::future::poll_fn(|context| {
                                    Poll::Ready(work.as_mut().poll(context).is_ready())
                                });
                                if once.await {
                                    break;
                                }
                                tokio::task::yield_now().await;
                            }
                        } else {
                            tokio::time::timeout(4 * SOON, work).await.expect("nobody is stalled");
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        is_free(own, other, &["job"], "after the stress").await;
    });
    let grants = holds.check();
    println!("{grants} grants in {seconds} s");
    assert!(grants > 100 * seconds, "{grants} grants in {seconds} s");
}

/// Every hold there was, as long as it was certainly valid.
#[derive(Default)]
struct Holds(std::sync::Mutex<Vec<(Moment, Moment, String)>>);

impl Holds {
    /// How many there were; no two at the same time.
    fn check(&self) -> u64 {
        let mut holds = self.0.lock().unwrap();
        holds.sort();
        for pair in holds.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two held it: {pair:#?}");
        }
        holds.len() as u64
    }
}

/// A guard that is in use.
struct Inside {
    guard: Option<Guard>,
    clock: Clock,
    since: Moment,
    holds: Arc<Holds>,
}

impl Inside {
    fn new(guard: Guard, clock: Clock, holds: &Arc<Holds>) -> Self {
        let since = clock.now();
        Self { guard: Some(guard), clock, since, holds: Arc::clone(holds) }
    }

    fn leave(&mut self) -> Option<Guard> {
        let guard = self.guard.take()?;
        let until = self.clock.now();
        // A machine that stands still for longer than a claim makes a hold that is over.
        if guard.is_valid() {
            let hold = (self.since, until, format!("{guard:?}"));
            self.holds.0.lock().unwrap().push(hold);
        } else {
            eprintln!(
                "over before it ended: {guard:?}, after {:?}",
                until.saturating_since(self.since)
            );
        }
        Some(guard)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        drop(self.leave());
    }
}
