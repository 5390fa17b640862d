//! What is left at the store when everybody has gone: nothing, and everybody new is granted at once.

use std::time::Duration;

use fencelock::{Client, Inspection};
use fencelock_testkit::eventually;

use crate::{
    deeds::{LOCKS, LONGEST_TTL, SEMAPHORES, WAIT},
    worker,
};

/// The place of a waiter that was killed may stay for half a minute; the rest is for machines that
/// have better things to do.
const LIMIT: Duration = Duration::from_secs(240);

/// Each name is granted whole, nobody waits for it any more, and then nobody holds it.
pub(crate) fn assert_none(url: &str) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let client = worker::client(url);
    for name in LOCKS {
        let mutex = client.mutex(name).ttl(LONGEST_TTL).wait(WAIT);
        let guard = runtime.block_on(mutex.lock()).expect("nobody holds it any more");
        until_nobody_waits(&runtime, &client, name);
        runtime.block_on(guard.release());
    }
    for (name, limit) in SEMAPHORES {
        let semaphore = client.semaphore(name, limit).ttl(LONGEST_TTL).wait(WAIT);
        let all = runtime.block_on(semaphore.acquire_many(limit));
        let permits = all.expect("nobody has any of them any more");
        until_nobody_waits(&runtime, &client, name);
        runtime.block_on(permits.release());
    }
    assert_meetings_take_place(&runtime, &client);
    for prefix in ["lock-", "permits-", "barrier-"] {
        eventually(LIMIT, &format!("nobody holds {prefix}"), || {
            runtime.block_on(client.list(prefix)).is_ok_and(|locks| locks.is_empty())
        });
    }
    runtime.block_on(client.close());
}

fn until_nobody_waits(runtime: &tokio::runtime::Runtime, client: &Client, name: &str) {
    eventually(LIMIT, &format!("nobody waits for {name}"), || {
        match runtime.block_on(client.inspect(name)) {
            Ok(Inspection::Held(holder)) => {
                let holders = holder.sharing.as_ref().map_or(1, |sharing| sharing.holders);
                assert_eq!(holders, 1, "somebody is beside one who holds it whole: {holder:?}");
                holder.waiting == 0
            }
            // It is asked again.
            Err(error) if error.is_unavailable() || error.is_unknown() => false,
            other => panic!("it is held: {other:?}"),
        }
    });
}

/// A latch opens, and a barrier is passed.
fn assert_meetings_take_place(runtime: &tokio::runtime::Runtime, client: &Client) {
    runtime.block_on(async {
        let latch = client.latch("latch-last", 2).ttl(LONGEST_TTL * 60).wait_limit(WAIT);
        let (open, one, other) = tokio::join!(latch.wait(), latch.count_down(), latch.count_down());
        one.and(other).and(open).expect("it opens");
        let barrier = client.barrier("barrier-last", 2).ttl(LONGEST_TTL * 2).wait_limit(WAIT);
        let (one, other) = tokio::join!(barrier.wait(), barrier.wait());
        let (one, other) = (one.expect("both came"), other.expect("both came"));
        assert_eq!(one.number(), other.number());
    });
}
