//! Several who hold one name on a cluster: what they wait for is told in its slot, and a slot moves
//! with them.

mod support;

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, Inspection, LimitSet, Mode, Released,
    Renewed, SetLimitRequest, Wakeup,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Store, StoreErrorKind};
use fencelock_testkit::RedisCluster;
use support::{
    Ear, granted, inspect, key_of, name, release, renew, soon, store_at, take, token, ttl, waits,
    within,
};

fn shared(at: &str) -> AcquireRequest {
    let mut request = AcquireRequest::new(name(at), token(), ttl(30_000));
    request.mode = Mode::Shared;
    request
}

async fn ask(store: &RedisStore, request: &AcquireRequest) -> Acquired {
    store.acquire(request, soon(store)).await.expect("the servers answer").answer
}

fn is_told(ear: &Ear, request: &AcquireRequest) -> bool {
    let of = |heard: &Wakeup| matches!(heard, Wakeup::Granted(to) if to.token == request.token);
    ear.heard().iter().any(of)
}

#[tokio::test]
async fn readers_are_let_in_on_every_server_and_semaphores_have_their_limit() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    let ear = Arc::new(Ear::default());
    let subscription = store.listen(ear.clone(), soon(&store)).await.expect("a subscription");
    for at in ["job:{1}", "job:2", "job:3", "job:4", "job:5"] {
        let writer = token();
        let _ = take(&store, at, writer).await;
        let mut readers = Vec::new();
        for _ in 0..2 {
            let mut reader = waits(at, Some(subscription.listener));
            reader.mode = Mode::Shared;
            assert!(matches!(ask(&store, &reader).await, Acquired::Queued(_)), "{at}");
            readers.push(reader);
        }
        let down = DowngradeRequest::new(name(at), writer);
        let down = store.downgrade(&down, soon(&store)).await.expect("an answer").answer;
        assert!(matches!(down, Downgraded::Shared { .. }), "{at}: {down:?}");
        ear.until("both are told", |ear| readers.iter().all(|one| is_told(ear, one))).await;
        assert_eq!(release(&store, at, writer).await.ok(), Some(Released::Held), "{at}");
        for reader in readers {
            assert_eq!(release(&store, at, reader.token).await.ok(), Some(Released::Held), "{at}");
        }
        let limit = SetLimitRequest::new(name(at), 3);
        let set = store.set_limit(&limit, soon(&store)).await.expect("an answer").answer;
        assert_eq!(set, LimitSet::Set { before: None, used: 0 }, "{at}");
    }
}

/// Goal: those who hold a name go with its slot, and nothing is lost on the way. Method: the keys move
/// by hand. To make a hash of a string is to delete it, which a server must not do while it gives the
/// slot away: whoever would be the first to share a name has to wait then.
#[tokio::test]
async fn those_who_hold_a_name_move_with_its_slot() {
    let cluster = RedisCluster::start();
    let store = store_at(&cluster.url(), Dialect::Native);
    // Two names of one slot: several hold the one, and the other is free, with a memory.
    let (held, free, writer) = ("job:{x}", "free:{x}", token());
    let (first, second, third) = (shared(held), shared(held), shared(held));
    let _ = granted(store.acquire(&first, soon(&store)).await);
    let _ = take(&store, free, writer).await;
    let before = take(&store, free, writer).await.fence.token();
    assert_eq!(release(&store, free, writer).await.ok(), Some(Released::Held));
    let slot = cluster.slot(&key_of(Dialect::Native, &name(held)));
    let from = cluster.primary(slot);
    let to = (from + 1) % 3;
    cluster.begin_move(slot, to);
    // Not moved yet.
    let _ = granted(store.acquire(&second, soon(&store)).await);
    assert!(matches!(renew(&store, held, first.token).await, Ok(Renewed::Extended { .. })));
    let reader = shared(free);
    let error = store.acquire(&reader, within(&store, 400)).await.expect_err("it has to wait");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    let Inspection::Free { fencing_token } = inspect(&store, free).await else {
        panic!("nobody has it");
    };
    assert_eq!(fencing_token, before, "its memory is there");
    cluster.migrate_keys(slot, to);
    // At the new server, behind ASK.
    let _ = granted(store.acquire(&third, soon(&store)).await);
    let _ = granted(store.acquire(&reader, soon(&store)).await);
    for one in [&first, &second, &third] {
        assert!(matches!(renew(&store, held, one.token).await, Ok(Renewed::Extended { .. })));
    }
    cluster.end_move(slot, to);
    for one in [&first, &second, &third] {
        assert_eq!(release(&store, held, one.token).await.ok(), Some(Released::Held));
    }
    assert_eq!(release(&store, free, reader.token).await.ok(), Some(Released::Held));
}
