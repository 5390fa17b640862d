//! Kind CANCEL for those who wait: every future is dropped after every number of polls, the lock
//! comes free at every point of it, and every answer may fail. Whoever waits behind has the lock
//! then, and nothing of the dropped one is left: no lease, no place in the line of the store or of
//! the process, no renewal, no route for messages.
//!
//! ```text
//!   holder   |=== held ===|            released before the subject's poll number `event_at`
//!   subject  . poll . poll . poll ...  dropped after `polls` of them
//!   rival          |------ waits behind it, from its first poll on ------> must have the lock
//! ```

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use fencelock::{
    Error, Guard, Mutex, Renew,
    store::{Fault, StoreErrorKind, Verb},
};
use tokio::task::JoinHandle;

use crate::world::{World, millis, now, secs, take, until};

type Subject = Pin<Box<dyn Future<Output = ()>>>;
type Wait = Pin<Box<dyn Future<Output = Result<Guard, Error>>>>;

/// After so many polls everybody here has the lock, or waits for good.
const MOST_POLLS: usize = 6;

/// Far from the end of the lease, and sooner than places of the dead are taken out.
const SOON: std::time::Duration = secs(20);

/// What may go wrong, in the first two calls of a verb; and whether held calls are let go between the
/// polls.
fn faults() -> Vec<(Verb, Fault, bool)> {
    let mut all = vec![(Verb::Acquire, Fault::Pass, false)];
    for verb in [Verb::Acquire, Verb::Listen, Verb::Release, Verb::Renew] {
        for fault in [
            Fault::Fail(StoreErrorKind::Unavailable),
            Fault::LostRequest,
            Fault::LostReply,
            Fault::HoldRequest,
            Fault::HoldReply,
        ] {
            let holds = matches!(fault, Fault::HoldRequest | Fault::HoldReply);
            if holds {
                all.push((verb, fault.clone(), true));
            }
            all.push((verb, fault, false));
        }
    }
    all
}

/// One run: what fails, when the event comes, and when the subject is dropped.
struct Case {
    verb: Verb,
    fault: Fault,
    let_go: bool,
    event_at: usize,
    polls: usize,
}

impl Case {
    /// Without faults all is done at once, on a clock that stands still.
    const fn is_calm(&self) -> bool {
        matches!(self.fault, Fault::Pass)
    }

    fn what(&self, what: &str) -> String {
        let Self { verb, fault, let_go, event_at, polls } = self;
        format!("{what}: {verb:?} {fault:?} let go {let_go}, event {event_at}, polls {polls}")
    }

    fn plan(&self, world: &World) {
        if !self.is_calm() {
            for _ in 0..2 {
                world.faulty.plan(self.verb, self.fault.clone());
            }
        }
    }

    /// Waits until something is the case.
    async fn soon(&self, world: &World, what: &str, done: impl Fn() -> bool) {
        let what = self.what(what);
        if self.is_calm() {
            until(&what, done).await;
        } else {
            let done = || {
                world.faulty.let_go();
                done()
            };
            world.pass_by(millis(200), SOON, &what, done).await;
        }
    }

    /// Polls the subject, with the event in between, and drops it.
    async fn poll_then_drop(
        &self,
        world: &World,
        mut subject: Subject,
        mut before: impl FnMut(usize),
    ) {
        let mut context = Context::from_waker(Waker::noop());
        for poll in 0..self.polls {
            before(poll);
            if subject.as_mut().poll(&mut context) == Poll::Ready(()) {
                return;
            }
            settle().await;
            if self.let_go {
                world.faulty.let_go();
            }
            // Calls that are lost take a second; a claim runs for half of one.
            world.clock.advance(millis(if self.is_calm() { 20 } else { 300 }));
            settle().await;
        }
    }
}

/// Lets the tasks of this runtime run until they wait.
async fn settle() {
    for _ in 0..12 {
        tokio::task::yield_now().await;
    }
}

/// Runs all cases, those of one fault at the same time: each has a world of its own.
async fn in_all_cases(run: impl AsyncFn(Case)) {
    for (verb, fault, let_go) in faults() {
        let mut cases = Vec::new();
        for event_at in 0..=MOST_POLLS {
            for polls in 0..=MOST_POLLS {
                // An event after the drop is the same for all.
                if event_at > polls + 1 {
                    continue;
                }
                cases.push(run(Case { verb, fault: fault.clone(), let_go, event_at, polls }));
            }
        }
        all(cases).await;
    }
}

/// Polls all until all have ended.
async fn all(futures: Vec<impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Waits for the lock, and gives it back.
fn waits(mutex: &Mutex) -> JoinHandle<Result<(), Error>> {
    let mutex = mutex.clone();
    tokio::spawn(async move {
        let _released = mutex.lock().await?.release().await;
        Ok(())
    })
}

/// Whoever waits has the lock soon.
async fn is_served(case: &Case, world: &World, what: &str, waiter: JoinHandle<Result<(), Error>>) {
    case.soon(world, what, || waiter.is_finished()).await;
    waiter.await.expect("it did not panic").expect("it has the lock");
}

/// Nothing is left of anybody.
async fn is_clean(case: &Case, world: &World, names: &[&str]) {
    case.soon(world, "nothing is held", || names.iter().all(|name| !world.is_held(name))).await;
    let nobody = || names.iter().all(|name| world.waiting(name) == 0);
    case.soon(world, "nobody is in the store's line", nobody).await;
    case.soon(world, "the keeper is done", || world.keeper() == (0, 0)).await;
    case.soon(world, "the process has no line", || world.own_lines() == 0).await;
    case.soon(world, "no messages are expected", || world.routes() == 0).await;
}

/// Another client holds the lock; the subject waits, and another client behind it.
async fn behind_another_client<F>(names: &[&str], held: &str, subject_of: F)
where
    F: Fn(&World) -> Subject,
{
    in_all_cases(async |case: Case| {
        let world = World::reached().await;
        let other = world.other();
        let mut holder = Some(take(other.mutex(held).ttl(secs(3_600))).await);
        case.plan(&world);
        let mut rival = None;
        let subject = subject_of(&world);
        let before = |poll| {
            if poll == 1 {
                rival = Some(waits(&other.mutex(held)));
            }
            if poll == case.event_at {
                drop_at_once(holder.take());
            }
        };
        case.poll_then_drop(&world, subject, before).await;
        let rival = rival.unwrap_or_else(|| waits(&other.mutex(held)));
        settle().await;
        drop_at_once(holder.take());
        is_served(&case, &world, "the rival has it", rival).await;
        is_clean(&case, &world, names).await;
    })
    .await;
}

/// Releases in this very moment, which a store in memory can.
fn drop_at_once(guard: Option<Guard>) {
    if let Some(guard) = guard {
        let released = now(guard.release());
        assert_eq!(released, Some(fencelock::Released::Held));
    }
}

fn patient(world: &World) -> Mutex {
    world.mutex("job").ttl(secs(3_600))
}

#[tokio::test]
async fn a_wait_in_the_line_of_the_process_that_is_dropped_leaves_nothing() {
    behind_another_client(&["job"], "job", |world| {
        let mutex = patient(world);
        Box::pin(async move { drop(mutex.lock().await) })
    })
    .await;
}

#[tokio::test]
async fn a_wait_with_a_place_of_its_own_that_is_dropped_leaves_nothing() {
    behind_another_client(&["job"], "job", |world| {
        let mutex = patient(world).strict_fifo();
        Box::pin(async move { drop(mutex.lock().await) })
    })
    .await;
}

#[tokio::test]
async fn a_barging_wait_that_is_dropped_leaves_nothing() {
    behind_another_client(&["job"], "job", |world| {
        let mutex = patient(world).barging();
        Box::pin(async move { drop(mutex.lock().await) })
    })
    .await;
}

#[tokio::test]
async fn a_wait_for_a_lease_that_nobody_renews_leaves_nothing() {
    behind_another_client(&["job"], "job", |world| {
        let mutex = patient(world).renewal(Renew::Manual);
        Box::pin(async move { drop(mutex.lock().await) })
    })
    .await;
}

#[tokio::test]
async fn a_waiting_set_that_is_dropped_keeps_no_name_reserved() {
    for held in ["job", "zeta"] {
        behind_another_client(&["job", "zeta"], held, |world| {
            let mutex = world.client.mutexes(["zeta", "job"]).ttl(secs(3_600));
            Box::pin(async move { drop(mutex.lock().await) })
        })
        .await;
    }
}

#[tokio::test]
async fn a_wait_that_ends_and_is_dropped_at_any_point_leaves_nothing() {
    for wait in [10, 50, 700] {
        behind_another_client(&["job"], "job", |world| {
            let mutex = patient(world).wait(millis(wait));
            Box::pin(async move { drop(mutex.lock().await) })
        })
        .await;
    }
}

#[tokio::test]
async fn an_enqueued_place_that_is_dropped_leaves_nothing() {
    for renewal in [Renew::Auto, Renew::Manual] {
        behind_another_client(&["job"], "job", |world| {
            let mutex = patient(world).renewal(renewal);
            Box::pin(async move {
                let Ok(mut queued) = mutex.enqueue().await else { return };
                // Each poll of this future is a wait of its own, dropped in the end.
                let granted =
                    std::future::poll_fn(|context| std::pin::pin!(queued.granted()).poll(context));
                drop(granted.await);
            })
        })
        .await;
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_nothing() {
    behind_another_client(&["job"], "job", |world| {
        let mutex = patient(world);
        Box::pin(async move {
            let _result = mutex.run(|_held| tokio::task::yield_now()).await;
        })
    })
    .await;
}

/// What the tasks before the subject in its own process do.
#[derive(Clone, Copy, Debug)]
enum Ahead {
    Releases,
    Drops,
    /// Its token got out, so the lease goes to the store and only the turn to the subject.
    GivesBack,
    /// It waits too, and goes: the subject has its place at the store.
    Goes,
    /// It loses its lock, and keeps the guard.
    Loses,
}

/// The subject waits behind another task of its client; a third one and a rival behind it.
async fn behind_a_task_of_its_own(ahead: Ahead) {
    in_all_cases(async |case: Case| {
        if matches!((ahead, case.verb), (Ahead::Loses, Verb::Renew)) {
            // It does not know yet that it lost it.
            return;
        }
        let world = World::reached().await;
        let other = world.other();
        let mut blocker = None;
        let mut first: Option<Wait> = None;
        let mut own = None;
        if let Ahead::Goes = ahead {
            blocker = Some(take(other.mutex("job").ttl(secs(3_600))).await);
            let mutex = patient(&world);
            let mut waits: Wait = Box::pin(async move { mutex.lock().await });
            for _ in 0..3 {
                assert!(now(waits.as_mut()).is_none());
                settle().await;
            }
            first = Some(waits);
        } else {
            own = now(Box::pin(async { patient(&world).lock().await.unwrap() }));
            assert!(own.is_some());
        }
        case.plan(&world);
        let (mut third, mut rival, mut lost) = (None, None, None);
        let mutex = patient(&world);
        let subject = Box::pin(async move { drop(mutex.lock().await) });
        let mut event = || {
            if let (Some(guard), Ahead::GivesBack) = (&own, ahead) {
                let _secret = guard.token();
            }
            match ahead {
                Ahead::Releases | Ahead::GivesBack => {
                    // Dropped before it is answered, perhaps.
                    let _released = own.take().map(|guard| now(guard.release()));
                }
                Ahead::Drops => drop(own.take()),
                Ahead::Goes => drop(first.take()),
                Ahead::Loses => {
                    if let Some(guard) = own.take() {
                        let lease = other.lease(guard.names().clone(), guard.token());
                        let _released = now(lease.release());
                        let _lost = now(guard.renew(secs(3_600)));
                        lost = Some(guard);
                    }
                }
            }
        };
        let before = |poll| {
            if poll == 1 {
                third = Some(waits(&patient(&world)));
                rival = Some(waits(&other.mutex("job")));
            }
            if poll == case.event_at {
                event();
            }
        };
        case.poll_then_drop(&world, subject, before).await;
        let third = third.unwrap_or_else(|| waits(&patient(&world)));
        settle().await;
        let rival = rival.unwrap_or_else(|| waits(&other.mutex("job")));
        settle().await;
        event();
        if let Some(guard) = blocker {
            drop_at_once(Some(guard));
        }
        is_served(&case, &world, "the third has it", third).await;
        is_served(&case, &world, "the rival has it", rival).await;
        // All were served before it is dropped; only its route for messages lives as long.
        drop(lost);
        is_clean(&case, &world, &["job"]).await;
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_passed_to_a_dropped_task_goes_on() {
    behind_a_task_of_its_own(Ahead::Releases).await;
}

#[tokio::test]
async fn a_dropped_guard_that_is_passed_to_a_dropped_task_goes_on() {
    behind_a_task_of_its_own(Ahead::Drops).await;
}

#[tokio::test]
async fn a_turn_that_is_given_to_a_dropped_task_goes_on() {
    behind_a_task_of_its_own(Ahead::GivesBack).await;
}

#[tokio::test]
async fn a_place_that_is_given_to_a_dropped_task_goes_on() {
    behind_a_task_of_its_own(Ahead::Goes).await;
}

#[tokio::test]
async fn a_lost_guard_that_is_kept_keeps_nobody_waiting() {
    behind_a_task_of_its_own(Ahead::Loses).await;
}

/// Goal: a place that the first of a line leaves survives any number of tasks that are dropped when
/// they are given it. Method: somebody else enqueues behind; the last task is still before it.
#[tokio::test]
async fn a_place_is_kept_through_any_number_of_dropped_tasks() {
    let world = World::reached().await;
    let other = world.other();
    let guard = take(other.mutex("job").ttl(secs(3_600))).await;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let mutex = patient(&world);
        let mut wait = Box::pin(async move { mutex.lock().await });
        for _ in 0..3 {
            assert!(now(wait.as_mut()).is_none());
            settle().await;
        }
        waits.push(wait);
    }
    assert_eq!(world.waiting("job"), 1);
    let mut behind = other.mutex("job").enqueue().await.unwrap();
    let mut last = waits.pop().unwrap();
    // Each drop gives the turn to the next, which is dropped without a poll.
    drop(waits);
    assert_eq!(world.waiting("job"), 2);
    assert!(now(last.as_mut()).is_none());
    drop_at_once(Some(guard));
    assert!(now(Box::pin(behind.granted()).as_mut()).is_none());
    now(last.as_mut()).expect("it has the lock").unwrap().release().await;
    behind.granted().await.unwrap().release().await;
}

/// Goal: a dropped `granted()` loses nothing, also while the lease is being prolonged. Method: the
/// answer to that is held; the next call has the same lease.
#[tokio::test]
async fn a_lease_that_is_being_prolonged_is_kept_by_a_dropped_wait() {
    let world = World::reached().await;
    let other = world.other();
    let guard = take(other.mutex("job").ttl(secs(3_600))).await;
    let mut queued = patient(&world).renewal(Renew::Manual).enqueue().await.unwrap();
    let mut behind = other.mutex("job").enqueue().await.unwrap();
    assert!(now(Box::pin(queued.granted()).as_mut()).is_none());
    world.faulty.plan(Verb::Renew, Fault::HoldReply);
    drop_at_once(Some(guard));
    assert!(now(Box::pin(queued.granted()).as_mut()).is_none(), "it is being prolonged");
    let granted = queued.granted().await.unwrap();
    assert!(granted.validity_left() > secs(3_500), "{granted:?}");
    assert!(now(Box::pin(behind.granted()).as_mut()).is_none());
    granted.release().await;
    behind.granted().await.unwrap().release().await;
}

/// Goal: fetching more fencing tokens for a lease is nobody's duty. Method: its runtime ends in the
/// middle of it; in another one the lease is still passed on, for longer than its first range.
#[test]
fn a_range_whose_fetching_ended_with_its_runtime_is_fetched_again() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime().block_on(World::reached());
    let (first, second) = (runtime(), runtime());
    let guard = first.block_on(async {
        let guard = patient(&world).lock().await.unwrap();
        world.faulty.plan(Verb::Renew, Fault::HoldReply);
        // Whoever joins the line has a range fetched.
        let waiter = waits(&patient(&world));
        until("it is being fetched", || world.faulty.calls(Verb::Renew) == 1).await;
        waiter.abort();
        guard
    });
    drop(first);
    second.block_on(async {
        let waiter = waits(&patient(&world));
        until("it is fetched again", || world.faulty.calls(Verb::Renew) == 2).await;
        settle().await;
        let acquires = world.faulty.calls(Verb::Acquire);
        guard.release().await;
        waiter.await.unwrap().unwrap();
        assert_eq!(world.faulty.calls(Verb::Acquire), acquires, "it was passed on");
    });
}

/// Goal: a future that nobody polls any more, and that is never dropped, keeps only those waiting
/// that are behind it in its own process; their `wait` bounds that, and other processes go on.
#[tokio::test]
async fn a_forgotten_wait_stalls_nobody_but_its_own_line() {
    let world = World::reached().await;
    let other = world.other();
    let guard = take(other.mutex("job").ttl(secs(3_600))).await;
    let mutex = patient(&world);
    let mut wait = Box::pin(async move { mutex.lock().await });
    assert!(now(wait.as_mut()).is_none());
    // In the middle of its subscription, even.
    std::mem::forget(wait);
    let mutex = world.mutex("job").wait(secs(1));
    let behind = tokio::spawn(async move { mutex.lock().await });
    let elsewhere = waits(&other.mutex("job"));
    let another_name = world.mutex("other");
    let blocker = take(other.mutex("other")).await;
    let another = waits(&another_name);
    until("another name is waited for", || world.waiting("other") == 1).await;
    blocker.release().await;
    until("the subscription is of use", || another.is_finished()).await;
    another.await.unwrap().unwrap();
    guard.release().await;
    world.pass_by(millis(100), secs(5), "its wait is over", || behind.is_finished()).await;
    assert!(behind.await.unwrap().unwrap_err().is_wait_expired());
    // The claim of the forgotten one has run out meanwhile.
    world.pass_by(millis(50), secs(5), "others have it", || elsewhere.is_finished()).await;
    elsewhere.await.unwrap().unwrap();
}
