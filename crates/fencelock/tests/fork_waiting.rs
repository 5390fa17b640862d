//! A fork copies waits and turns, but neither places nor leases: the child gives up none of them, and
//! tells none of the parent's tasks anything.
//!
//! In a test binary of its own, with a single test: the child of a process with other threads may
//! do very little.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock::{
    Client, Error, ErrorKind, Guard, Inspection, MemoryStore, Queued, Released, Store,
    store::{FaultyStore, Verb},
};
use fencelock_testkit::RedisServer;
use tokio::runtime::Runtime;

const SOON: Duration = Duration::from_secs(5);
/// Renewed many times while this runs.
const TTL: Duration = Duration::from_millis(900);

type Wait = Pin<Box<dyn Future<Output = Result<Guard, Error>>>>;

/// Polls so that whatever can be done is done, and it waits.
async fn begun(wait: &mut Wait) {
    for _ in 0..20 {
        let once = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_pending()));
        assert!(once.await, "somebody else has it");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn wait_for(client: &Client, name: &str) -> Wait {
    let mutex = client.mutex(name).ttl(TTL);
    Box::pin(async move { mutex.lock().await })
}

/// All that the process has when it forks.
struct Parent {
    client: Client,
    /// Held, with a task behind it.
    guard: Guard,
    behind_guard: Wait,
    /// Waits at the store, with a task behind it.
    first: Wait,
    behind_first: Wait,
    queued: Queued,
}

/// What the child found, as its exit code: zero is all well.
fn child(parent: Parent, calls: impl Fn() -> u64) -> i32 {
    let before = calls();
    let Parent { client, guard, behind_guard, first, behind_first, mut queued } = parent;
    let mut context = Context::from_waker(Waker::noop());
    if guard.is_valid() {
        return 1;
    }
    let mutex = client.mutex("waited");
    for strict in [false, true] {
        let mutex = if strict { mutex.clone().strict_fifo() } else { mutex.clone() };
        let lock = std::pin::pin!(mutex.lock());
        match lock.poll(&mut context) {
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::Closed => {}
            _ => return 2,
        }
    }
    {
        let granted = std::pin::pin!(queued.granted());
        match granted.poll(&mut context) {
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::Closed => {}
            _ => return 3,
        }
    }
    {
        let released = std::pin::pin!(guard.release());
        if released.poll(&mut context) != Poll::Ready(Released::Unknown) {
            return 4;
        }
    }
    drop((behind_guard, first, behind_first, queued, mutex, client));
    if calls() == before { 0 } else { 5 }
}

fn forked(runtime: &Runtime, own: &Client, other: &Client, calls: impl Fn() -> u64) {
    let (blocker, parent) = runtime.block_on(async {
        let blocker = other.mutex("waited").ttl(TTL).lock().await.unwrap();
        let guard = own.mutex("held").ttl(TTL).lock().await.unwrap();
        let mut behind_guard = wait_for(own, "held");
        begun(&mut behind_guard).await;
        let mut first = wait_for(own, "waited");
        begun(&mut first).await;
        let mut behind_first = wait_for(own, "waited");
        begun(&mut behind_first).await;
        let queued = own.mutex("waited").ttl(TTL).enqueue().await.unwrap();
        (blocker, Parent { client: own.clone(), guard, behind_guard, first, behind_first, queued })
    });

    // SAFETY: the child calls nothing that needs another thread, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system forks");
    if pid == 0 {
        let code = child(parent, calls);
        // SAFETY: it ends the child without running what the parent registered for its exit.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` lives as long as the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    assert!(libc::WIFEXITED(status), "the child ended by itself: {status}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "what the child found");

    let Parent { guard, behind_guard, first, behind_first, mut queued, .. } = parent;
    runtime.block_on(async {
        let seen = other.inspect("waited").await.unwrap();
        assert!(matches!(&seen, Inspection::Held(holder) if holder.waiting == 2), "{seen:?}");
        // The lease of the parent goes on: it lives longer than its ttl.
        for _ in 0..3 {
            let seen = guard.deadline();
            assert!(within(guard.deadline_changed(seen)).await > seen, "it is renewed");
        }
        let fencing = guard.fencing_token();
        assert_eq!(guard.release().await, Released::Held);
        let passed = within(behind_guard).await.unwrap();
        assert!(passed.fencing_token() > fencing);
        passed.release().await;
        // The places are as they were.
        assert_eq!(blocker.release().await, Released::Held);
        assert_eq!(within(first).await.unwrap().release().await, Released::Held);
        let (rest, place) =
            tokio::join!(async { within(behind_first).await.unwrap().release().await }, async {
                within(queued.granted()).await.unwrap().release().await
            },);
        assert_eq!((rest, place), (Released::Held, Released::Held));
    });
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("it ends")
}

#[test]
fn the_child_of_a_fork_gives_up_no_place_and_no_turn() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let memory = MemoryStore::new();
    let store = FaultyStore::new(memory.another_client());
    let own = Client::with_store(Arc::new(store.clone()) as Arc<dyn Store>);
    let calls = move || {
        let verbs = [Verb::Acquire, Verb::Release, Verb::Renew, Verb::Listen];
        verbs.into_iter().map(|verb| store.calls(verb)).sum()
    };
    forked(&runtime, &own, &Client::with_store(Arc::new(memory)), calls);

    let server = RedisServer::start();
    let client = || Client::builder(server.url()).build().unwrap();
    forked(&runtime, &client(), &client(), || 0);
}
