//! Kind RENEW: a lease and its renewal live and end together.

use std::{
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use fencelock::{
    Client, Guard, LeaseState, LossReason, MemoryStore, Moment, Released, Renew, Store,
    store::{Fault, StoreErrorKind, Verb},
};

use crate::world::{World, millis, now, secs, take, until};

/// Moves the clock and waits until a guard was renewed.
async fn renewed(world: &World, guard: &Guard, by: Duration) {
    let before = guard.deadline();
    world.clock.advance(by);
    until("it is renewed", || guard.deadline() > before).await;
}

#[tokio::test]
async fn a_lease_lives_as_long_as_its_guard_however_the_grant_came() {
    for how in ["at once", "after polling", "after a lost reply", "after a failure"] {
        let world = World::reached().await;
        match how {
            "after polling" => {
                world.taken_by_another("job");
            }
            "after a lost reply" => world.faulty.plan(Verb::Acquire, Fault::LostReply),
            "after a failure" => {
                world.faulty.plan(Verb::Acquire, Fault::Fail(StoreErrorKind::Unavailable));
            }
            _ => {}
        }
        let mutex = world.mutex("job").ttl(secs(9));
        let waiter = tokio::spawn(async move { mutex.lock().await });
        if how == "after polling" {
            until("it has tried", || {
                world.faulty.calls(Verb::Acquire) > 1 || {
                    world.clock.advance(millis(100));
                    false
                }
            })
            .await;
            world.delete("job");
        }
        world.pass_until(secs(60), "it is granted", || waiter.is_finished()).await;
        let guard = waiter.await.unwrap().unwrap();
        for _ in 0..15 {
            renewed(&world, &guard, millis(3_100)).await;
            assert!(guard.is_valid(), "{how}");
            assert!(world.left("job") > secs(8), "{how}");
        }
        assert_eq!(guard.release().await, Released::Held, "{how}");
    }
}

#[tokio::test]
async fn a_record_that_is_gone_is_a_loss_and_is_not_written_again() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9))).await;
    world.delete("job");
    world.clock.advance(secs(3));
    until("it is lost", || !guard.is_valid()).await;
    assert_eq!(now(guard.lost()), Some(LossReason::Disappeared));
    assert_eq!(guard.deadline(), Moment::START);
    assert!(!world.is_held("job"));
    assert_eq!(guard.release().await, Released::Expired);
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn a_lock_that_was_taken_and_freed_meanwhile_is_lost() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9))).await;
    world.delete("job");
    // A store that forgot a name counts on its clock for a larger fencing token.
    world.clock.advance(millis(1));
    let between = take(world.other().mutex("job")).await;
    assert!(between.fencing_token() > guard.fencing_token());
    assert_eq!(between.release().await, Released::Held);
    world.clock.advance(secs(3));
    until("it is lost", || !guard.is_valid()).await;
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::Taken));
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn an_explicit_renewal_tells_a_loss_as_an_error() {
    for taken in [false, true] {
        let world = World::new();
        let guard = take(world.mutex("job").renewal(Renew::Manual)).await;
        world.delete("job");
        if taken {
            world.taken_by_another("job");
        }
        let error = guard.renew(secs(30)).await.unwrap_err();
        let reason = if taken { LossReason::Taken } else { LossReason::Disappeared };
        assert_eq!((error.is_lost(), error.loss()), (true, Some(reason)), "{error}");
        assert_eq!(guard.state(), LeaseState::Lost(reason));
        assert_eq!(world.is_held("job"), taken);
    }
}

#[tokio::test]
async fn a_lease_without_renewal_is_not_renewed() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9)).renewal(Renew::Manual)).await;
    let deadline = guard.deadline();
    // One that is renewed shows that the keeper was there.
    let probe = take(world.mutex("probe").ttl(secs(9))).await;
    renewed(&world, &probe, secs(4)).await;
    assert_eq!(guard.deadline(), deadline);
    renewed(&world, &probe, secs(4)).await;
    world.clock.advance(millis(1_000));
    until("it is lost", || now(guard.lost()).is_some()).await;
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::Expired));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quick_grants_leave_no_renewals_behind() {
    let world = World::new();
    let mutex = world.mutex("job").ttl(millis(60));
    for round in 0..5_000u32 {
        let guard = mutex.lock().await.unwrap();
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
        if round % 2 == 0 {
            assert_eq!(guard.release().await, Released::Held);
        } else {
            drop(guard);
            until("it is free", || !world.is_held("job")).await;
        }
    }
    until("the keeper has nothing", || world.keeper() == (0, 0)).await;
    let calls = world.faulty.calls(Verb::Renew);
    let probe = take(world.mutex("probe").ttl(secs(9))).await;
    renewed(&world, &probe, secs(4)).await;
    assert_eq!(world.faulty.calls(Verb::Renew), calls + 1, "only the probe is renewed");
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn one_failing_renewal_is_ridden_out_whatever_the_failure() {
    for fault in [
        Fault::Fail(StoreErrorKind::Unavailable),
        Fault::Fail(StoreErrorKind::Protocol),
        Fault::Fail(StoreErrorKind::Denied),
        Fault::Fail(StoreErrorKind::Full),
        Fault::LostRequest,
        Fault::LostReply,
        Fault::HoldRequest,
        Fault::HoldReply,
    ] {
        let world = World::new();
        let guard = take(world.mutex("job").ttl(millis(900))).await;
        let first = guard.deadline();
        world.faulty.plan(Verb::Renew, fault.clone());
        world.clock.advance(millis(300));
        until("the first renewal is sent", || world.faulty.calls(Verb::Renew) == 1).await;
        // Also when that one stays silent: the next does not wait for it.
        world.clock.advance(millis(95));
        until("the second succeeds", || guard.deadline() > first).await;
        assert_eq!(guard.state(), LeaseState::Held, "{fault:?}");
        assert_eq!(guard.release().await, Released::Held, "{fault:?}");
        assert_eq!(guard_free(&world), (false, 0));
    }
}

fn guard_free(world: &World) -> (bool, u64) {
    (world.is_held("job"), world.keeper().0)
}

#[tokio::test]
async fn when_all_renewals_fail_it_is_suspect_until_the_deadline_and_then_lost() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(millis(900))).await;
    let deadline = guard.deadline();
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    world.clock.advance(millis(300));
    until("a renewal failed", || guard.state() == LeaseState::Suspect).await;
    assert!(guard.is_valid());
    world.clock.advance(deadline.saturating_since(world.clock.now()) - Duration::from_nanos(1));
    assert!(guard.is_valid(), "an instant before the deadline");
    assert!(now(guard.lost()).is_none());
    world.clock.advance(Duration::from_nanos(1));
    assert!(!guard.is_valid(), "at the deadline");
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(world.is_held("job"), "the store ends it later than the holder");
}

#[tokio::test]
async fn a_renewal_that_succeeds_after_the_deadline_does_not_revive_the_lease() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(millis(900))).await;
    world.faulty.plan_for_all(Some(Fault::HoldReply));
    world.clock.advance(millis(720));
    until("a renewal is carried out", || world.left("job") == millis(900)).await;
    world.faulty.plan_for_all(None);
    world.clock.advance(millis(200));
    world.faulty.let_go();
    until("it is lost", || now(guard.lost()).is_some()).await;
    assert!(!guard.is_valid());
    // The store had prolonged it: that is given back.
    world.pass_until(millis(500), "it is given back", || !world.is_held("job")).await;
}

#[tokio::test]
async fn many_leases_are_renewed_in_few_calls_and_one_loss_spoils_no_other() {
    let world = World::new();
    let mut guards = Vec::new();
    for n in 0..250 {
        guards.push(take(world.mutex(&format!("job:{n}")).ttl(secs(9))).await);
    }
    world.delete("job:7");
    world.clock.advance(secs(3));
    until("all are renewed", || {
        guards.iter().all(|guard| {
            world.left(&guard.name().to_string()) == secs(9) || guard.name().as_bytes() == b"job:7"
        })
    })
    .await;
    until("one is lost", || !guards[7].is_valid()).await;
    assert_eq!(world.faulty.calls(Verb::Renew), 2, "two batches of at most 200");
    assert_eq!(guards.iter().filter(|guard| guard.is_valid()).count(), 249);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_listener_that_panics_or_blocks_disturbs_no_other_lease() {
    let world = World::new();
    let mut guards = Vec::new();
    for n in 0..100 {
        guards.push(Arc::new(take(world.mutex(&format!("job:{n}")).ttl(secs(9))).await));
    }
    let (let_go, blocked) = std::sync::mpsc::channel::<()>();
    let (first, second) = (Arc::clone(&guards[1]), Arc::clone(&guards[2]));
    let panics = tokio::spawn(async move {
        first.lost().await;
        panic!("the listener of the test");
    });
    let blocks = tokio::spawn(async move {
        second.lost().await;
        let _end = blocked.recv();
    });
    for n in 1..=3 {
        world.delete(&format!("job:{n}"));
    }
    world.clock.advance(secs(3));
    let third = tokio::time::timeout(secs(10), guards[3].lost()).await;
    assert_eq!(third, Ok(LossReason::Disappeared));
    assert!(panics.await.unwrap_err().is_panic());
    for _ in 0..3 {
        let before: Vec<_> = guards.iter().map(|guard| guard.deadline()).collect();
        world.clock.advance(secs(3));
        until("97 are renewed", || {
            let later = guards.iter().zip(&before).filter(|(guard, b)| guard.deadline() > **b);
            later.count() == 97
        })
        .await;
    }
    let_go.send(()).unwrap();
    blocks.await.unwrap();
}

#[tokio::test]
async fn renewing_sets_the_rest_and_adds_nothing() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(2))).await;
    for _ in 0..500 {
        guard.renew(secs(2)).await.unwrap();
        assert!(world.left("job") <= secs(2));
        world.clock.advance(millis(1));
    }
    // A longer one holds for later renewals, too.
    guard.renew(secs(20)).await.unwrap();
    assert_eq!(world.left("job"), secs(20));
    renewed(&world, &guard, secs(7)).await;
    assert_eq!(world.left("job"), secs(20));
}

#[tokio::test]
async fn a_shorter_ttl_is_renewed_in_its_own_time() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(60))).await;
    guard.renew(secs(3)).await.unwrap();
    assert_eq!(world.left("job"), secs(60), "a renewal never shortens");
    world.clock.advance(millis(1_000));
    until("it is renewed", || world.faulty.calls(Verb::Renew) == 2).await;
}

#[tokio::test]
async fn a_release_while_a_renewal_fails_has_one_outcome() {
    for fault in [Fault::Fail(StoreErrorKind::Unavailable), Fault::HoldRequest, Fault::HoldReply] {
        let world = World::new();
        let guard = take(world.mutex("job").ttl(secs(9))).await;
        world.faulty.plan(Verb::Renew, fault);
        world.clock.advance(secs(3));
        until("the renewal is sent", || world.faulty.calls(Verb::Renew) == 1).await;
        assert_eq!(guard.release().await, Released::Held);
        world.faulty.let_go();
        until("the keeper has nothing", || world.keeper() == (0, 0)).await;
        assert!(!world.is_held("job"));
    }
}

/// Goal: renewal does not need the user's runtime. Method: real time, the only thread of the
/// runtime sleeps for more than two ttl.
#[test]
fn a_blocked_runtime_keeps_its_lease() {
    let memory = MemoryStore::new();
    let client = Client::with_store(Arc::new(memory.clone()) as Arc<dyn Store>);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let released = runtime.block_on(async {
        let guard = take(client.mutex("job").ttl(millis(1_500))).await;
        std::thread::sleep(millis(3_500));
        assert!(guard.is_valid(), "{guard:?}");
        guard.release().await
    });
    assert_eq!(released, Released::Held);
}

#[tokio::test]
async fn a_guard_that_was_forgotten_is_renewed_and_does_not_keep_others_from_ending() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9))).await;
    std::mem::forget(guard);
    for _ in 0..5 {
        world.clock.advance(secs(3));
        until("it is renewed", || world.left("job") == secs(9)).await;
    }
}

/// Goal: the waker of one who waits for a loss, which is the user's code, can panic and disturbs
/// nothing else. Method: such a waker waits for the loss of a lock, by the keeper's timer; the lock
/// is still given back, and another lease renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waker_that_panics_disturbs_no_lease_and_no_clean_up() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("the waker of the test");
        }
    }
    let world = World::new();
    let other = take(world.mutex("other").ttl(secs(9))).await;
    let lost = take(world.mutex("job").ttl(secs(3)).renewal(Renew::Manual)).await;
    let mut waits = Box::pin(lost.lost());
    let waker = Waker::from(Arc::new(Panics));
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // Past the deadline on the holder's clock, before the end of the lease at the store.
    world.clock.advance(millis(2_980));
    until("the loss is noticed and given back", || world.keeper() == (1, 0)).await;
    assert!(!world.is_held("job"));
    drop(waits);
    let before = other.deadline();
    world.clock.advance(secs(3));
    until("the other is renewed", || other.deadline() > before).await;
}
