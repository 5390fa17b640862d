//! Kind REVOKE: asking a holder to give a lock back, which never ends a lease.

use std::sync::Arc;

use fencelock::{
    ErrorKind, Released, Renew, Revoked,
    store::{
        Fault, StoreErrorKind, Verb,
        core::{ForeignKind, Inspection},
    },
};

use crate::world::{World, millis, now, secs, take, until};

#[tokio::test]
async fn a_revoked_holder_is_told_and_keeps_the_lock_for_as_long_as_it_wants() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(9)).metadata("team", "ops")).await;
    assert!(!guard.is_revoked() && now(guard.revoked()).is_none());
    let Revoked::Requested(holder) = world.other().revoke("job").await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(holder.fencing_token, guard.fencing_token());
    assert_eq!(holder.token_hash, Some(guard.token_hash()));
    assert!(holder.revoked && !holder.unattended);
    // The answer of each renewal says it again.
    for _ in 0..3 {
        let before = guard.deadline();
        world.clock.advance(secs(3));
        until("it is renewed", || guard.deadline() > before).await;
        guard.revoked().await;
        assert!(guard.is_revoked() && guard.is_valid());
    }
    assert_eq!(guard.release().await, Released::Held);
    // The next holder was not asked.
    let next = take(world.mutex("job")).await;
    next.renew(secs(9)).await.unwrap();
    assert!(!next.is_revoked());
}

#[tokio::test]
async fn a_renewal_by_hand_and_scoped_work_hear_of_it_too() {
    let world = World::new();
    let guard = take(world.mutex("a").ttl(secs(9))).await;
    let told = async {
        guard.revoked().await;
        true
    };
    let other = world.other();
    let asked = async {
        other.revoke("a").await.unwrap();
        guard.renew(secs(9)).await.unwrap();
    };
    assert!(tokio::join!(told, asked).0);

    let clock = world.clock.clone();
    let mutex = world.mutex("b").ttl(secs(9));
    let result = mutex
        .run(|held| async move {
            assert!(!held.is_revoked());
            other.revoke("b").await.unwrap();
            clock.advance(secs(3));
            held.revoked().await;
            held.is_revoked()
        })
        .await;
    assert!(result.unwrap());
    assert!(!world.is_held("b"));
}

#[tokio::test]
async fn whoever_waits_for_it_is_told_at_once_and_the_lease_is_not_prolonged() {
    for renewal in [Renew::Auto, Renew::Manual] {
        let world = World::new();
        let guard = Arc::new(take(world.mutex("job").ttl(secs(9)).renewal(renewal)).await);
        world.clock.advance(secs(1));
        let (deadline, left) = (guard.deadline(), world.left("job"));
        let held = Arc::clone(&guard);
        let told = tokio::spawn(async move { held.revoked().await });
        until("it has subscribed and said so", || {
            world.faulty.calls(Verb::Listen) == 1 && world.faulty.calls(Verb::Renew) == 1
        })
        .await;
        assert!(!told.is_finished());
        assert_eq!((guard.deadline(), world.left("job")), (deadline, left));
        // The clock stands still: no renewal can bring the news.
        world.other().revoke("job").await.unwrap();
        told.await.unwrap();
        assert!(guard.is_revoked() && guard.is_valid());
        assert_eq!(world.faulty.calls(Verb::Renew), 1);
    }
}

#[tokio::test]
async fn a_store_that_can_not_be_listened_to_tells_with_the_renewals() {
    let world = World::new();
    world.faulty.plan(Verb::Listen, Fault::Fail(StoreErrorKind::Denied));
    let guard = take(world.mutex("job").ttl(secs(9))).await;
    assert!(now(guard.revoked()).is_none());
    until("it has tried", || world.faulty.calls(Verb::Listen) == 1).await;
    world.other().revoke("job").await.unwrap();
    assert!(now(guard.revoked()).is_none());
    world.clock.advance(secs(3));
    guard.revoked().await;
}

#[tokio::test]
async fn revoking_a_free_name_finds_nobody_to_ask() {
    let world = World::new();
    assert_eq!(world.client.revoke("job").await.unwrap(), Revoked::WasFree);
    assert_eq!(world.client.revoke_within("job", secs(9)).await.unwrap(), Revoked::WasFree);
    assert!(world.client.revoke("").await.unwrap_err().is_config());
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_not_asked_for() {
    let world = World::new();
    take(world.mutex("left").ttl(secs(9))).await.leak().await.unwrap();
    take(world.mutex("kept").ttl(secs(9)).min_hold(secs(5))).await.release().await;
    for name in ["left", "kept"] {
        let answer = world.client.revoke(name).await.unwrap();
        assert!(matches!(&answer, Revoked::Unattended(holder) if !holder.revoked), "{answer:?}");
        let Inspection::Held(holder) = world.seen(name) else { panic!("{name} is held") };
        assert!(!holder.revoked, "nothing was stored");
    }
}

#[tokio::test]
async fn a_foreign_value_and_a_store_that_can_not_ask_are_unsupported() {
    let world = World::new();
    let job = crate::world::name("job");
    world.memory.with_table(|table| table.plant_foreign(job, ForeignKind::String));
    let error = world.client.revoke("job").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    world.faulty.plan(Verb::Revoke, Fault::Fail(StoreErrorKind::Unsupported));
    let error = world.client.revoke("other").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn waiting_for_a_revoked_lock_ends_when_its_lease_does() {
    for how in ["release", "taken", "expired"] {
        let world = World::new();
        let guard = take(world.mutex("job").ttl(secs(9))).await;
        let client = world.other();
        let asking = tokio::spawn(async move { client.revoke_within("job", secs(30)).await });
        until("it is asked", || matches!(world.seen("job"), Inspection::Held(h) if h.revoked))
            .await;
        assert!(!asking.is_finished());
        match how {
            "release" => {
                guard.release().await;
            }
            "taken" => {
                guard.release().await;
                world.taken_by_another("job");
            }
            _ => {
                world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
                world.clock.advance(secs(9));
            }
        }
        world.pass_by(millis(5), secs(1), "it is told", || asking.is_finished()).await;
        assert_eq!(asking.await.unwrap().unwrap(), Revoked::Released, "{how}");
    }
}

#[tokio::test]
async fn waiting_for_a_revoked_lock_ends_in_time_and_says_that_it_is_held() {
    let world = World::new();
    let guard = take(world.mutex("job").ttl(secs(60))).await;
    let client = world.other();
    let asking = tokio::spawn(async move { client.revoke_within("job", secs(2)).await });
    until("it is asked", || matches!(world.seen("job"), Inspection::Held(h) if h.revoked)).await;
    let asked = world.clock.now();
    world.pass_by(millis(20), secs(3), "it ends", || asking.is_finished()).await;
    assert!(world.clock.now() >= asked.saturating_add(secs(2)), "not before its time");
    let answer = asking.await.unwrap().unwrap();
    assert!(matches!(&answer, Revoked::Requested(holder) if holder.revoked), "{answer:?}");
    assert!(guard.is_valid());
}

#[tokio::test]
async fn a_store_that_is_away_at_the_end_of_the_wait_is_an_error() {
    let world = World::new();
    let _guard = take(world.mutex("job").ttl(secs(60))).await;
    let client = world.client.clone();
    let asking = tokio::spawn(async move { client.revoke_within("job", secs(2)).await });
    until("it is asked", || matches!(world.seen("job"), Inspection::Held(h) if h.revoked)).await;
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    world.pass_by(millis(20), secs(4), "it ends", || asking.is_finished()).await;
    let error = asking.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.names().is_some(), "{error}");
}
