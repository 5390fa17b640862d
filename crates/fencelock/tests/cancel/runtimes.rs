//! Runtimes that end, or stand still, while their tasks hold and wait; work that panics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use fencelock::{Error, Mutex, Released};
use tokio::{runtime::Runtime, sync::Notify, task::JoinHandle};

use crate::stores::{
    QUIET, SOON, Stores, TTL, background, is_free, runtime, soon, take, until_waiting,
};

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
