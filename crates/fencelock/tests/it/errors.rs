//! Kind ERR: errors and answers that say what is true, and whom to ask.

use std::{
    error::Error as _,
    sync::{Arc, Mutex, PoisonError},
};

use fencelock::{
    Attempt, Client, ErrorKind, FencingToken, ForeignKind, Inspection, Renew, RetryAdvice,
    RetryStrategy, Store, Wait,
    store::{Fault, StoreErrorKind, Verb},
};

use crate::world::{World, millis, name, secs, take, until};

#[tokio::test]
async fn the_end_of_a_wait_names_the_lock_the_store_and_the_holder() {
    let world = World::new();
    let other = Client::with_store(Arc::new(world.memory.clone()) as Arc<dyn Store>);
    let holder = take(other.mutex("job").label("nightly \u{1b}[2J").metadata("run", "42")).await;
    let mutex = world.mutex("job").wait(millis(500));
    let started = world.clock.now();
    let waiter = tokio::spawn(async move { mutex.lock().await });
    world.pass_until(secs(5), "the wait ends", || waiter.is_finished()).await;
    let error = waiter.await.unwrap().unwrap_err();
    assert!(error.is_wait_expired());
    let waited = world.clock.now().saturating_since(started);
    assert!(waited >= millis(500) && waited <= millis(700), "{waited:?}");
    let text = error.to_string();
    let pid = std::process::id().to_string();
    assert!(text.starts_with("lock `job` in "), "{text}");
    for part in ["memory:", "nightly", &pid, "500ms"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.ends_with('.'), "{text}");
    let seen = error.holder().unwrap();
    assert_eq!(seen.metadata.get("run").map(String::as_str), Some("42"));
    assert_eq!(seen.fencing_token, holder.fencing_token());
    assert_eq!(error.retry(), RetryAdvice::Later);
}

#[tokio::test]
async fn waiting_for_oneself_is_told() {
    let world = World::new();
    let _guard = take(world.mutex("job")).await;
    let error = world.mutex("job").wait(Wait::Never).lock().await.unwrap_err();
    assert!(error.to_string().contains("this process"), "{error}");
    world.taken_by_another("other");
    let error = world.mutex("other").wait(Wait::Never).lock().await.unwrap_err();
    assert!(!error.to_string().contains("this process"), "{error}");
}

#[tokio::test]
async fn a_store_that_was_never_reached_is_given_up_after_two_seconds() {
    for (wait, limit) in [(Wait::Forever, secs(2)), (Wait::For(millis(500)), millis(500))] {
        for fault in [Fault::Fail(StoreErrorKind::Unavailable), Fault::LostRequest] {
            let world = World::new();
            world.faulty.plan_for_all(Some(fault.clone()));
            let mutex = world.mutex("job").wait(wait);
            let started = world.clock.now();
            let waiter = tokio::spawn(async move { mutex.lock().await });
            world.pass_until(secs(5), "it gives up", || waiter.is_finished()).await;
            let error = waiter.await.unwrap().unwrap_err();
            assert!(error.is_unavailable() || error.is_unknown(), "{error}");
            assert!(error.source().is_some(), "{error:?}");
            let waited = world.clock.now().saturating_since(started);
            assert!(waited >= limit && waited < limit + millis(300), "{fault:?} {waited:?}");
        }
    }
}

#[tokio::test]
async fn a_store_that_was_reached_is_waited_for() {
    let world = World::reached().await;
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Unavailable)));
    let mutex = world.mutex("job");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    let calls = world.faulty.calls(Verb::Acquire);
    world
        .pass_until(secs(30), "it tries on", || world.faulty.calls(Verb::Acquire) > calls + 12)
        .await;
    assert!(!waiter.is_finished());
    world.faulty.plan_for_all(None);
    world.pass_until(secs(2), "it is granted", || waiter.is_finished()).await;
    assert!(waiter.await.unwrap().is_ok());
}

/// Goal: the answer that counts at the end of a wait. Method: the first try is told that the lock
/// is busy, the second gets no answer and has 30 ms or most of the wait.
#[tokio::test]
async fn a_last_try_that_is_cut_off_leaves_the_busy_answer_standing() {
    for (pause, expected) in [(270, ErrorKind::WaitExpired), (20, ErrorKind::Unknown)] {
        let world = World::reached().await;
        world.taken_by_another("job");
        world.faulty.plan(Verb::Acquire, Fault::Pass);
        world.faulty.plan(Verb::Acquire, Fault::LostRequest);
        let strategy = RetryStrategy::fixed(millis(pause));
        let mutex = world.mutex("job").wait(millis(300)).retry(strategy);
        let waiter = tokio::spawn(async move { mutex.lock().await });
        for (calls, step) in [(1, pause), (2, 300 - pause)] {
            until("the try was sent", || world.faulty.calls(Verb::Acquire) == calls).await;
            world.clock.advance(millis(step));
        }
        let error = waiter.await.expect("no panic").expect_err("it is held");
        assert_eq!(error.kind(), expected, "{error}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_told_at_once() {
    for (kind, expected) in [
        (StoreErrorKind::Denied, ErrorKind::Denied),
        (StoreErrorKind::Config, ErrorKind::Config),
        (StoreErrorKind::Unsupported, ErrorKind::Unsupported),
        (StoreErrorKind::Protocol, ErrorKind::Internal),
        (StoreErrorKind::Closed, ErrorKind::Closed),
    ] {
        let world = World::reached().await;
        world.faulty.plan(Verb::Acquire, Fault::Fail(kind));
        let error = world.mutex("job").lock().await.unwrap_err();
        assert_eq!(error.kind(), expected, "{error}");
        assert_eq!(error.retry(), RetryAdvice::Never);
        assert_eq!(world.faulty.calls(Verb::Acquire), 1);
        assert!(!world.is_held("job"));
    }
}

#[tokio::test]
async fn a_full_store_is_told_after_two_seconds_and_not_waited_for_in_silence() {
    let world = World::reached().await;
    world.faulty.plan_for_all(Some(Fault::Fail(StoreErrorKind::Full)));
    let mutex = world.mutex("job");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    world.pass_until(secs(5), "it gives up", || waiter.is_finished()).await;
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Full);
}

#[tokio::test]
async fn a_foreign_value_is_told_and_left_alone() {
    let world = World::new();
    let kind = ForeignKind::Type(Arc::from("hash"));
    world.memory.with_table(|table| table.plant_foreign(name("job"), kind.clone()));
    for error in [
        world.mutex("job").lock().await.map(drop).unwrap_err(),
        world.mutex("job").try_lock().await.map(drop).unwrap_err(),
        world.client.danger().force_release("job").await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::ForeignValue, "{error}");
        assert!(error.to_string().contains("type hash"), "{error}");
    }
    assert_eq!(world.client.inspect("job").await.unwrap(), Inspection::Foreign(kind));
    assert_eq!(world.keeper(), (0, 0));
}

#[tokio::test]
async fn inspecting_reads_the_store_and_force_frees_it() {
    let world = World::new();
    let guard = take(world.mutex("job").label("a").metadata("k", "v=\n%")).await;
    let Inspection::Held(seen) = world.other().inspect("job").await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(seen.token_hash, Some(guard.token_hash()));
    assert_eq!((seen.pid, seen.label.as_deref()), (Some(std::process::id()), Some("a")));
    assert_eq!(seen.metadata.get("k").map(String::as_str), Some("v=\n%"));
    assert_eq!(seen.remaining, Some(secs(30)));

    let listed = world.client.list("jo").await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].0, name("job"));
    assert!(world.client.list("x").await.unwrap().is_empty());

    let forced = world.client.danger().force_release("job").await.unwrap();
    assert_eq!(forced.and_then(|view| view.pid), Some(std::process::id()));
    assert_eq!(world.client.danger().force_release("job").await.unwrap(), None);
    let Inspection::Free { fencing_token } = world.client.inspect("job").await.unwrap() else {
        panic!("it is free");
    };
    assert_eq!(fencing_token, guard.fencing_token());
}

#[tokio::test]
async fn a_listing_follows_all_pages() {
    let world = World::new();
    let mut guards = Vec::new();
    for n in 0..2_345 {
        guards.push(take(world.mutex(&format!("p:{n:05}")).renewal(Renew::Manual)).await);
    }
    let listed = world.client.list("p:").await.unwrap();
    assert_eq!(listed.len(), guards.len());
    assert!(listed.is_sorted_by(|a, b| a.0 < b.0));
}

#[tokio::test]
async fn wrong_names_are_told_by_the_first_verb_and_nothing_is_sent() {
    let world = World::new();
    let long = "x".repeat(513);
    for wrong in ["", long.as_str()] {
        assert!(world.mutex(wrong).lock().await.unwrap_err().is_config());
        assert!(world.client.mutexes(["a", wrong]).lock().await.unwrap_err().is_config());
        assert!(world.client.inspect(wrong).await.unwrap_err().is_config());
        assert!(world.client.danger().force_release(wrong).await.unwrap_err().is_config());
    }
    let none: [&str; 0] = [];
    assert!(world.client.mutexes(none).lock().await.unwrap_err().is_config());
    let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    assert!(world.client.mutexes(many).lock().await.unwrap_err().is_config());
    assert!(world.mutex("job").metadata("!host", "x").lock().await.unwrap_err().is_config());
    let large = world.mutex("job").metadata("k", "v".repeat(1_100));
    assert!(large.lock().await.unwrap_err().is_config());
    assert_eq!(world.faulty.calls(Verb::Acquire) + world.faulty.calls(Verb::Inspect), 0);
}

/// All holds of one owner have the fencing token of the first: it can't grow above a floor.
#[tokio::test]
async fn one_more_hold_below_the_floor_is_refused_and_given_back() {
    let world = World::reached().await;
    let lock = world.client.reentrant("job", "me");
    let first = lock.lock().await.unwrap();
    let own = first.fencing_token().unwrap();
    assert!(lock.clone().floor(own).lock().await.unwrap().is_valid(), "its own writes");
    let above = lock.clone().floor(FencingToken::new(own.as_u64() + 1).unwrap());
    assert_eq!(above.lock().await.unwrap_err().kind(), ErrorKind::FenceAhead);
    assert_eq!(above.try_lock().await.unwrap_err().kind(), ErrorKind::FenceAhead);
    let mut queued = above.enqueue().await;
    let error = match &mut queued {
        Ok(queued) => queued.granted().await.unwrap_err(),
        Err(_) => queued.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::FenceAhead);
    assert!(first.is_valid());
    until("the others are given back", || world.keeper() == (1, 0)).await;
    assert_eq!(lock.hold_count().await.unwrap(), 1);
    first.release().await;
    assert!(above.lock().await.unwrap().fencing_token().unwrap().as_u64() > own.as_u64() + 1);
}

#[tokio::test]
async fn a_fencing_floor_is_kept_and_one_from_the_future_is_refused() {
    let world = World::new();
    let seen = take(world.mutex("job")).await;
    let floor = FencingToken::new(seen.fencing_token().unwrap().as_u64() + 1_000_000).unwrap();
    drop(seen);
    world.delete("job");
    let guard = world.mutex("job").floor(floor).require_fencing().lock().await.unwrap();
    assert!(guard.fencing_token() > Some(floor));
    let error = world.mutex("b").floor(FencingToken::MAX).lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FenceAhead, "{error}");
}

#[tokio::test]
async fn the_holder_is_told_once_for_each_that_is_seen() {
    let world = World::new();
    let told: Arc<Mutex<Vec<Option<FencingToken>>>> = Arc::default();
    let holder = take(world.other().mutex("job")).await;
    let first = holder.fencing_token();
    let sink = Arc::clone(&told);
    let mutex = world.mutex("job").retry(RetryStrategy::fixed(millis(10))).on_busy(move |busy| {
        let token = busy.holder.fencing_token;
        sink.lock().unwrap_or_else(PoisonError::into_inner).push(token);
    });
    let waiter = tokio::spawn(async move { mutex.lock().await });
    let calls = || world.faulty.calls(Verb::Acquire);
    world.pass_until(secs(9), "it polls", || calls() > 5).await;
    world.delete("job");
    let second = take(world.other().mutex("job")).await;
    let so_far = calls();
    world.pass_until(secs(9), "it polls", || calls() > so_far + 3).await;
    assert_eq!(*told.lock().unwrap(), [first, second.fencing_token()]);
    drop((holder, second));
    world.pass_until(secs(60), "it is granted", || waiter.is_finished()).await;
    assert!(waiter.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_strategy_that_gives_up_ends_the_wait() {
    let world = World::new();
    world.taken_by_another("job");
    let mutex = world.mutex("job").retry(RetryStrategy::None);
    assert!(mutex.lock().await.unwrap_err().is_wait_expired());
    assert_eq!(world.faulty.calls(Verb::Acquire), 1);
    let mutex = world.mutex("job").retry(RetryStrategy::fixed(millis(10)).limited(2));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    world.pass_until(secs(5), "it gives up", || waiter.is_finished()).await;
    assert!(waiter.await.unwrap().unwrap_err().is_wait_expired());
    assert_eq!(world.faulty.calls(Verb::Acquire), 4);
}

#[tokio::test]
async fn a_busy_answer_has_the_holder() {
    let world = World::new();
    let guard = take(world.client.mutexes(["a", "b"])).await;
    let Ok(Attempt::Busy(busy)) = world.client.mutexes(["c", "b"]).try_lock().await else {
        panic!("it is held");
    };
    assert_eq!(busy.name, name("b"));
    assert_eq!(busy.holder.fencing_token, guard.fencing_token());
    assert_eq!(busy.holder.token_hash, None, "a contender learns no hash either");
}

#[test]
fn urls_that_are_no_store_are_refused_without_a_runtime() {
    for url in ["", "nonsense", "etcd://x", "sqlite:", "memory:x"] {
        assert!(Client::builder(url).build().unwrap_err().is_config(), "{url}");
    }
    let error = Client::builder("memory:").password("hunter2").build().unwrap_err();
    assert!(error.is_config() && !format!("{error} {error:?}").contains("hunter2"));
    assert!(!format!("{:?}", Client::builder("redis://:hunter2@h")).contains("hunter2"));
    assert!(Client::builder("memory:").dialect("plain").build().unwrap_err().is_config());
}
