//! Every kind of hold that a step can be done under, in every form.

use fencelock::{Error, Part, Released, blocking};
use futures_util::{StreamExt as _, stream};

use crate::forms::{
    Ended, Pair, Stores, TTL, Wish, alone, elsewhere, ended, numbers, runtime, until,
};

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reader,
    Writer,
    /// Two permits of three.
    Permits,
    Hold,
    /// The writer of the name, and permits of another one.
    Set,
    /// The name and another one, which a cluster would take slot by slot.
    Across,
}

pub(crate) const KINDS: [Kind; 6] =
    [Kind::Reader, Kind::Writer, Kind::Permits, Kind::Hold, Kind::Set, Kind::Across];

impl Kind {
    /// A name is of one kind of lock: a store may remember the limit of a semaphore.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Permits => "gpu",
            _ => "job",
        }
    }
}

/// How the step is done under it; in streams and iterators for the second item of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Run,
    Stream,
    TryStream,
    Guard,
    ThreadRun,
    ThreadIter,
    ThreadGuard,
}

pub(crate) const WAYS: [Way; 7] = [
    Way::Run,
    Way::Stream,
    Way::TryStream,
    Way::Guard,
    Way::ThreadRun,
    Way::ThreadIter,
    Way::ThreadGuard,
];

impl Way {
    /// Whether the step is told at once that it asks for what is held around it.
    pub(crate) fn is_scoped(self) -> bool {
        !matches!(self, Self::Guard | Self::ThreadGuard)
    }
}

macro_rules! hold {
    (
        $way:ident, $step:ident, $lock:expr, $threads:expr,
        $run:ident, $stream:ident, $try_stream:ident, $iter:ident, $lock_it:ident $(, $arg:expr)?
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
            Way::Guard => runtime().block_on(async {
                match lock.$lock_it($($arg)?).await {
                    Ok(guard) => {
                        step.take().expect("once")();
                        guard.release().await.into()
                    }
                    Err(error) => Err(error).into(),
                }
            }),
            Way::ThreadGuard => match threads.$lock_it($($arg)?) {
                Ok(guard) => {
                    step.take().expect("once")();
                    guard.release().into()
                }
                Err(error) => Err(error).into(),
            },
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

/// Waits for it, does the step while it is held, and gives it back. The name is that of the kind.
pub(crate) fn hold(
    kind: Kind,
    way: Way,
    client: &blocking::Client,
    wish: Wish,
    step: impl FnOnce(),
) -> Ended {
    hold_as("me", kind, way, client, wish, step)
}

/// The same, by another owner of a re-entrant mutex.
pub(crate) fn hold_as(
    owner: &str,
    kind: Kind,
    way: Way,
    client: &blocking::Client,
    wish: Wish,
    step: impl FnOnce(),
) -> Ended {
    let tasks = client.as_async();
    let Wish { ttl, wait, renewal, .. } = wish;
    macro_rules! both {
        ($recipe:ident($($argument:expr),+)) => {
            (
                tasks.$recipe($($argument),+).ttl(ttl).wait(wait).renewal(renewal),
                client.$recipe($($argument),+).ttl(ttl).wait(wait).renewal(renewal),
            )
        };
    }
    match kind {
        Kind::Reader => {
            let (lock, threads) = both!(rwlock("job"));
            hold!(
                way,
                step,
                lock,
                threads,
                run_read,
                run_read_stream,
                run_read_try_stream,
                run_read_iter,
                read
            )
        }
        Kind::Writer => {
            let (lock, threads) = both!(rwlock("job"));
            hold!(
                way,
                step,
                lock,
                threads,
                run_write,
                run_write_stream,
                run_write_try_stream,
                run_write_iter,
                write
            )
        }
        Kind::Permits => {
            let (lock, threads) = both!(semaphore("gpu", 3));
            hold!(
                way,
                step,
                lock,
                threads,
                run_many,
                run_many_stream,
                run_many_try_stream,
                run_many_iter,
                acquire_many,
                2
            )
        }
        Kind::Hold => {
            let (lock, threads) = both!(reentrant("job", owner));
            hold!(way, step, lock, threads, run, run_stream, run_try_stream, run_iter, lock)
        }
        Kind::Set => {
            let parts = [
                Part::write(&tasks.rwlock("job").ttl(ttl).renewal(renewal)),
                Part::permits(&tasks.semaphore("beside", 3).ttl(ttl).renewal(renewal), 2),
            ];
            let lock = tasks.all_of(parts.clone()).wait(wait);
            let threads = client.all_of(parts).wait(wait);
            hold!(way, step, lock, threads, run, run_stream, run_try_stream, run_iter, lock)
        }
        Kind::Across => {
            let (lock, threads) = both!(mutexes(["job", "beside"]));
            let (lock, threads) = (lock.across_slots(), threads.across_slots());
            hold!(way, step, lock, threads, run, run_stream, run_try_stream, run_iter, lock)
        }
    }
}

impl Kind {
    /// Takes what excludes it, as another process; and how that is given back.
    pub(crate) fn taken_by_other(self, pair: &Pair) -> Box<dyn FnOnce() -> Released + Send> {
        const FREE: &str = "nobody holds it";
        let other = &pair.other;
        elsewhere(|| -> Box<dyn FnOnce() -> Released + Send> {
            if self == Self::Permits {
                let permits = other.semaphore("gpu", 3).ttl(TTL).try_acquire_many(2);
                let permits = permits.expect("it answers").granted().expect(FREE);
                return Box::new(|| permits.release());
            }
            let writer = other.rwlock("job").ttl(TTL).try_write();
            let writer = writer.expect("it answers").granted().expect(FREE);
            Box::new(|| writer.release())
        })
    }
}

/// Runs a scenario with every kind, in every form, on every store.
pub(crate) fn each(scenario: impl Fn(Kind, Way, &Pair)) {
    let _alone = alone();
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
