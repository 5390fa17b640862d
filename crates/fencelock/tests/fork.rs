//! A fork copies guards, but not leases: the child neither counts on them nor gives them back.
//!
//! In a test binary of its own, with a single test: the child of a process with other threads may
//! do very little.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{sync::Arc, time::Duration};

use fencelock::{
    Client, ErrorKind, LeaseState, LossReason, MemoryStore, Released, Store,
    store::{FaultyStore, Verb},
};

/// What the child found, as its exit code: zero is all well.
fn child(client: Client, guard: fencelock::Guard, calls: impl Fn() -> u64) -> i32 {
    let before = calls();
    if guard.is_valid() || !guard.validity_left().is_zero() {
        return 1;
    }
    if guard.state() != LeaseState::Lost(LossReason::Forked) {
        return 2;
    }
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    {
        let lost = std::pin::pin!(guard.lost());
        if lost.poll(&mut context) != std::task::Poll::Ready(LossReason::Forked) {
            return 3;
        }
        let renew = std::pin::pin!(guard.renew(Duration::from_secs(30)));
        match renew.poll(&mut context) {
            std::task::Poll::Ready(Err(error)) if error.is_lost() => {}
            _ => return 4,
        }
    }
    let mutex = client.mutex("another");
    {
        let lock = std::pin::pin!(mutex.lock());
        match lock.poll(&mut context) {
            std::task::Poll::Ready(Err(error)) if error.kind() == ErrorKind::Closed => {}
            _ => return 5,
        }
    }
    drop(guard);
    drop(mutex);
    drop(client);
    if calls() == before { 0 } else { 6 }
}

#[test]
fn the_child_of_a_fork_has_no_lock_and_gives_none_back() {
    let store = FaultyStore::new(MemoryStore::new());
    let client = Client::with_store(Arc::new(store.clone()) as Arc<dyn Store>);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mutex = client.mutex("job").ttl(Duration::from_millis(600));
    let guard = runtime.block_on(mutex.lock()).unwrap();
    drop(mutex);
    let calls = {
        let store = store.clone();
        move || {
            let verbs = [Verb::Acquire, Verb::Release, Verb::Renew, Verb::ExchangeToken];
            verbs.into_iter().map(|verb| store.calls(verb)).sum()
        }
    };

    // SAFETY: the child calls nothing that needs another thread, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system forks");
    if pid == 0 {
        let code = child(client, guard, calls);
        // SAFETY: it ends the child without running what the parent registered for its exit.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` lives as long as the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    assert!(libc::WIFEXITED(status), "the child ended by itself: {status}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "what the child found");

    // The lease of the parent goes on: it lives longer than its ttl.
    let before = guard.deadline();
    let renewed = runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(10), guard.deadline_changed(before)).await
    });
    assert!(renewed.is_ok_and(|deadline| deadline > before), "it is renewed");
    assert!(guard.is_valid());
    assert_eq!(runtime.block_on(guard.release()), Released::Held);
}
