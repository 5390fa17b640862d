//! Kind OWN: release and renewal never touch somebody else's grant.

use std::{collections::HashSet, sync::Arc};

use fencelock::{LossReason, Released, Renew};

use crate::world::{World, millis, secs, take, until};

#[tokio::test]
async fn a_late_release_leaves_the_next_holder_alone() {
    for dropped in [false, true] {
        let world = World::new();
        let late = take(world.mutex("job").ttl(millis(200)).renewal(Renew::Manual)).await;
        world.clock.advance(millis(300));
        let next = take(world.other().mutex("job")).await;
        let (token, left) = (world.holder_token("job"), world.left("job"));
        if dropped {
            drop(late);
            until("the keeper has done all", || world.keeper() == (0, 0)).await;
        } else {
            assert_eq!(late.release().await, Released::Taken);
        }
        assert_eq!((world.holder_token("job"), world.left("job")), (token, left));
        assert!(next.is_valid());
        assert!(world.mutex("job").try_lock().await.unwrap().granted().is_none());
    }
}

#[tokio::test]
async fn the_token_at_the_store_decides_and_not_the_clock_of_the_holder() {
    let world = World::new();
    let deceived = take(world.mutex("job")).await;
    world.delete("job");
    let other = world.taken_by_another("job");
    assert!(deceived.is_valid(), "it can't know yet");
    assert_eq!(deceived.release().await, Released::Taken);
    assert_eq!(world.holder_token("job"), Some(other.to_hex().to_vec()));
}

#[tokio::test]
async fn each_grant_has_a_token_of_its_own() {
    let world = World::new();
    let mutex = world.mutex("job");
    let mut hashes = HashSet::new();
    let mut last = None;
    for _ in 0..2_000 {
        let guard = mutex.lock().await.unwrap();
        assert!(hashes.insert(guard.token_hash()));
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        assert_eq!(guard.release().await, Released::Held);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_recipe_keeps_the_grants_of_two_tasks_apart() {
    let world = World::new();
    let mutex = Arc::new(world.mutex("job").ttl(millis(100)).renewal(Renew::Manual));
    let first = take((*mutex).clone()).await;
    world.clock.advance(millis(150));
    let second = tokio::spawn(async move { take((*mutex).clone()).await }).await.unwrap();
    assert_ne!(first.token_hash(), second.token_hash());
    let released = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(first.release())
    });
    assert_eq!(released.join().unwrap(), Released::Taken);
    assert!(world.is_held("job"));
    assert_eq!(second.release().await, Released::Held);
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn a_lease_by_token_is_released_once_and_by_its_token_only() {
    let world = World::new();
    let ticket = take(world.mutex("job")).await.leak().await.unwrap();
    let other = world.other();
    let wrong = other.lease(ticket.names().clone(), fencelock::store::rt::fresh_token());
    assert_eq!(wrong.release().await.unwrap(), Released::Taken);
    let error = wrong.renew(secs(30)).await.unwrap_err();
    assert_eq!(error.loss(), Some(LossReason::Taken), "{error}");
    assert!(world.is_held("job"));

    let right = other.lease(ticket.names().clone(), ticket.token());
    assert_eq!(right.renew(secs(60)).await.unwrap(), secs(60));
    assert_eq!(right.release().await.unwrap(), Released::Held);
    assert!(right.renew(secs(30)).await.unwrap_err().is_lost());
    assert!(!world.is_held("job"));
}

#[tokio::test]
async fn sweeping_the_store_removes_no_lease_that_runs() {
    let world = World::new();
    let mut guards = Vec::new();
    for n in 0..100 {
        guards.push(take(world.mutex(&format!("job:{n}")).ttl(secs(1))).await);
    }
    for _ in 0..15 {
        let before: Vec<_> = guards.iter().map(fencelock::Guard::deadline).collect();
        world.clock.advance(millis(340));
        until("all are renewed", || {
            guards.iter().zip(&before).all(|(guard, before)| guard.deadline() > *before)
        })
        .await;
        let now = world.memory.store_now();
        world.memory.with_table(|table| table.sweep(now));
        for guard in &guards {
            let held = world.memory.with_table(|table| table.record(guard.name()).is_some());
            assert!(held && guard.is_valid(), "{:?}", guard.name());
        }
    }
}
