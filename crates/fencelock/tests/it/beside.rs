//! Several who hold one name together, on a clock that a test moves: leases of their own, nesting,
//! losses, faults.

use fencelock::{
    Attempt, Error, ErrorKind, LossReason, Part, Permit, ReadGuard, Released, Renew, Revoked, Wait,
    store::{Fault, StoreErrorKind, Verb},
};

use crate::world::{World, millis, now, secs, until};

fn granted<G>(attempt: Result<Attempt<G>, Error>) -> G {
    attempt.expect("the store works").granted().expect("it is granted")
}

type Work<'a> = std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

fn is_busy<G>(attempt: Result<Attempt<G>, Error>) -> bool {
    attempt.expect("the store works").granted().is_none()
}

#[tokio::test]
async fn each_reader_is_renewed_by_itself_and_one_that_dies_keeps_nobody_out() {
    let world = World::reached().await;
    let kept = granted(world.client.rwlock("k").ttl(secs(3)).try_read().await);
    let dead = world.client.rwlock("k").ttl(secs(1)).renewal(Renew::Manual);
    let dead = granted(dead.try_read().await);
    // Held for many times its ttl, beside one that ended.
    for _ in 0..10 {
        world.clock.advance(millis(1_200));
        until("it is renewed", || kept.validity_left() > secs(2)).await;
    }
    assert!(kept.is_valid() && !dead.is_valid());
    assert_eq!(dead.lost().await, LossReason::Expired);
    assert_ne!(dead.release().await, Released::Held);
    let writer = world.client.rwlock("k");
    assert!(is_busy(writer.try_write().await));
    assert_eq!(kept.release().await, Released::Held);
    assert_eq!(granted(writer.try_write().await).release().await, Released::Held);
}

#[tokio::test]
async fn a_dead_reader_blocks_a_writer_for_no_longer_than_its_ttl() {
    let world = World::reached().await;
    let dead = world.client.rwlock("k").ttl(secs(2)).renewal(Renew::Manual);
    let _dead = granted(dead.try_read().await);
    let mut writer = Box::pin(async { world.client.rwlock("k").write().await.unwrap() });
    assert!(now(writer.as_mut()).is_none());
    let began = world.clock.now();
    let writer = {
        let waiting = tokio::spawn({
            let lock = world.client.rwlock("k");
            async move { lock.write().await.unwrap() }
        });
        drop(writer);
        world.pass_by(millis(50), secs(10), "it is granted", || waiting.is_finished()).await;
        waiting.await.unwrap()
    };
    assert!(writer.is_valid());
    assert!(world.clock.now().saturating_since(began) < secs(4), "the ttl, and a look");
}

#[tokio::test]
async fn what_could_wait_for_itself_is_refused_inside_scoped_work_and_a_try_is_not() {
    let world = World::reached().await;
    let (lock, other) = (world.client.rwlock("k"), world.client.rwlock("other"));
    let held = |error: Error| error.is_already_held();
    lock.run_read(|_| async {
        assert!(held(lock.read().await.unwrap_err()));
        assert!(held(lock.write().await.unwrap_err()));
        assert!(held(lock.try_write().await.unwrap_err()));
        assert!(held(world.client.mutex("k").lock().await.unwrap_err()));
        assert!(granted(lock.try_read().await).is_valid(), "it waits for nobody");
        assert!(other.read().await.unwrap().is_valid());
        // Somebody else's task is not inside.
        let lock = lock.clone();
        let elsewhere = tokio::spawn(async move { lock.read().await.unwrap().is_valid() });
        assert!(elsewhere.await.unwrap());
    })
    .await
    .unwrap();
    lock.run_write(|_| async {
        assert!(held(lock.try_read().await.unwrap_err()));
        assert!(held(lock.read().await.unwrap_err()));
    })
    .await
    .unwrap();
    let semaphore = world.client.semaphore("gpu", 4);
    semaphore
        .run(|_| async {
            assert!(held(semaphore.acquire().await.unwrap_err()));
            assert_eq!(granted(semaphore.try_acquire_many(3).await).permits(), 3);
        })
        .await
        .unwrap();
    let (own, foreign) = (world.client.reentrant("r", "me"), world.client.reentrant("r", "you"));
    own.run(|_| async {
        assert!(own.lock().await.unwrap().is_valid());
        assert!(held(foreign.lock().await.unwrap_err()));
        assert!(held(world.client.rwlock("r").try_read().await.unwrap_err()));
    })
    .await
    .unwrap();
    let all = world.client.all_of([Part::read(&lock), Part::from(world.client.mutex("m"))]);
    all.run(|_| async {
        assert!(held(world.client.mutex("m").lock().await.unwrap_err()));
        assert!(held(lock.read().await.unwrap_err()));
        assert!(held(all.lock().await.unwrap_err()));
    })
    .await
    .unwrap();
    until("nothing is left", || world.keeper() == (0, 0)).await;
}

/// Goal: a wait has a limit, also where a part can't be given back. Method: the clock stands still,
/// so nothing else ends a release that the store does not answer.
#[tokio::test]
async fn a_composite_that_is_refused_does_not_wait_for_a_store_that_hangs() {
    let away = World::reached().await;
    let busy = World::reached().await;
    let parts = [Part::from(away.client.mutex("a")), Part::from(busy.client.mutex("b"))];
    let all = busy.client.all_of(parts).wait(Wait::Never);
    let _held = granted(busy.other().mutex("b").try_lock().await);
    for tries in [false, true] {
        away.faulty.plan(Verb::Release, Fault::HoldRequest);
        match tries {
            true => assert!(is_busy(all.try_lock().await)),
            false => assert!(all.lock().await.unwrap_err().is_wait_expired()),
        }
        let given_back = || {
            away.faulty.let_go();
            !away.is_held("a")
        };
        until("it is given back", given_back).await;
    }
}

#[tokio::test]
async fn scoped_work_of_every_kind_is_dropped_when_its_lease_is_lost() {
    let world = World::reached().await;
    let client = &world.client;
    let all = [Part::from(client.mutex("m")), Part::permits(&client.semaphore("k", 2), 1)];
    let all = client.all_of(all);
    let lock = client.rwlock("k");
    let works: [Work<'_>; 5] = [
        Box::pin(async { lock.run_read(|_| std::future::pending()).await }),
        Box::pin(async { lock.run_write(|_| std::future::pending()).await }),
        Box::pin(async { client.semaphore("k", 2).run(|_| std::future::pending()).await }),
        Box::pin(async { client.reentrant("k", "me").run(|_| std::future::pending()).await }),
        Box::pin(async { all.run(|_| std::future::pending()).await }),
    ];
    for mut work in works {
        assert!(now(work.as_mut()).is_none());
        until("it is held", || world.is_held("k")).await;
        world.delete("k");
        // The next renewal hears of it.
        let lost = async {
            tokio::select! {
                result = work => result,
                () = world.pass_by(secs(1), secs(120), "it ends", || false) => unreachable!(),
            }
        };
        let error = lost.await.unwrap_err();
        assert!(error.is_lost(), "{error}");
        until("nothing is left", || world.keeper() == (0, 0)).await;
    }
    assert!(!world.is_held("m"), "a part that is not lost is given back");
}

#[tokio::test]
async fn everybody_who_holds_it_is_asked_back_and_force_ends_them_all() {
    let world = World::reached().await;
    let lock = world.client.rwlock("k");
    let readers: [ReadGuard; 2] = [granted(lock.try_read().await), granted(lock.try_read().await)];
    assert!(matches!(world.client.revoke("k").await.unwrap(), Revoked::Requested(_)));
    world
        .pass_by(secs(1), secs(30), "renewals tell", || readers.iter().all(ReadGuard::is_revoked))
        .await;
    let forced = world.client.danger().force_release("k").await.unwrap().expect("it was held");
    assert_eq!(forced.sharing.expect("by two").holders, 2);
    assert!(granted(lock.try_write().await).is_valid());
    for reader in readers {
        world.pass_by(secs(1), secs(60), "it hears of it", || !reader.is_valid()).await;
        assert!(matches!(reader.release().await, Released::Taken | Released::Expired));
    }
}

#[tokio::test]
async fn permits_are_kept_for_a_least_time_and_lost_at_the_most() {
    let world = World::reached().await;
    let semaphore = world.client.semaphore("gpu", 2);
    let permit = granted(semaphore.clone().min_hold(secs(5)).try_acquire_many(2).await);
    assert_eq!(permit.release().await, Released::Held);
    assert!(is_busy(semaphore.try_acquire().await), "kept");
    world.clock.advance(millis(5_010));
    let permit = granted(semaphore.clone().max_hold(secs(3)).try_acquire().await);
    world.pass_by(millis(100), secs(10), "it is lost", || !permit.is_valid()).await;
    assert_eq!(permit.lost().await, LossReason::MaxHold);
    until("it is given back", || !world.is_held("gpu")).await;
}

#[tokio::test]
async fn a_name_has_no_more_holders_than_a_store_can_look_at() {
    let world = World::reached().await;
    let semaphore = world.client.semaphore("gpu", 5_000);
    let mut permits: Vec<Permit> = Vec::new();
    for _ in 0..fencelock::Latch::MAX_COUNT {
        permits.push(granted(semaphore.try_acquire().await));
    }
    let error = semaphore.try_acquire().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull, "{error}");
    let _given = permits.pop().expect("many").release().await;
    assert!(granted(semaphore.try_acquire().await).is_valid());
}

#[tokio::test]
async fn a_downgrade_is_asked_again_and_a_lost_lock_is_told() {
    for fault in [Fault::Pass, Fault::LostReply, Fault::LostRequest] {
        let world = World::reached().await;
        let lock = world.client.rwlock("k");
        let writer = granted(lock.try_write().await);
        let number = writer.fencing_token().expect("a number");
        world.faulty.plan(Verb::Downgrade, fault.clone());
        let reader = tokio::spawn(writer.downgrade());
        world.pass_by(millis(5), secs(10), "it is done", || reader.is_finished()).await;
        let reader = reader.await.unwrap().unwrap();
        assert_eq!(reader.shared_token().expect("the same").as_u64(), number.as_u64(), "{fault:?}");
        assert!(granted(lock.try_read().await).is_valid(), "{fault:?}");
        assert_eq!(reader.release().await, Released::Held);
    }
    let world = World::reached().await;
    let lock = world.client.rwlock("k");
    let writer = granted(lock.try_write().await);
    world.delete("k");
    assert!(writer.downgrade().await.unwrap_err().is_lost());
    let writer = granted(lock.try_write().await);
    world.faulty.plan(Verb::Downgrade, Fault::Fail(StoreErrorKind::Denied));
    assert_eq!(writer.downgrade().await.unwrap_err().kind(), ErrorKind::Denied);
    until("it was given back", || !world.is_held("k")).await;
}

#[tokio::test]
async fn a_composite_is_lost_with_its_first_part_and_given_back_from_the_end() {
    let world = World::reached().await;
    let client = &world.client;
    let all = client.all_of([
        Part::from(client.mutex("a").ttl(secs(3))),
        Part::read(&client.rwlock("b").ttl(secs(3))),
        Part::permits(&client.semaphore("c", 2).ttl(secs(3)), 1),
    ]);
    let guard = granted(all.try_lock().await);
    for _ in 0..5 {
        world.clock.advance(millis(1_200));
        until("every part is renewed", || guard.validity_left() > secs(2)).await;
    }
    world.delete("b");
    world.pass_by(millis(100), secs(12), "it is lost", || !guard.is_valid()).await;
    assert_eq!(guard.lost().await, LossReason::Disappeared);
    assert_eq!(guard.validity_left(), std::time::Duration::ZERO);
    assert_eq!(guard.release().await, Released::Expired);
    assert!(!world.is_held("a") && !world.is_held("c"));

    // A part that nobody renews ends while the next one is waited for.
    let blocker = granted(world.other().mutex("b").ttl(secs(60)).try_lock().await);
    let short = client.mutex("a").ttl(secs(1)).renewal(Renew::Manual);
    let all = client.all_of([Part::from(short), Part::from(client.mutex("b"))]);
    let waiting = tokio::spawn(async move { all.lock().await });
    world
        .pass_by(millis(100), secs(10), "the first part is over", || {
            world.waiting("b") == 1 && !world.is_held("a")
        })
        .await;
    assert_eq!(blocker.release().await, Released::Held);
    world.pass_by(millis(100), secs(20), "it ends", || waiting.is_finished()).await;
    assert!(waiting.await.unwrap().unwrap_err().is_lost());
    until("nothing is left", || !world.is_held("a") && !world.is_held("b")).await;
}

#[tokio::test]
async fn the_end_of_a_client_is_the_loss_of_what_it_holds_beside_others() {
    let world = World::reached().await;
    let reader = granted(world.client.rwlock("k").try_read().await);
    let other = granted(world.other().rwlock("k").try_read().await);
    world.client.clone().close().await;
    assert_eq!(reader.lost().await, LossReason::Closed);
    assert!(other.is_valid());
    let error = world.client.rwlock("k").read().await.unwrap_err();
    assert!(error.is_closed(), "{error}");
}
