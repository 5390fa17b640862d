//! Kind HOLD: a lock is held at least, at most, and only while its holder gets on.

use fencelock::{
    LeaseState, LossReason, Released, Renew,
    store::{Fault, StoreErrorKind, Verb, core::Inspection},
};

use crate::world::{World, millis, now, secs, take, until};

fn is_unattended(world: &World, name: &str) -> bool {
    match world.seen(name) {
        Inspection::Held(holder) => holder.unattended,
        other => panic!("it is held: {other:?}"),
    }
}

#[tokio::test]
async fn released_early_a_lock_is_kept_for_the_rest_of_its_least_time() {
    // A lease that has more to run than the rest is shortened, one that has less is prolonged.
    for ttl in [secs(60), secs(3)] {
        let world = World::new();
        let guard = take(world.mutex("job").ttl(ttl).min_hold(secs(10))).await;
        world.clock.advance(secs(1));
        assert!(!is_unattended(&world, "job"));
        assert_eq!(guard.release().await, Released::Held);
        assert_eq!(world.left("job"), secs(9));
        assert!(is_unattended(&world, "job"), "nobody renews it");
        assert_eq!(world.keeper(), (0, 0));
        world.clock.advance(secs(9) - millis(1));
        assert!(world.client.mutex("job").try_lock().await.unwrap().granted().is_none());
        world.clock.advance(millis(1));
        take(world.mutex("job")).await.release().await;
    }
}

#[tokio::test]
async fn released_after_its_least_time_a_lock_is_free_at_once() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(60)).min_hold(secs(10))).await;
    world.clock.advance(secs(10));
    assert_eq!(guard.release().await, Released::Held);
    assert!(!world.is_held("job"));
    assert_eq!(world.faulty.calls(Verb::Shorten), 0);
}

#[tokio::test]
async fn a_dropped_guard_a_run_and_a_dropped_release_keep_it_too() {
    for how in ["drop", "run", "release", "close"] {
        let world = World::reached().await;
        let mutex = world.mutex("job").ttl(secs(60)).min_hold(secs(10));
        match how {
            "drop" => drop(take(mutex).await),
            "run" => mutex.run(|_held| async {}).await.unwrap(),
            "close" => {
                let guard = take(mutex).await;
                world.client.clone().close().await;
                assert_eq!(now(guard.lost()), Some(LossReason::Closed));
            }
            _ => {
                let guard = take(mutex).await;
                // The request never leaves, and its future is dropped: the keeper finishes it.
                world.faulty.plan(Verb::Renew, Fault::HoldRequest);
                assert!(now(guard.release()).is_none());
            }
        }
        until("it is left to the rest", || world.left("job") == secs(10)).await;
        until("nothing is pending", || world.keeper() == (0, 0)).await;
        assert!(is_unattended(&world, "job"), "{how}");
        assert_eq!(world.left("job"), secs(10), "{how}");
    }
}

#[tokio::test]
async fn a_killed_holder_keeps_nobody_out_for_its_least_time() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(3)).min_hold(secs(60))).await;
    // As after a kill: no renewal and no release is ever sent.
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    world.clock.advance(secs(3));
    assert!(!guard.is_valid());
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn keeping_a_lock_is_asked_for_again_while_the_store_is_away() {
    for (verb, fault) in [
        (Verb::Renew, Fault::Fail(StoreErrorKind::Unavailable)),
        (Verb::Renew, Fault::LostReply),
        (Verb::Renew, Fault::LostRequest),
        (Verb::Shorten, Fault::LostReply),
        (Verb::Shorten, Fault::Fail(StoreErrorKind::Unavailable)),
    ] {
        let world = World::reached().await;
        let guard = take(world.mutex("job").ttl(secs(60)).min_hold(secs(10))).await;
        world.faulty.plan(verb, fault.clone());
        let released = tokio::spawn(guard.release());
        world.pass_by(millis(5), secs(2), "it is answered", || released.is_finished()).await;
        assert_eq!(released.await.unwrap(), Released::Held, "{verb:?} {fault:?}");
        assert!(world.left("job") > secs(7) && world.left("job") <= secs(10), "{verb:?} {fault:?}");
        assert!(is_unattended(&world, "job"));
    }
}

#[tokio::test]
async fn keeping_what_is_lost_says_so() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(60)).min_hold(secs(10))).await;
    world.delete("job");
    assert_eq!(guard.release().await, Released::Expired);
    assert!(!world.is_held("job"));
    let guard = take(world.mutex("job").ttl(secs(60)).min_hold(secs(10))).await;
    world.delete("job");
    world.clock.advance(millis(1));
    let next = world.taken_by_another("job");
    assert_eq!(guard.release().await, Released::Taken);
    assert_eq!(world.holder_token("job"), Some(next.to_hex().to_vec()));
}

#[tokio::test]
async fn released_now_a_lock_is_free_whatever_its_least_time() {
    let world = World::new();
    let guard = take(world.mutex("job").min_hold(secs(10))).await;
    assert_eq!(guard.release_now().await, Released::Held);
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn a_cancelled_attempt_keeps_nothing() {
    let world = World::reached().await;
    world.faulty.plan(Verb::Acquire, Fault::HoldReply);
    let mutex = world.mutex("job").min_hold(secs(10));
    assert!(now(mutex.try_lock()).is_none());
    assert_eq!(world.faulty.calls(Verb::Acquire), 1, "it was carried out");
    until("it is given back", || !world.is_held("job") && world.keeper() == (0, 0)).await;
}

#[tokio::test]
async fn validity_ends_at_the_hold_limit_whatever_is_renewed() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(3)).max_hold(secs(10))).await;
    let limit = guard.hold_limit().unwrap();
    assert_eq!(limit, world.clock.now().saturating_add(secs(10)));
    while guard.deadline() < limit {
        let before = guard.deadline();
        world.clock.advance(secs(1));
        // Also by hand it can't be prolonged beyond.
        guard.renew(secs(3)).await.unwrap();
        assert!(guard.deadline() >= before && guard.deadline() <= limit, "{guard:?}");
        let left = limit.saturating_since(world.clock.now());
        // The store keeps it for little longer: what the drift takes.
        assert!(world.left("job") <= left + left / 50 + millis(10), "{:?}", world.left("job"));
    }
    let renewals = world.faulty.calls(Verb::Renew);
    world.clock.advance(guard.validity_left() - millis(1));
    assert!(guard.is_valid());
    world.clock.advance(millis(1));
    assert!(!guard.is_valid());
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::MaxHold));
    assert_eq!(guard.lost().await, LossReason::MaxHold);
    until("it is given back", || !world.is_held("job")).await;
    assert_eq!(world.faulty.calls(Verb::Renew), renewals, "none would help");
    assert_eq!(guard.release().await, Released::Expired);
}

#[tokio::test]
async fn a_hold_limit_below_the_ttl_cuts_the_lease_itself() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(30)).max_hold(secs(2))).await;
    assert_eq!(guard.validity_left(), secs(2));
    assert!(world.left("job") < millis(2_100), "{:?}", world.left("job"));
    world.clock.advance(secs(2));
    assert_eq!(guard.lost().await, LossReason::MaxHold);
}

#[tokio::test]
async fn a_store_that_is_silent_before_the_limit_is_no_hold_limit() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(3)).max_hold(secs(10))).await;
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    world.clock.advance(guard.validity_left());
    assert_eq!(guard.lost().await, LossReason::Expired);
}

#[tokio::test]
async fn at_the_hold_limit_scoped_work_is_dropped() {
    let world = World::new();
    let mutex = world.mutex("job").ttl(secs(30)).max_hold(secs(2));
    let work = tokio::spawn(async move { mutex.run(|_held| std::future::pending::<()>()).await });
    until("it is held", || world.is_held("job")).await;
    world.clock.advance(secs(2));
    let error = work.await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(LossReason::MaxHold), "{error}");
    assert!(error.to_string().contains("hold limit"), "{error}");
}

#[tokio::test]
async fn a_forgotten_guard_keeps_others_out_until_its_hold_limit_only() {
    let world = World::new();
    let start = world.clock.now();
    let guard = take(world.mutex("job").ttl(secs(3)).max_hold(secs(10))).await;
    std::mem::forget(guard);
    world.pass_until(secs(11), "it is free", || !world.is_held("job")).await;
    assert!(world.clock.now() >= start.saturating_add(secs(10)));
}

/// Goal: a task that hangs with its guard does not keep the others of its process out either, which
/// wait behind it and not at the store.
#[tokio::test]
async fn a_hanging_holder_keeps_nobody_of_its_own_process_out_beyond_the_limit() {
    let world = World::new();
    let hanging = world.mutex("job").ttl(secs(3)).max_hold(secs(2)).lock().await.unwrap();
    let mutex = world.mutex("job").ttl(secs(60));
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.lock().await.unwrap().fencing_token() })
        })
        .collect();
    world.pass_until(secs(9), "all had it", || waiters.iter().all(|it| it.is_finished())).await;
    assert_eq!(hanging.lost().await, LossReason::MaxHold);
    let next = mutex.lock().await.unwrap();
    // The end of the lost guard takes nothing from whoever has the turn now.
    drop(hanging);
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap().fencing_token() });
    tokio::task::yield_now().await;
    assert!(next.is_valid() && !waiter.is_finished());
    let token = next.fencing_token();
    next.release().await;
    world.pass_until(secs(9), "it has it", || waiter.is_finished()).await;
    assert!(waiter.await.unwrap() > token);
}

#[tokio::test]
async fn without_progress_renewals_stop_and_the_lease_ends_with_its_own_reason() {
    let world = World::new();
    let start = world.clock.now();
    let guard = take(world.mutex("job").ttl(secs(9)).progress_within(secs(10))).await;
    for _ in 0..4 {
        let before = guard.deadline();
        guard.report_progress();
        world.clock.advance(millis(3_100));
        until("it is renewed", || guard.deadline() > before).await;
    }
    // The last report is 3.1 s old: three more renewals fall within ten seconds of it.
    world.pass_until(secs(30), "it is lost", || !guard.is_valid()).await;
    assert_eq!(guard.lost().await, LossReason::NoProgress);
    let reported = start.saturating_add(millis(9_300));
    let lived_on = world.clock.now().saturating_since(reported);
    assert!(lived_on >= secs(10) && lived_on <= secs(20), "{lived_on:?}");
    until("it is given back", || !world.is_held("job")).await;
}

#[tokio::test]
async fn a_report_that_comes_before_the_end_starts_renewals_again() {
    let world = World::new();
    let mutex = world.mutex("job").ttl(secs(9)).progress_within(secs(2));
    let clock = world.clock.clone();
    let faulty = world.faulty.clone();
    mutex
        .run(|held| async move {
            for _ in 0..3 {
                let before = held.deadline();
                let sent = faulty.calls(Verb::Renew);
                // Due and past, and not renewed: the keeper has given it up for want of progress.
                clock.advance(secs(6));
                tokio::task::yield_now().await;
                assert!(held.is_valid() && held.deadline() == before);
                assert_eq!(faulty.calls(Verb::Renew), sent);
                held.report_progress();
                until("it is renewed", || held.deadline() > before).await;
            }
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn policies_that_can_not_be_kept_are_refused_before_anything_is_sent() {
    let world = World::new();
    let job = || world.mutex("job");
    for (mutex, parts) in [
        (job().min_hold(secs(86_401)), &["min_hold", "24h"][..]),
        (job().max_hold(millis(9)), &["max_hold", "10ms"]),
        (job().max_hold(secs(1)).min_hold(secs(2)), &["max_hold", "1s", "min_hold", "2s"]),
        (job().progress_within(secs(0)), &["progress_within"]),
    ] {
        let error = mutex.lock().await.unwrap_err();
        assert!(error.is_config(), "{error}");
        assert!(parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    }
    assert_eq!(world.faulty.calls(Verb::Acquire), 0);
    let both = job().max_hold(secs(2)).min_hold(secs(2));
    assert!(both.try_lock().await.unwrap().granted().is_some());
}

#[tokio::test]
async fn a_left_lease_is_marked_and_adopting_it_takes_the_mark_off() {
    let world = World::new();
    for renewal in [Renew::Auto, Renew::Manual] {
        let ticket = take(world.mutex("job").ttl(secs(9))).await.detach().await.unwrap();
        assert!(is_unattended(&world, "job"));
        let adopted = match renewal {
            Renew::Auto => world.client.adopt_renewing(ticket).await.unwrap(),
            _ => world.client.adopt(ticket).await.unwrap(),
        };
        assert!(!is_unattended(&world, "job"));
        assert_eq!(adopted.release().await, Released::Held);
    }
    let guard = take(world.mutex("job").ttl(secs(9)).unattended()).await;
    assert!(is_unattended(&world, "job"));
    let ticket = guard.leak().await.unwrap();
    let lease = world.client.lease(ticket.names().clone(), ticket.token());
    lease.renew(secs(20)).await.unwrap();
    assert!(is_unattended(&world, "job"), "whoever has only the token renews nothing by itself");
}

/// A limit cuts what a lease is left for, too.
#[tokio::test]
async fn a_left_lease_ends_at_its_hold_limit() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9)).max_hold(secs(12))).await;
    world.clock.advance(secs(6));
    guard.leak().await.unwrap();
    assert!(world.left("job") >= secs(6) && world.left("job") < millis(6_200));
}
