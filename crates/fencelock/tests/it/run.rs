//! Scoped work.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fencelock::{Client, LossReason, Renew, store::Verb};

use crate::world::{World, millis, now, secs, until};

#[tokio::test]
async fn the_work_runs_under_the_lock_and_its_result_comes_back() {
    let world = World::new();
    let seen = world
        .mutex("job")
        .run(|held| async move {
            let names = held.names().to_string();
            (held.is_valid(), held.fencing_token().is_some(), names)
        })
        .await
        .unwrap();
    assert_eq!(seen, (true, true, "job".to_owned()));
    assert!(!world.is_held("job"));
}

/// Sets a flag when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn the_work_is_dropped_when_the_lock_is_lost() {
    let world = World::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(Arc::clone(&dropped));
    let mutex = world.mutex("job").ttl(secs(9));
    let work = tokio::spawn(async move {
        mutex
            .run(|_held| async move {
                let _flag = flag;
                std::future::pending::<()>().await;
            })
            .await
    });
    until("it is held", || world.is_held("job")).await;
    world.delete("job");
    let next = world.taken_by_another("job");
    world.clock.advance(secs(3));
    let error = work.await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(LossReason::Taken), "{error}");
    assert!(error.to_string().contains("3s") && error.to_string().contains("job"), "{error}");
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(world.holder_token("job"), Some(next.to_hex().to_vec()));
}

#[tokio::test]
async fn work_that_outlives_its_lease_is_not_called_a_success() {
    let world = World::new();
    let clock = world.clock.clone();
    let mutex = world.mutex("job").ttl(millis(200)).renewal(Renew::Manual);
    let result = mutex.run(|_held| async move { clock.advance(millis(500)) }).await;
    let error = result.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("500ms"), "{error}");

    // Renewed, the same work is a success.
    let clock = world.clock.clone();
    let mutex = world.mutex("job").ttl(millis(200));
    let work = mutex.run(|held| async move {
        for _ in 0..5 {
            let before = held.deadline();
            clock.advance(millis(100));
            until("it is renewed", || held.deadline() > before).await;
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn after_a_pause_no_step_of_the_work_comes_before_the_loss() {
    let world = World::new();
    let mutex = world.mutex("job").ttl(secs(3)).renewal(Renew::Manual);
    let (step, mut next) = tokio::sync::mpsc::channel::<()>(1);
    let stepped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stepped);
    let mut run = Box::pin(mutex.run(|_held| async move {
        next.recv().await;
        seen.store(true, Ordering::SeqCst);
    }));
    assert!(now(run.as_mut()).is_none());
    // Its next step is ready, and the lease is over: the step is not taken.
    step.send(()).await.unwrap();
    world.clock.advance(secs(4));
    assert!(run.await.unwrap_err().is_lost());
    assert!(!stepped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_lock_that_vanished_during_the_work_is_told_at_the_end() {
    let world = World::new();
    let world = Arc::new(world);
    let inner = Arc::clone(&world);
    let result = world.mutex("job").run(|_held| async move { inner.delete("job") }).await;
    assert!(result.unwrap_err().is_lost());
    let inner = Arc::clone(&world);
    let result = world
        .mutex("job")
        .run(|_held| async move {
            inner.delete("job");
            inner.taken_by_another("job");
        })
        .await;
    assert_eq!(result.unwrap_err().loss(), Some(LossReason::Taken));
}

#[tokio::test]
async fn nesting_the_same_name_is_told_at_once_and_nothing_is_sent() {
    let world = World::new();
    let client = world.client.clone();
    let outer = world.client.mutexes(["a", "b"]);
    let kinds = outer
        .run(|_held| async move {
            let calls = |error: fencelock::Error| error.kind();
            let lock = client.mutex("a").lock().await.map(drop).unwrap_err();
            let again = client.mutexes(["b", "c"]).try_lock().await.map(drop).unwrap_err();
            let run = client.mutex("b").run(|_| async {}).await.unwrap_err();
            // Another name is no nesting, and inside it both are known.
            let deep = client.clone();
            let deep = client
                .mutex("d")
                .run(|_| async move { deep.mutex("a").lock().await.map(drop).unwrap_err() })
                .await
                .unwrap();
            [lock, again, run, deep].map(calls)
        })
        .await
        .unwrap();
    assert_eq!(kinds, [fencelock::ErrorKind::AlreadyHeld; 4]);
    assert_eq!(world.faulty.calls(Verb::Acquire), 2);
    // Another store with the same name is another lock.
    let other = Client::builder("memory:").build().unwrap();
    let nested =
        world.mutex("a").run(|_| async move { other.mutex("a").run(|_| async { 7 }).await }).await;
    assert_eq!(nested.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn the_lock_is_free_when_run_returns_whatever_the_work_returned() {
    let world = World::new();
    let result: Result<Result<(), &str>, _> =
        world.mutex("job").run(|_| async { Err("the work failed") }).await;
    assert_eq!(result.unwrap(), Err("the work failed"));
    assert!(!world.is_held("job"));
    assert_eq!(world.keeper(), (0, 0));
}
