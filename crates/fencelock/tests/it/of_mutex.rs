//! Other kinds of locks from the recipe of a mutex, and what is told of those who hold them.

use std::time::Duration;

use fencelock::{ErrorKind, Inspection, Mutex, Released, Revoked, RwLock, Semaphore, Wait};

use crate::world::{World, millis, secs};

fn many(world: &World) -> Mutex {
    world.client.mutexes(["a", "b"])
}

#[tokio::test]
async fn the_options_of_the_mutex_count() {
    let world = World::new();
    let recipe = world.mutex("job").ttl(secs(9)).metadata("team", "ops").max_hold(secs(60));
    let recipe = recipe.min_hold(secs(3)).wait(Wait::Never);
    let reader = RwLock::of_mutex(recipe.clone()).read().await.unwrap();
    assert!(reader.hold_limit().is_some() && reader.kept_until().is_some());
    let Inspection::Held(holder) = world.client.inspect("job").await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(holder.metadata["team"], "ops");
    assert!(holder.remaining.is_some_and(|left| left <= secs(9)), "{holder:?}");
    assert_eq!(holder.permits, None);
    assert_eq!(recipe.lock().await.unwrap_err().kind(), ErrorKind::WaitExpired);
    assert_eq!(reader.release_now().await, Released::Held);
    let permit = Semaphore::of_mutex(recipe.clone(), 2).acquire().await.unwrap();
    assert!(permit.hold_limit().is_some() && permit.kept_until().is_some());
}

#[tokio::test]
async fn several_names_are_refused_by_the_first_verb() {
    let world = World::new();
    let error = RwLock::of_mutex(many(&world)).read().await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("one name"), "{error}");
    let error = Semaphore::of_mutex(many(&world), 2).acquire().await.unwrap_err();
    assert!(error.is_config() && error.to_string().contains("one name"), "{error}");
}

#[tokio::test]
async fn each_holder_says_how_many_permits_it_has_and_an_error_which_limit_is_kept() {
    let world = World::new();
    let semaphore = Semaphore::of_mutex(world.mutex("gpu").metadata("a", "b"), 5);
    let _three = semaphore.acquire_many(3).await.unwrap();
    let _one = semaphore.acquire().await.unwrap();
    let Inspection::Held(holder) = world.client.inspect("gpu").await.unwrap() else {
        panic!("it is held");
    };
    let sharing = holder.sharing.expect("several hold it");
    assert_eq!((holder.permits, sharing.others[0].permits), (Some(1), Some(3)));
    assert_eq!((sharing.used, sharing.limit), (4, Some(5)));
    assert_eq!(sharing.others[0].metadata.len(), 1, "what the user said, and no more");
    let error = Semaphore::of_mutex(world.mutex("gpu"), 4).acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.kept_limit()), (ErrorKind::Config, Some(5)));
    let error = Semaphore::of_mutex(world.mutex("gpu"), 0).acquire().await.unwrap_err();
    assert_eq!(error.kept_limit(), None, "{error}");
}

#[tokio::test]
async fn a_crowd_is_given_back_when_all_who_were_asked_have_gone() {
    let world = World::reached().await;
    let lock = RwLock::of_mutex(world.mutex("job").ttl(secs(600)));
    let (first, last) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let other = world.other();
    let asking = tokio::spawn(async move { other.revoke_within("job", secs(100)).await });
    last.revoked().await;
    // The one that was shown goes; the other is still there, and so is one that was not asked.
    assert_eq!(last.release().await, Released::Held);
    let late = lock.read().await.unwrap();
    for _ in 0..20 {
        world.clock.advance(millis(500));
        tokio::task::yield_now().await;
    }
    assert!(!asking.is_finished());
    assert_eq!(first.release().await, Released::Held);
    world.pass_by(millis(50), secs(60), "it is over", || asking.is_finished()).await;
    assert_eq!(asking.await.unwrap().unwrap(), Revoked::Released);
    assert!(late.is_valid() && late.validity_left() > Duration::ZERO && !late.is_revoked());
}
