//! What holds for every kind of hold alike: the scenarios of a mutex (`scenarios.rs`), and what a kind
//! lets in beside it.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fencelock::{Attempt, ErrorKind, Inspection, Renew};

use crate::{
    forms::{Ended, PATIENCE, Pair, Stores, TTL, Wish, alone, elsewhere, until},
    kinds::{KINDS, Kind, WAYS, Way, each, hold, hold_as},
};

const WISH: Wish = Wish { name: "", ttl: TTL, wait: PATIENCE, renewal: Renew::Auto };

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
        let ended = hold(kind, way, &pair.own, WISH, || {
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
        let ended = hold(kind, way, &pair.own, WISH, || {
            pair.other.danger().force_release(kind.name()).expect("it is held");
        });
        assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
    });
}

#[test]
fn a_step_that_panics_gives_every_kind_of_hold_back() {
    each(|kind, way, pair| {
        let panics = || hold(kind, way, &pair.own, WISH, || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err(), "it is not swallowed");
        until("it is free", || pair.is_free(kind.name()));
        assert_eq!(hold(kind, way, &pair.own, WISH, || {}), Ended::Done);
    });
}

/// Goal: work knows in which way a name is held around it. Method: waits that may never end are
/// refused at once, and what can be had beside it is had.
#[test]
fn a_step_that_asks_for_its_own_name_is_told_by_the_kind_of_hold() {
    each(|kind, way, pair| {
        if !way.is_scoped() {
            return; // Nothing is known around it.
        }
        let own = &pair.own;
        let ended = hold(kind, way, own, WISH, || match kind {
            Kind::Reader => {
                let lock = own.rwlock("job").wait(PATIENCE);
                assert!(lock.read().unwrap_err().is_already_held());
                assert!(lock.write().unwrap_err().is_already_held());
                assert!(
                    matches!(lock.try_read(), Ok(Attempt::Granted(_))),
                    "a try waits for nobody"
                );
            }
            Kind::Writer | Kind::Set | Kind::Across => {
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
fn what_stays_busy_is_a_wait_that_expired_and_the_step_is_not_done() {
    let _alone = alone();
    let stores = Stores::new();
    let held: Vec<_> = stores
        .pairs
        .iter()
        .flat_map(|pair| [Kind::Writer, Kind::Permits].map(|kind| kind.taken_by_other(pair)))
        .collect();
    let stays_busy = |kind: Kind, way, pair: &Pair, wait| {
        let ended = hold(kind, way, &pair.own, Wish { wait, ..WISH }, || panic!("it is not free"));
        let what = format!("{kind:?} by {way:?} on {}", pair.own.store_display());
        assert_eq!(ended, Ended::Failed(ErrorKind::WaitExpired), "{what}");
    };
    // One try; a wait that is over is the same for every kind, and in `scenarios.rs`.
    for (pair, kind) in stores.pairs.iter().flat_map(|pair| KINDS.map(|kind| (pair, kind))) {
        WAYS.into_iter().for_each(|way| stays_busy(kind, way, pair, Duration::ZERO));
    }
    for release in held {
        assert_eq!(Ended::from(release()), Ended::Done);
    }
}

#[test]
fn whoever_waits_is_served_when_it_is_given_back() {
    each(|kind, way, pair| {
        let release = kind.taken_by_other(pair);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| hold(kind, way, &pair.own, WISH, || {}));
            until("it waits", || pair.waiting(kind.name()) == 1);
            assert_eq!(Ended::from(release()), Ended::Done);
            assert_eq!(waiting.join().unwrap(), Ended::Done);
        });
    });
}

#[test]
fn what_was_taken_meanwhile_is_no_success_and_stays_with_the_other() {
    each(|kind, way, pair| {
        let next = RefCell::new(None);
        let ended = hold(kind, way, &pair.own, WISH, || {
            pair.other.danger().force_release(kind.name()).expect("it is held");
            next.replace(Some(kind.taken_by_other(pair)));
        });
        assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
        let release = next.take().expect("it was taken");
        assert_eq!(Ended::from(release()), Ended::Done, "nobody gave it back before");
    });
}

/// Method: the step waits until somebody else was granted what excludes it, which is later than the
/// end of validity.
#[test]
fn a_step_that_outlives_its_lease_is_no_success_under_any_kind_of_hold() {
    each(|kind, way, pair| {
        let ttl = Duration::from_millis(200);
        let wish = Wish { ttl, renewal: Renew::Manual, ..WISH };
        let ended = loop {
            let ended = hold(kind, way, &pair.own, wish, || {
                let others = Way::ThreadRun;
                let next = elsewhere(|| {
                    hold_as("other", kind_against(kind), others, &pair.other, WISH, || {})
                });
                assert_eq!(next, Ended::Done, "the lease ends");
            });
            // A machine that stalls for so long at the grant: then there was no step.
            if ended != Ended::Failed(ErrorKind::TooLate) {
                break ended;
            }
        };
        assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
        until("the rest of a set is given back", || pair.is_free("beside"));
    });
}

/// The kind of hold that a kind keeps out.
fn kind_against(kind: Kind) -> Kind {
    if kind == Kind::Permits { Kind::Permits } else { Kind::Writer }
}

/// Method: a counter that is read and written in two steps, by threads of two clients in all ways.
#[test]
fn all_ways_of_what_is_alone_exclude_each_other() {
    let _alone = alone();
    const ROUNDS: u32 = 2;
    let stores = Stores::new();
    let alone = KINDS.into_iter().filter(|kind| *kind != Kind::Reader);
    for (pair, kind) in
        stores.pairs.iter().flat_map(|pair| alone.clone().map(move |kind| (pair, kind)))
    {
        let (read, written) = (AtomicU32::new(0), Mutex::new(0));
        let step = || {
            let before = read.load(Ordering::SeqCst);
            std::thread::yield_now();
            *written.lock().unwrap() += 1;
            read.store(before + 1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for (way, (client, who)) in WAYS
                .into_iter()
                .flat_map(|way| [(way, (&pair.own, "own")), (way, (&pair.other, "other"))])
            {
                let step = &step;
                scope.spawn(move || {
                    let owner = format!("{who} by {way:?}");
                    for _ in 0..ROUNDS {
                        assert_eq!(hold_as(&owner, kind, way, client, WISH, step), Ended::Done);
                    }
                });
            }
        });
        let counted = read.load(Ordering::SeqCst);
        assert_eq!(counted, *written.lock().unwrap(), "{kind:?} on {}", pair.own.store_display());
        assert_eq!(counted, ROUNDS * 2 * u32::try_from(WAYS.len()).unwrap());
    }
}
