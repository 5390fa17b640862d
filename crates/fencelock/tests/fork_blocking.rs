//! The child of a fork has no thread that drives blocking calls: none of them hangs there, and the
//! parent's go on.
//!
//! In a test binary of its own, with a single test: the child of a process with other threads may
//! do very little.
#![cfg(feature = "blocking")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{sync::Arc, time::Duration};

use fencelock::{
    Client, ErrorKind, LossReason, MemoryStore, Moment, Released, Store, blocking,
    store::{FaultyStore, Verb},
};

/// What the child found, as its exit code: zero is all well.
fn child(client: blocking::Client, guard: blocking::Guard, calls: impl Fn() -> u64) -> i32 {
    let before = calls();
    let is_closed = |error: fencelock::Error| error.kind() == ErrorKind::Closed;
    if guard.is_valid() || guard.lost() != LossReason::Forked {
        return 1;
    }
    if guard.lost_within(Duration::from_secs(60)) != Some(LossReason::Forked) {
        return 2;
    }
    if !guard.renew(Duration::from_secs(30)).is_err_and(|error| error.is_lost()) {
        return 3;
    }
    if guard.revoked_within(Duration::from_secs(60))
        || guard.deadline_changed(guard.deadline()) != Moment::START
    {
        return 4;
    }
    let mutex = client.mutex("another");
    let refused = [
        mutex.lock().map(drop),
        mutex.try_lock().map(drop),
        mutex.run(|_held| ()),
        client.inspect("job").map(drop),
        client.connect_now(),
    ];
    if !refused.into_iter().all(|result| result.is_err_and(is_closed)) {
        return 5;
    }
    if guard.release() != Released::Unknown {
        return 6;
    }
    drop(mutex);
    client.close();
    if calls() == before { 0 } else { 7 }
}

#[test]
fn no_blocking_call_hangs_in_the_child_of_a_fork() {
    let store = FaultyStore::new(MemoryStore::new());
    let client = Client::with_store(Arc::new(store.clone()) as Arc<dyn Store>);
    let client = blocking::Client::new(client).unwrap();
    let mutex = client.mutex("job").ttl(Duration::from_secs(2));
    let guard = mutex.lock().unwrap();
    drop(mutex);
    let calls = {
        let store = store.clone();
        move || {
            let verbs = [Verb::Acquire, Verb::Release, Verb::Renew, Verb::Inspect];
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

    // The lease of the parent goes on, and so does the thread that drives its calls.
    for _ in 0..2 {
        let before = guard.deadline();
        assert!(guard.deadline_changed(before) > before, "it is renewed");
    }
    assert!(!guard.revoked_within(Duration::from_millis(1)), "a timer of the runtime");
    assert_eq!(guard.release(), Released::Held);
}
