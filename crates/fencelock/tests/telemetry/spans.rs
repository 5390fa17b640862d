//! Spans: one for each acquire, one for each `run`, with what came of it.

use fencelock::store::{Fault, StoreErrorKind, Verb};

use crate::{
    collected::{Ended, listen, spans_of},
    world::{World, now, secs, take},
};

fn only(lock: &str, name: &str) -> Ended {
    let mut spans: Vec<Ended> =
        spans_of(lock).into_iter().filter(|span| span.name == name).collect();
    assert_eq!(spans.len(), 1, "{name} of {lock}: {spans:?}");
    spans.remove(0)
}

fn field<'a>(span: &'a Ended, name: &str) -> &'a str {
    span.fields.get(name).map_or("", String::as_str)
}

#[tokio::test]
async fn an_acquire_says_lock_store_attempts_fencing_token_and_outcome() {
    listen();
    let world = World::reached().await;
    let guard = world.mutex("span:granted").lock().await.unwrap();
    let span = only("span:granted", "fencelock.acquire");
    assert_eq!(field(&span, "store"), "faulty(memory:)");
    assert_eq!(field(&span, "attempt"), "1");
    assert_eq!(field(&span, "fencing"), guard.fencing_token().unwrap().to_string());
    assert_eq!(field(&span, "outcome"), "granted");
    assert_eq!(span.parent, None);
}

#[tokio::test]
async fn what_is_not_granted_says_why_and_has_no_fencing_token() {
    listen();
    let world = World::reached().await;
    let guard = take(world.mutex("span:held").ttl(secs(60))).await;
    let others = || world.mutex("span:held").ttl(secs(60));
    others().try_lock().await.unwrap().granted().ok_or(()).unwrap_err();
    others().wait(fencelock::Wait::Never).lock().await.unwrap_err();
    {
        let waits = others();
        assert!(now(waits.lock()).is_none());
    }
    world.faulty.plan(Verb::Acquire, Fault::Fail(StoreErrorKind::Full));
    others().try_lock().await.unwrap_err();
    let spans = spans_of("span:held");
    let outcomes: Vec<&str> = spans.iter().map(|span| field(span, "outcome")).collect();
    assert_eq!(outcomes, ["granted", "busy", "expired", "dropped", "unavailable"]);
    let fenced = spans.iter().filter(|span| !field(span, "fencing").is_empty());
    assert_eq!(fenced.count(), 1);
    drop(guard);
}

#[tokio::test]
async fn a_run_has_its_acquire_and_its_work_inside() {
    listen();
    let world = World::reached().await;
    let mutex = world.mutex("span:run");
    let inside =
        mutex.run(|_| async { tracing::Span::current().metadata().map(|span| span.name()) });
    assert_eq!(inside.await.unwrap(), Some("fencelock.run"));
    let run = only("span:run", "fencelock.run");
    assert_eq!(field(&run, "outcome"), "done");
    assert!(field(&run, "fencing").parse::<u64>().is_ok(), "{run:?}");
    let acquire = only("span:run", "fencelock.acquire");
    assert_eq!(acquire.parent, Some("fencelock.run"));
}

#[tokio::test]
async fn a_run_of_every_primitive_is_a_span_and_only_a_right_to_write_is_a_fencing_token() {
    listen();
    let world = World::reached().await;
    let client = &world.client;
    client.rwlock("span:read").run_read(|_| async {}).await.unwrap();
    client.rwlock("span:write").run_write(|_| async {}).await.unwrap();
    client.semaphore("span:permit", 2).run(|_| async {}).await.unwrap();
    client.reentrant("span:owned", "me").run(|_| async {}).await.unwrap();
    for (lock, is_fenced) in
        [("span:read", false), ("span:write", true), ("span:permit", false), ("span:owned", true)]
    {
        for kind in ["fencelock.run", "fencelock.acquire"] {
            let span = only(lock, kind);
            assert_eq!(!field(&span, "fencing").is_empty(), is_fenced, "{kind} of {lock}");
        }
        assert_eq!(field(&only(lock, "fencelock.run"), "outcome"), "done");
    }
}

#[cfg(feature = "blocking")]
#[test]
fn a_run_by_a_thread_is_one_span_around_its_acquire_and_its_work() {
    use fencelock::blocking;

    listen();
    let client = blocking::connect("memory:").unwrap();
    let inner = client.mutex("span:inner");
    client.rwlock("span:thread").run_write(|_| drop(inner.lock().unwrap())).unwrap();
    let run = only("span:thread", "fencelock.run");
    assert_eq!(field(&run, "outcome"), "done");
    assert!(!field(&run, "fencing").is_empty());
    for lock in ["span:thread", "span:inner"] {
        assert_eq!(only(lock, "fencelock.acquire").parent, Some("fencelock.run"), "{lock}");
    }
    let (one, other) = ("span:thread's set 1", "span:thread's set 2");
    client.mutexes([one, other]).across_slots().run(|_| ()).unwrap();
    assert!(!field(&only(&set_of(one, other), "fencelock.run"), "fencing").is_empty());
    let parts = ["span:thread's 1", "span:thread's 2"];
    client.all_of(parts.map(|part| client.mutex(part).into())).run(|_| ()).unwrap();
    assert_eq!(field(&only(&set_of(parts[0], parts[1]), "fencelock.run"), "outcome"), "done");
}

#[tokio::test]
async fn a_run_that_is_lost_or_dropped_says_so() {
    listen();
    let world = World::reached().await;
    let endless = world.mutex("span:lost").max_hold(secs(1)).ttl(secs(9));
    let work = tokio::spawn(async move { endless.run(|_| std::future::pending::<()>()).await });
    crate::world::until("it is held", || world.is_held("span:lost")).await;
    world.clock.advance(secs(1));
    assert!(work.await.unwrap().unwrap_err().is_lost());
    assert_eq!(field(&only("span:lost", "fencelock.run"), "outcome"), "lost");

    {
        let endless = world.mutex("span:dropped");
        assert!(now(endless.run(|_| std::future::pending::<()>())).is_none());
    }
    assert_eq!(field(&only("span:dropped", "fencelock.run"), "outcome"), "dropped");
}

#[tokio::test]
async fn a_run_of_a_set_across_slots_is_one_span_around_its_parts() {
    listen();
    let world = World::reached().await;
    let set = world.client.mutexes(["span:b", "span:a"]).across_slots();
    set.run(|held| async move { assert!(held.is_valid()) }).await.unwrap();
    let lock = set_of("span:a", "span:b");
    let run = only(&lock, "fencelock.run");
    assert_eq!(field(&run, "outcome"), "done");
    assert!(field(&run, "fencing").parse::<u64>().is_ok(), "{run:?}");
    // In memory it is one part.
    assert_eq!(only(&lock, "fencelock.acquire").parent, Some("fencelock.run"));
}

#[tokio::test]
async fn a_run_of_a_composite_is_one_span_around_its_parts() {
    listen();
    let world = World::reached().await;
    let parts = || {
        let mutex = fencelock::Part::from(world.mutex("span:part b"));
        [mutex, fencelock::Part::read(&world.client.rwlock("span:part a"))]
    };
    world.client.all_of(parts()).run(|held| async move { held.is_valid() }).await.unwrap();
    let run = only(&set_of("span:part a", "span:part b"), "fencelock.run");
    assert_eq!((field(&run, "outcome"), field(&run, "fencing")), ("done", ""));
    assert!(field(&run, "store").contains("memory"), "{run:?}");
    for part in ["span:part a", "span:part b"] {
        assert_eq!(only(part, "fencelock.acquire").parent, Some("fencelock.run"), "{part}");
    }
}

/// Two names as a set shows them.
fn set_of(first: &str, second: &str) -> String {
    use fencelock::{LockName, Names};

    let names = [first, second].map(|name| LockName::new(name).unwrap());
    Names::new(names).unwrap().to_string()
}
