//! Every kind of hold that a step can be done under, in every scoped form.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use fencelock::{Attempt, Error, ErrorKind, Inspection, LossReason, Part, blocking};
use futures_util::{StreamExt as _, stream};

use crate::forms::{Ended, PATIENCE, Pair, Stores, TTL, elsewhere, ended, numbers, runtime, until};

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reader,
    Writer,
    /// Two permits of three.
    Permits,
    Hold,
    /// The writer of the name, and permits of another one.
    Set,
}

const KINDS: [Kind; 5] = [Kind::Reader, Kind::Writer, Kind::Permits, Kind::Hold, Kind::Set];

impl Kind {
    /// A name is of one kind of lock: a store may remember the limit of a semaphore.
    fn name(self) -> &'static str {
        match self {
            Self::Permits => "gpu",
            _ => "job",
        }
    }
}

/// How the step is done under it; in streams and iterators for the second item of three.
#[derive(Clone, Copy, Debug)]
enum Way {
    Run,
    Stream,
    TryStream,
    ThreadRun,
    ThreadIter,
}

const WAYS: [Way; 5] = [Way::Run, Way::Stream, Way::TryStream, Way::ThreadRun, Way::ThreadIter];

macro_rules! hold {
    (
        $way:ident, $step:ident, $lock:expr, $threads:expr,
        $run:ident, $stream:ident, $try_stream:ident, $iter:ident $(, $arg:expr)?
    ) => {{
        let (lock, threads) = ($lock, $threads);
        let mut step = Some($step);
        match $way {
            Way::Run => {
                let step = step.take().expect("once");
                runtime().block_on(lock.$run($($arg,)? |_held| async { step() })).into()
            }
            Way::Stream => {
                let items = lock.$stream($($arg,)? |_held| stream::iter(numbers(&mut step)));
                ended(runtime().block_on(items.collect()))
            }
            Way::TryStream => {
                let items = lock.$try_stream($($arg,)? |_held| {
                    stream::iter(numbers(&mut step)).map(Ok::<u32, Error>)
                });
                ended(runtime().block_on(items.collect()))
            }
            Way::ThreadRun => {
                let step = step.take().expect("once");
                threads.$run($($arg,)? |_held| step()).into()
            }
            Way::ThreadIter => {
                ended(threads.$iter($($arg,)? |_held| numbers(&mut step)).collect())
            }
        }
    }};
}

/// Waits for it, does the step while it is held, and gives it back.
fn hold(kind: Kind, way: Way, client: &blocking::Client, step: impl FnOnce()) -> Ended {
    let tasks = client.as_async();
    match kind {
        Kind::Reader => hold!(
            way,
            step,
            tasks.rwlock("job").ttl(TTL).wait(PATIENCE),
            client.rwlock("job").ttl(TTL).wait(PATIENCE),
            run_read,
            run_read_stream,
            run_read_try_stream,
            run_read_iter
        ),
        Kind::Writer => hold!(
            way,
            step,
            tasks.rwlock("job").ttl(TTL).wait(PATIENCE),
            client.rwlock("job").ttl(TTL).wait(PATIENCE),
            run_write,
            run_write_stream,
            run_write_try_stream,
            run_write_iter
        ),
        Kind::Permits => hold!(
            way,
            step,
            tasks.semaphore("gpu", 3).ttl(TTL).wait(PATIENCE),
            client.semaphore("gpu", 3).ttl(TTL).wait(PATIENCE),
            run_many,
            run_many_stream,
            run_many_try_stream,
            run_many_iter,
            2
        ),
        Kind::Hold => hold!(
            way,
            step,
            tasks.reentrant("job", "me").ttl(TTL).wait(PATIENCE),
            client.reentrant("job", "me").ttl(TTL).wait(PATIENCE),
            run,
            run_stream,
            run_try_stream,
            run_iter
        ),
        Kind::Set => {
            let parts = [
                Part::write(&tasks.rwlock("job").ttl(TTL)),
                Part::permits(&tasks.semaphore("beside", 3).ttl(TTL), 2),
            ];
            hold!(
                way,
                step,
                tasks.all_of(parts.clone()).wait(PATIENCE),
                client.all_of(parts).wait(PATIENCE),
                run,
                run_stream,
                run_try_stream,
                run_iter
            )
        }
    }
}

fn each(scenario: impl Fn(Kind, Way, &Pair)) {
    let stores = Stores::new();
    for pair in &stores.pairs {
        for kind in KINDS {
            for way in WAYS {
                eprintln!("{kind:?} by {way:?} on {}", pair.own.store_display());
                scenario(kind, way, pair);
                // What a panic left is given back by the keeper.
                until("it is free", || pair.is_free(kind.name()));
            }
        }
    }
}

/// Whether nobody else would be granted what is held beside it: tried once, by another client.
fn is_kept_from_others(kind: Kind, pair: &Pair) -> bool {
    elsewhere(|| match kind {
        Kind::Permits => {
            let two = pair.other.semaphore("gpu", 3).try_acquire_many(2).expect("it answers");
            two.granted().is_none()
        }
        _ => pair.other.rwlock("job").try_write().expect("it answers").granted().is_none(),
    })
}

#[test]
fn the_step_is_done_once_under_every_kind_of_hold_which_is_over_after() {
    each(|kind, way, pair| {
        let steps = Cell::new(0);
        let ended = hold(kind, way, &pair.own, || {
            steps.set(steps.get() + 1);
            assert!(matches!(pair.other.inspect(kind.name()), Ok(Inspection::Held(_))));
            assert!(is_kept_from_others(kind, pair));
        });
        assert_eq!((ended, steps.get()), (Ended::Done, 1));
        assert!(pair.is_free(kind.name()), "at once, not some time later");
    });
}

#[test]
fn a_hold_that_was_broken_meanwhile_is_no_success() {
    each(|kind, way, pair| {
        let ended = hold(kind, way, &pair.own, || {
            pair.other.danger().force_release(kind.name()).expect("it is held");
        });
        assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
    });
}

#[test]
fn a_step_that_panics_gives_every_kind_of_hold_back() {
    each(|kind, way, pair| {
        let panics = || hold(kind, way, &pair.own, || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err(), "it is not swallowed");
        until("it is free", || pair.is_free(kind.name()));
        assert_eq!(hold(kind, way, &pair.own, || {}), Ended::Done);
    });
}

/// Goal: work knows in which way a name is held around it. Method: waits that may never end are
/// refused at once, and what can be had beside it is had.
#[test]
fn a_step_that_asks_for_its_own_name_is_told_by_the_kind_of_hold() {
    each(|kind, way, pair| {
        let own = &pair.own;
        let ended = hold(kind, way, own, || match kind {
            Kind::Reader => {
                let lock = own.rwlock("job").wait(PATIENCE);
                assert!(lock.read().unwrap_err().is_already_held());
                assert!(lock.write().unwrap_err().is_already_held());
                assert!(
                    matches!(lock.try_read(), Ok(Attempt::Granted(_))),
                    "a try waits for nobody"
                );
            }
            Kind::Writer | Kind::Set => {
                let lock = own.rwlock("job").wait(PATIENCE);
                assert!(lock.read().unwrap_err().is_already_held());
                assert!(lock.try_write().unwrap_err().is_already_held());
            }
            Kind::Permits => {
                let permits = own.semaphore("gpu", 3).wait(PATIENCE);
                assert!(permits.acquire().unwrap_err().is_already_held());
                assert!(matches!(permits.try_acquire(), Ok(Attempt::Granted(_))));
            }
            Kind::Hold => {
                let lock = own.reentrant("job", "me").wait(PATIENCE);
                assert_eq!(lock.run(|_held| lock.hold_count()).unwrap().unwrap(), 2);
                let other = own.reentrant("job", "another").wait(PATIENCE);
                assert!(other.lock().unwrap_err().is_already_held());
            }
        });
        assert_eq!(ended, Ended::Done);
    });
}

#[test]
fn threads_use_every_primitive_without_a_runtime_on_every_store() {
    let stores = Stores::new();
    for pair in &stores.pairs {
        let (own, other) = (&pair.own, &pair.other);
        let lock = own.rwlock("shared").ttl(TTL);
        let writer = lock.write().unwrap();
        let token = writer.fencing_token().expect("these stores have them");
        let reader = writer.downgrade().unwrap();
        assert_eq!(reader.shared_token().map(|number| number.as_u64()), Some(token.as_u64()));
        let beside = other.rwlock("shared").ttl(TTL).enqueue_read().unwrap().granted().unwrap();
        assert!(matches!(lock.try_write(), Ok(Attempt::Busy(_))));
        assert_eq!(Ended::from(beside.release()), Ended::Done);
        drop(reader.leak().unwrap());
        assert!(own.danger().force_release("shared").unwrap().is_some());

        let gpus = own.semaphore("gpu", 4).ttl(TTL);
        let permit = gpus.acquire_many(3).unwrap();
        let change = gpus.set_limit(8).unwrap();
        assert_eq!((change.before, change.used), (Some(4), 3));
        assert_eq!(gpus.try_acquire().unwrap_err().kind(), ErrorKind::Config);
        let more = other.semaphore("gpu", 8).enqueue_many(5).unwrap().granted().unwrap();
        assert_eq!((permit.permits(), more.permits()), (3, 5));
        assert_eq!(Ended::from(permit.release()), Ended::Done);
        assert_eq!(Ended::from(more.release()), Ended::Done);

        let latch = own.latch("ready", 2);
        latch.count_down_as("one").unwrap();
        latch.count_down_as("one").unwrap();
        assert_eq!(latch.remaining().unwrap(), 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| other.latch("ready", 2).wait());
            latch.count_down().unwrap();
            waiting.join().unwrap().unwrap();
        });

        let barrier = |client: &blocking::Client| client.barrier("step", 2).wait().unwrap();
        let (one, two) = std::thread::scope(|scope| {
            let there = scope.spawn(|| barrier(other));
            (barrier(own), there.join().unwrap())
        });
        assert!(one.is_leader() != two.is_leader() && one.number() == two.number());

        let set = own.all_of([Part::from(own.mutex("a")), Part::from(own.reentrant("b", "me"))]);
        let guard = set.lock().unwrap();
        assert!(guard.is_valid() && guard.parts().count() == 2);
        assert!(matches!(other.mutex("a").try_lock(), Ok(Attempt::Busy(_))));
        assert_eq!(Ended::from(guard.release()), Ended::Done);
    }
}

#[test]
fn what_cant_be_had_is_refused_before_anything_is_sent() {
    let locks = blocking::connect("redis://127.0.0.1:9/").unwrap();
    let refused = [
        (locks.semaphore("job", 3).acquire_many(4).map(drop), "4 permits were asked for"),
        (locks.semaphore("job", 3).acquire_many(0).map(drop), "no permits"),
        (locks.semaphore("job", 1_000_001).acquire().map(drop), "1000001"),
        (locks.semaphore("job", 3).set_limit(0).map(drop), "not 0"),
        (locks.latch("job", 1_025).count_down(), "a latch has 1 to 1024 steps, not 1025"),
        (locks.latch("job", 0).wait(), "not 0"),
        (locks.barrier("job", 1_025).wait().map(drop), "a barrier has 1 to 1024 parties, not 1025"),
    ];
    for (answer, what) in refused {
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn threads_lead_and_observe_on_every_store() {
    use std::ops::ControlFlow;

    use fencelock::Observed;

    let stores = Stores::new();
    for pair in &stores.pairs {
        let (own, other) = (pair.own.election("boss").ttl(TTL), pair.other.election("boss"));
        let mut changes = other.observe().every(std::time::Duration::from_millis(50));
        assert_eq!(changes.next().unwrap().unwrap(), Observed::Vacant);
        let leadership = own.campaign("first").unwrap();
        let Observed::Leader(leader) = changes.next().unwrap().unwrap() else { panic!("it leads") };
        assert_eq!((leader.info.as_str(), leader.term), ("first", leadership.term()));
        assert_eq!(Ended::from(leadership.resign()), Ended::Done);

        // The first term is lost, the second resigns, the third breaks.
        let mut terms = Vec::new();
        let led = own.lead("second", |leading| {
            assert!(leading.is_leader());
            terms.push(leading.term());
            match terms.len() {
                1 => {
                    pair.other.danger().force_release("boss").expect("it is held");
                    ControlFlow::Continue(())
                }
                2 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(leading.info().to_owned()),
            }
        });
        assert_eq!(led.unwrap(), "second");
        assert!(terms.len() == 3 && terms.is_sorted_by(|one, next| one < next), "{terms:?}");
        assert!(pair.is_free("boss"));

        // Whoever breaks after the leadership is over is told.
        let broke = own.lead("third", |_leading| {
            pair.other.danger().force_release("boss").expect("it is held");
            ControlFlow::Break(())
        });
        let reason = broke.unwrap_err().loss();
        assert!(
            matches!(reason, Some(LossReason::Taken | LossReason::ExpiredAtStore)),
            "{reason:?}"
        );
    }
}
