//! What is measured, on a clock that stands still unless it is moved.

use std::sync::Arc;

use fencelock::{
    Client, Mutex, RetryStrategy, Store,
    store::{Fault, StoreErrorKind, Verb},
};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::{
    scrape::{self, lines_of, value},
    warped::Warped,
    world::{World, millis, now, secs, take, until},
};

const STORE: (&str, &str) = ("store", "other"); // A store with faults is none of the known kinds.

fn acquired(class: &str, outcome: &str) -> f64 {
    let labels = [("class", class), STORE, ("outcome", outcome)];
    value("fencelock_acquire_seconds_count", &labels)
}

fn contended(class: &str) -> f64 {
    value("fencelock_contended_total", &[("class", class), STORE])
}

fn waiters(class: &str) -> f64 {
    value("fencelock_waiters", &[("class", class), STORE])
}

/// How many holds, and how many seconds they took in all.
fn held(class: &str) -> (f64, f64) {
    let labels = [("class", class), STORE];
    let [count, sum] = ["count", "sum"].map(|what| format!("fencelock_hold_seconds_{what}"));
    (value(&count, &labels), value(&sum, &labels))
}

#[tokio::test]
async fn each_acquire_is_measured_once_by_how_it_ended() {
    scrape::listen();
    let world = World::reached().await;
    let mutex = || world.mutex("outcomes").class("outcomes").ttl(secs(60));
    let guard = take(mutex()).await;
    assert_eq!(acquired("outcomes", "granted"), 1.0);
    assert!(mutex().try_lock().await.unwrap().granted().is_none());
    assert_eq!(acquired("outcomes", "busy"), 1.0);
    let error = mutex().wait(fencelock::Wait::Never).lock().await.unwrap_err();
    assert!(error.is_wait_expired(), "{error}");
    assert_eq!(acquired("outcomes", "expired"), 1.0);
    let waits = mutex();
    assert!(now(waits.lock()).is_none(), "it waits, and is dropped");
    assert_eq!(acquired("outcomes", "dropped"), 1.0);
    assert_eq!(contended("outcomes"), 3.0);
    // Else the release would hand it to the place that was just given up.
    until("its place is given up", || world.waiting("outcomes") == 0).await;
    guard.release().await;
    world.faulty.plan(Verb::Acquire, Fault::Fail(StoreErrorKind::Full));
    assert!(mutex().try_lock().await.is_err());
    assert_eq!(acquired("outcomes", "unavailable"), 1.0);
    world.faulty.plan(Verb::Acquire, Fault::Fail(StoreErrorKind::Denied));
    assert!(mutex().lock().await.is_err());
    assert_eq!(acquired("outcomes", "refused"), 1.0);
    assert_eq!(mutex().run(|_| async { 7 }).await.unwrap(), 7);
    assert_eq!(acquired("outcomes", "granted"), 2.0);
    assert_eq!(held("outcomes").0, 2.0);
    assert_eq!(contended("outcomes"), 3.0, "free locks are not contended");
}

#[tokio::test]
async fn the_wait_is_what_an_acquire_takes() {
    scrape::listen();
    let world = World::reached().await;
    let guard = take(world.mutex("waits").ttl(secs(3_600))).await;
    let mutex = world.mutex("waits").class("waits").ttl(secs(3_600));
    let waiter = tokio::spawn(async move { mutex.lock().await });
    until("it waits", || waiters("waits") == 1.0).await;
    world.clock.advance(secs(9));
    guard.release().await;
    waiter.await.unwrap().unwrap().release().await;
    let labels = [("class", "waits"), STORE, ("outcome", "granted")];
    assert_eq!(value("fencelock_acquire_seconds_sum", &labels), 9.0);
    assert_eq!((waiters("waits"), contended("waits")), (0.0, 1.0));
}

/// Goal: whoever waits is counted for as long, and no longer. Method: those who wait in the line of
/// the process, at the store, by asking again and with a place of their own; each is dropped, or
/// granted the lock.
#[tokio::test]
async fn waiters_are_counted_until_they_are_granted_or_dropped() {
    scrape::listen();
    let world = World::reached().await;
    let mutex = || world.mutex("crowd").class("crowd").ttl(secs(3_600));
    let guard = take(mutex()).await;
    let forms: [fn(Mutex) -> Mutex; 4] =
        [|it| it, |it| it, Mutex::strict_fifo, |it| it.retry(RetryStrategy::default())];
    let mut tasks = Vec::new();
    for (count, form) in forms.into_iter().enumerate() {
        let mutex = form(mutex());
        tasks.push(tokio::spawn(async move { drop(mutex.lock().await) }));
        until("one more waits", || waiters("crowd") == (count + 1) as f64).await;
    }
    let mut place = mutex().enqueue().await.unwrap();
    assert_eq!(waiters("crowd"), 5.0);
    assert!(now(place.granted()).is_none(), "the wait is dropped, the place is not");
    assert_eq!(waiters("crowd"), 5.0);
    drop(place);
    assert_eq!(waiters("crowd"), 4.0);
    for (gone, task) in tasks.iter().enumerate() {
        task.abort();
        until("it is gone", || task.is_finished()).await;
        assert_eq!(waiters("crowd"), (3 - gone) as f64);
    }
    let mut place = mutex().enqueue().await.unwrap();
    guard.release().await;
    let guard = place.granted().await.unwrap();
    assert_eq!(waiters("crowd"), 0.0);
    guard.release().await;
    assert_eq!(contended("crowd"), 6.0, "once for each");
    assert_eq!(acquired("crowd", "dropped"), 5.0);
    assert_eq!(acquired("crowd", "granted"), 2.0);
}

#[tokio::test]
async fn each_hold_is_measured_for_its_own_class_also_inside_one_lease() {
    scrape::listen();
    let world = World::reached().await;
    let mutex = |class| world.mutex("passed").class(class).ttl(secs(3_600));
    let first = mutex("passed-first").lock().await.unwrap();
    let next = mutex("passed-next");
    let waiter = tokio::spawn(async move { next.lock().await });
    until("it waits", || waiters("passed-next") == 1.0).await;
    world.clock.advance(secs(3));
    first.release().await;
    let second = waiter.await.unwrap().unwrap();
    assert_eq!(held("passed-first"), (1.0, 3.0));
    world.clock.advance(secs(5));
    drop(second);
    assert_eq!(held("passed-next"), (1.0, 5.0));
    assert_eq!(held("passed-first"), (1.0, 3.0));
}

#[tokio::test]
async fn every_primitive_is_measured_by_its_class_and_what_nobody_holds_is_no_hold() {
    scrape::listen();
    let world = World::reached().await;
    let client = &world.client;
    drop(client.rwlock("kinds-rw").class("readers").read().await.unwrap());
    drop(client.semaphore("kinds-s", 2).class("permits").acquire().await.unwrap());
    drop(client.reentrant("kinds-r", "me").class("owned").lock().await.unwrap());
    for class in ["readers", "permits", "owned"] {
        assert_eq!((acquired(class, "granted"), held(class).0), (1.0, 1.0), "{class}");
    }
    let latch = client.latch("kinds-l", 1).class("steps");
    latch.count_down().await.unwrap();
    latch.wait().await.unwrap();
    assert_eq!((acquired("steps", "granted"), held("steps").0), (2.0, 0.0));
}

#[tokio::test]
async fn a_loss_has_its_reason_and_ends_the_hold() {
    scrape::listen();
    let world = World::reached().await;
    let guard = take(world.mutex("lost").class("lost").ttl(secs(60))).await;
    world.faulty.plan(Verb::Renew, Fault::Fail(StoreErrorKind::Unavailable));
    world.clock.advance(secs(20));
    let failures = || value("fencelock_renew_failures_total", &[("class", "lost"), STORE]);
    until("a renewal failed", || failures() == 1.0).await;
    world.delete("lost");
    world.clock.advance(secs(6));
    guard.lost().await;
    let labels = [("class", "lost"), STORE, ("reason", "disappeared")];
    until("the loss is told", || value("fencelock_lease_lost_total", &labels) == 1.0).await;
    assert_eq!(held("lost"), (1.0, 26.0));
    guard.release().await;
    assert_eq!(held("lost"), (1.0, 26.0), "it had ended");
    assert_eq!(value("fencelock_lease_lost_total", &labels), 1.0);
}

#[tokio::test]
async fn a_step_of_the_stores_clock_is_counted() {
    scrape::listen();
    let world = World::new();
    let warped = Warped::new(world.memory.clone());
    let client = Client::with_store(Arc::new(warped.clone()) as Arc<dyn Store>);
    client.inspect("stepped").await.unwrap();
    warped.step_forward(secs(31));
    client.inspect("stepped").await.unwrap();
    // No other test steps a clock.
    assert_eq!(value("fencelock_clock_steps_total", &[("direction", "forward")]), 1.0);
}

#[tokio::test]
async fn more_names_are_not_more_series() {
    scrape::listen();
    let world = World::reached().await;
    let mut lines = Vec::new();
    for number in 0..50 {
        let mutex = world.mutex(&format!("many:{number}")).class("many");
        take(mutex).await.release().await;
        if number == 0 {
            lines = lines_of("many");
        }
    }
    assert!(!lines.is_empty());
    assert_eq!(lines_of("many").len(), lines.len());
    assert!(!scrape::listen().render().contains("many:"), "a name is no label");
}

/// A recorder that breaks whatever it is asked.
struct Broken;

impl Recorder for Broken {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        panic!("a counter")
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("a gauge")
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("a histogram")
    }
}

#[tokio::test]
async fn a_recorder_that_panics_takes_no_lock_with_it() {
    let _broken = metrics::set_default_local_recorder(&Broken);
    let world = World::reached().await;
    let guard = take(world.mutex("broken").ttl(secs(60))).await;
    assert!(world.mutex("broken").try_lock().await.unwrap().granted().is_none());
    assert!(now(world.mutex("broken").wait(millis(5)).lock()).is_none());
    until("its place is given up", || world.waiting("broken") == 0).await;
    assert_eq!(guard.release().await, fencelock::Released::Held);
    assert!(!world.is_held("broken"));
}
