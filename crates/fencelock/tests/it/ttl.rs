//! Kind TTL: spans at and beyond their limits.

use std::time::Duration;

use fencelock::{Attempt, Client, Drift, Released, store::Verb};

use crate::world::{World, millis, secs, take};

#[tokio::test]
async fn a_ttl_out_of_range_is_refused_before_anything_is_sent() {
    let world = World::new();
    for ttl in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(999),
        millis(9),
        Duration::from_nanos(86_400_000_000_001),
        Duration::from_millis(u64::MAX),
        Duration::MAX,
    ] {
        let mutex = world.mutex("job").ttl(ttl);
        for error in [
            mutex.lock().await.map(drop).unwrap_err(),
            mutex.try_lock().await.map(drop).unwrap_err(),
            mutex.run(|_| async {}).await.unwrap_err(),
        ] {
            assert!(error.is_config(), "{ttl:?}: {error}");
            assert!(error.to_string().contains("job"), "{error}");
        }
    }
    assert_eq!(world.faulty.calls(Verb::Acquire), 0);

    let guard = take(world.mutex("job")).await;
    let (deadline, left) = (guard.deadline(), world.left("job"));
    for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        assert!(guard.renew(ttl).await.unwrap_err().is_config());
        let lease = world.client.lease(guard.names().clone(), fencelock::store::rt::fresh_token());
        assert!(lease.renew(ttl).await.unwrap_err().is_config());
    }
    assert_eq!(world.faulty.calls(Verb::Renew), 0);
    assert_eq!((guard.deadline(), world.left("job")), (deadline, left));
}

#[tokio::test]
async fn the_store_never_gets_less_than_asked_and_the_holder_counts_on_less() {
    let world = World::new();
    for (ttl, kept) in [
        (millis(10), millis(10)),
        (Duration::from_micros(10_500), millis(11)),
        (Duration::from_micros(999_900), millis(1_000)),
        (Duration::from_micros(1_000_100), millis(1_001)),
        (secs(86_400), secs(86_400)),
    ] {
        let guard = take(world.mutex("job").ttl(ttl)).await;
        assert_eq!(world.left("job"), kept);
        assert!(guard.validity_left() < ttl && guard.validity_left() > ttl / 2, "{ttl:?}");
        assert_eq!(guard.release().await, Released::Held);
    }
}

#[tokio::test]
async fn waits_of_any_length_are_counted_without_overflow() {
    let world = World::new();
    for wait in
        [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(1_500), Duration::MAX]
    {
        let guard = world.mutex("job").wait(wait).lock().await.unwrap();
        assert_eq!(guard.release().await, Released::Held);
    }
    world.taken_by_another("job");
    let mutex = world.mutex("job").wait(Duration::ZERO);
    assert!(mutex.lock().await.unwrap_err().is_wait_expired(), "zero is one try");
    assert!(matches!(world.mutex("job").try_lock().await, Ok(Attempt::Busy(_))));
}

#[tokio::test]
async fn a_wait_may_be_longer_than_the_ttl() {
    let world = World::new();
    let holder = take(world.other().mutex("job").ttl(millis(500))).await;
    let mutex = world.mutex("job").ttl(millis(500)).wait(secs(3));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    for _ in 0..12 {
        let before = holder.deadline();
        world.clock.advance(millis(170));
        crate::world::until("the holder is renewed", || holder.deadline() > before).await;
    }
    assert!(!waiter.is_finished());
    assert_eq!(holder.release().await, Released::Held);
    world.pass_until(millis(600), "the waiter has it", || waiter.is_finished()).await;
    assert!(waiter.await.unwrap().is_ok());
}

#[tokio::test]
async fn settings_that_leave_no_validity_are_refused_and_name_both() {
    let client = Client::builder("memory:").drift(Drift::DEFAULT.margin(secs(20))).build().unwrap();
    let error = client.mutex("job").ttl(secs(20)).lock().await.unwrap_err();
    assert!(error.is_config(), "{error}");
    assert!(error.to_string().contains("drift") && error.to_string().contains("ttl"), "{error}");
    let late = Client::builder("memory:").request_timeout(Duration::ZERO).build().unwrap_err();
    assert!(late.is_config(), "{late}");
}
