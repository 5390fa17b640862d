//! Scoped streams: when the lock is taken, what ends the hold, and in which order.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
};

use fencelock::{Error, LossReason, Renew, store::Verb};
use futures_util::{Stream, StreamExt as _, stream};

use crate::world::{World, now, secs, until};

/// Polls once.
fn poll<S: Stream + Unpin>(items: &mut S) -> Poll<Option<S::Item>> {
    Pin::new(items).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// Numbers without end, each of them given only when asked for; says when it is dropped.
fn numbers(dropped: &Arc<AtomicBool>) -> impl Stream<Item = u32> + Unpin + use<> {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let flag = Flag(Arc::clone(dropped));
    stream::iter(0..).map(move |number| {
        let _kept = &flag;
        number
    })
}

#[tokio::test]
async fn nothing_is_asked_before_the_first_poll_and_the_work_is_made_under_the_lock() {
    let world = World::new();
    let made = AtomicU32::new(0);
    let mutex = world.mutex("job");
    let mut items = mutex.run_stream(|held| {
        made.fetch_add(1, Ordering::SeqCst);
        assert!(world.is_held("job") && held.is_valid());
        stream::iter([held.fencing_token()])
    });
    // It borrows nothing of its recipe.
    drop(mutex);
    tokio::task::yield_now().await;
    assert_eq!((made.load(Ordering::SeqCst), world.faulty.calls(Verb::Acquire)), (0, 0));
    assert!(items.next().await.unwrap().unwrap().is_some());
    assert_eq!(made.load(Ordering::SeqCst), 1);
    assert!(items.next().await.is_none());
    assert!(!world.is_held("job"), "at once, not some time later");
    assert_eq!(world.keeper(), (0, 0));
    assert!(items.next().await.is_none(), "it stays over");
}

/// Goal: the first item is not the end of the hold, nor is a pause of the source or of the consumer
/// that is longer than the ttl.
#[tokio::test]
async fn every_item_is_made_under_the_lock_however_long_it_takes() {
    let world = World::new();
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel::<&str>();
    let source = stream::poll_fn(move |cx| receive.poll_recv(cx));
    let mut items = world.mutex("job").ttl(secs(9)).run_stream(|_held| source);
    let first = world.holder_token("job");
    assert!(first.is_none());
    for round in 0..4 {
        assert!(poll(&mut items).is_pending(), "the source has nothing");
        let holder = world.holder_token("job");
        for _ in 0..10 {
            let left = world.left("job");
            world.clock.advance(secs(3));
            until("it is renewed", || world.left("job") > left.saturating_sub(secs(3))).await;
        }
        send.send("item").unwrap();
        assert!(matches!(poll(&mut items), Poll::Ready(Some(Ok("item")))), "round {round}");
        assert_eq!(world.holder_token("job"), holder, "by the same grant");
    }
    drop(send);
    assert!(items.next().await.is_none());
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn a_loss_drops_the_stream_and_is_the_last_item() {
    let world = World::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let mutex = world.mutex("job").ttl(secs(9));
    let mut items = mutex.run_stream(|_held| numbers(&dropped));
    assert_eq!(items.next().await.unwrap().unwrap(), 0);
    world.delete("job");
    let next = world.taken_by_another("job");
    world.clock.advance(secs(3));
    until("the keeper heard of it", || world.keeper().0 == 0).await;
    // The source has more; none of it is asked for.
    let error = items.next().await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(LossReason::Taken), "{error}");
    assert!(dropped.load(Ordering::SeqCst), "before the loss is told");
    assert!(items.next().await.is_none());
    assert_eq!(world.holder_token("job"), Some(next.to_hex().to_vec()));
}

#[tokio::test]
async fn a_consumer_that_waits_is_woken_by_the_loss() {
    let world = World::new();
    let mutex = world.mutex("job").ttl(secs(9)).renewal(Renew::Manual);
    let consumer = tokio::spawn(async move {
        let mut items = mutex.run_stream(|_held| stream::pending::<u32>());
        let first = items.next().await;
        (first, items.next().await.is_none())
    });
    until("it is held", || world.is_held("job")).await;
    world.clock.advance(secs(9));
    let (first, is_over) = consumer.await.unwrap();
    assert!(first.unwrap().unwrap_err().is_lost() && is_over);
}

#[tokio::test]
async fn an_item_that_was_made_past_the_end_is_not_handed_on() {
    let world = World::new();
    let clock = world.clock.clone();
    let mutex = world.mutex("job").ttl(secs(9)).renewal(Renew::Manual);
    let mut items = mutex.run_stream(|_held| {
        stream::iter(1..=3).inspect(move |&number| {
            if number == 2 {
                clock.advance(secs(9));
            }
        })
    });
    assert_eq!(items.next().await.unwrap().unwrap(), 1);
    assert!(items.next().await.unwrap().unwrap_err().is_lost());
    assert!(items.next().await.is_none());
}

#[tokio::test]
async fn a_release_that_finds_the_lock_taken_is_the_last_item() {
    let world = World::new();
    let mut items = world.mutex("job").ttl(secs(9)).run_stream(|_held| stream::iter([1]));
    assert_eq!(items.next().await.unwrap().unwrap(), 1);
    world.delete("job");
    let _next = world.taken_by_another("job");
    let error = items.next().await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(LossReason::Taken));
    assert!(items.next().await.is_none());
}

#[tokio::test]
async fn a_result_is_an_item_like_any_other() {
    let world = World::new();
    let rows = [Ok(1), Err("wrong"), Ok(3)];
    let mut items = world.mutex("job").run_stream(|_held| stream::iter(rows));
    for row in rows {
        assert_eq!(items.next().await.unwrap().unwrap(), row);
        assert!(world.is_held("job"));
    }
    assert!(items.next().await.is_none());
}

/// What a stream of the user's fails with.
#[derive(Debug)]
enum Failure {
    Lock(Error),
    Row(&'static str),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

#[tokio::test]
async fn a_stream_that_fails_gives_the_lock_back_before_its_failure_is_told() {
    let world = World::new();
    let rows = || stream::iter([Ok(1), Err(Failure::Row("wrong")), Ok(3)]);
    let mut items = world.mutex("job").run_try_stream(|_held| rows());
    assert!(matches!(items.next().await, Some(Ok(1))));
    assert!(world.is_held("job"));
    assert!(matches!(items.next().await, Some(Err(Failure::Row("wrong")))));
    assert!(!world.is_held("job"));
    assert_eq!(world.keeper(), (0, 0));
    assert!(items.next().await.is_none());

    // Both are told where both happened, each by its own item.
    let mut items = world.mutex("job").run_try_stream(|_held| rows());
    assert!(matches!(items.next().await, Some(Ok(1))));
    world.delete("job");
    let _next = world.taken_by_another("job");
    assert!(matches!(items.next().await, Some(Err(Failure::Row("wrong")))));
    assert!(matches!(items.next().await, Some(Err(Failure::Lock(error))) if error.is_lost()));
    assert!(items.next().await.is_none());
}

#[tokio::test]
async fn a_lock_that_can_not_be_had_is_the_only_item() {
    let world = World::new();
    let _other = world.taken_by_another("job");
    let mutex = world.mutex("job").wait(secs(0));
    let mut items = mutex.run_stream(|_held| -> stream::Empty<u32> { panic!("it is not granted") });
    assert!(items.next().await.unwrap().unwrap_err().is_wait_expired());
    assert!(items.next().await.is_none());
    let mut rows = mutex.run_try_stream(|_held| -> stream::Empty<Result<u32, Failure>> {
        panic!("it is not granted")
    });
    assert!(matches!(rows.next().await, Some(Err(Failure::Lock(_)))));
    assert!(rows.next().await.is_none());
}

#[tokio::test]
async fn a_panic_inside_gives_the_lock_back_and_ends_the_stream() {
    let world = World::new();
    let mut items = world.mutex("job").run_stream(|_held| {
        stream::iter(1..=3).inspect(|&number| assert!(number < 2, "on purpose"))
    });
    assert_eq!(items.next().await.unwrap().unwrap(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut items))).is_err());
    until("it is free", || !world.is_held("job")).await;
    assert!(items.next().await.is_none(), "and no second panic");
}

#[tokio::test]
async fn dropping_it_drops_the_stream_first_and_then_gives_the_lock_back() {
    let world = World::new();
    let world = Arc::new(world);
    /// Sees whether the lock is still held when it is dropped.
    struct Look(Arc<World>, Arc<AtomicBool>);
    impl Drop for Look {
        fn drop(&mut self) {
            self.1.store(self.0.is_held("job"), Ordering::SeqCst);
        }
    }
    let was_held = Arc::new(AtomicBool::new(false));
    let look = Look(Arc::clone(&world), Arc::clone(&was_held));
    let mut items = world.mutex("job").run_stream(|_held| {
        stream::iter(0..).inspect(move |_| {
            let _kept = &look;
        })
    });
    assert_eq!(items.next().await.unwrap().unwrap(), 0);
    drop(items);
    assert!(was_held.load(Ordering::SeqCst), "what it guards is gone before");
    until("it is free", || !world.is_held("job")).await;
}

#[tokio::test]
async fn nesting_is_told_inside_of_the_stream_and_nowhere_else() {
    let world = World::new();
    let (client, inner) = (world.client.clone(), world.client.clone());
    let mut items = world.mutex("job").run_stream(|_held| {
        stream::iter(1..=2).then(move |_| {
            let client = client.clone();
            async move { client.mutex("job").lock().await.map(drop).unwrap_err().is_already_held() }
        })
    });
    assert!(items.next().await.unwrap().unwrap());
    // The consumer is outside: to it the lock is busy.
    assert!(now(inner.mutex("job").try_lock()).is_some_and(|answer| answer.is_ok()));
    assert!(items.next().await.unwrap().unwrap());
    assert!(items.next().await.is_none());
    // A stream inside of a run is nested, too.
    let outer = world.mutex("job");
    let nested = outer.run(|_held| {
        let mut items = inner.mutex("job").run_stream(|_held| stream::iter([1]));
        async move { items.next().await.unwrap().unwrap_err().is_already_held() }
    });
    assert!(nested.await.unwrap());
}

#[tokio::test]
async fn a_set_across_slots_is_held_until_its_stream_ends() {
    let world = World::new();
    let set = world.client.mutexes(["a", "b"]).across_slots();
    let mut items = set.run_stream(|held| stream::iter([held.fencing_token()]));
    assert!(items.next().await.unwrap().unwrap().is_some());
    assert!(world.is_held("a") && world.is_held("b"));
    assert!(items.next().await.is_none());
    assert!(!world.is_held("a") && !world.is_held("b"));

    let mut items = set.run_stream(|_held| stream::iter([1]));
    assert_eq!(items.next().await.unwrap().unwrap(), 1);
    world.delete("b");
    let _next = world.taken_by_another("b");
    assert!(items.next().await.unwrap().unwrap_err().is_lost());
    assert!(items.next().await.is_none());
}
