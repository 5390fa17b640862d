//! What holds for every form alike.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock::{Attempt, ErrorKind, Inspection, LossReason, Renew};

use crate::forms::{Ended, FORMS, Form, Stores, Wish, alone, elsewhere, until};

#[test]
fn the_step_is_done_once_under_the_lock_which_is_free_after() {
    let stores = Stores::new();
    stores.each(|form, pair| {
        let tokens = RefCell::new(Vec::new());
        for _ in 0..2 {
            let steps = Cell::new(0);
            let ended = form.hold(&pair.own, Wish::of("job"), || {
                steps.set(steps.get() + 1);
                let Ok(Inspection::Held(holder)) = pair.other.inspect("job") else {
                    panic!("it is held")
                };
                tokens.borrow_mut().push(holder.fencing_token.expect("these stores have them"));
            });
            assert_eq!((ended, steps.get()), (Ended::Done, 1));
            assert!(pair.is_free("job"), "at once, not some time later");
        }
        assert!(tokens.borrow().is_sorted_by(|first, second| first < second));
    });
}

#[test]
fn a_lock_that_stays_busy_is_a_wait_that_expired_and_the_step_is_not_done() {
    let _alone = alone();
    let stores = Stores::new();
    let held: Vec<_> = stores.pairs.iter().map(|pair| pair.taken_by_other("job")).collect();
    // None is one try, however long that takes; the other is long enough to connect, subscribe and ask
    // on a machine that is busy with other things, and over before the first heart-beat of a place: a
    // question that the end of the wait cuts off would be unknown.
    for wait in [Duration::ZERO, Duration::from_secs(8)] {
        std::thread::scope(|scope| {
            for (pair, form) in stores.pairs.iter().flat_map(|pair| FORMS.map(|form| (pair, form)))
            {
                scope.spawn(move || {
                    let wish = Wish { wait, ..Wish::of("job") };
                    let ended = form.hold(&pair.own, wish, || panic!("somebody else has it"));
                    let what = format!("{form:?} on {}", pair.own.store_display());
                    assert_eq!(ended, Ended::Failed(ErrorKind::WaitExpired), "{what}");
                });
            }
        });
    }
    for guard in held {
        assert_eq!(Ended::from(guard.release()), Ended::Done);
    }
}

#[test]
fn whoever_waits_is_served_when_the_lock_is_given_back() {
    let stores = Stores::new();
    stores.each(|form, pair| {
        let held = pair.taken_by_other("job");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| form.hold(&pair.own, Wish::of("job"), || {}));
            until("it waits", || pair.waiting("job") == 1);
            assert_eq!(Ended::from(held.release()), Ended::Done);
            assert_eq!(waiting.join().unwrap(), Ended::Done);
        });
    });
}

#[test]
fn a_lock_that_was_taken_meanwhile_is_no_success_and_stays_with_the_other() {
    let stores = Stores::new();
    stores.each(|form, pair| {
        let next = RefCell::new(None);
        let ended = form.hold(&pair.own, Wish::of("job"), || {
            pair.other.danger().force_release("job").expect("it is held");
            next.replace(Some(pair.taken_by_other("job")));
        });
        assert_eq!(ended, Ended::Lost(LossReason::Taken));
        let next = next.take().expect("it was taken");
        assert_eq!(Ended::from(next.release()), Ended::Done, "nobody gave it back before");
    });
}

#[test]
fn a_lock_that_vanished_meanwhile_is_no_success() {
    let stores = Stores::new();
    stores.each(|form, pair| {
        let ended = form.hold(&pair.own, Wish::of("job"), || {
            pair.other.danger().force_release("job").expect("it is held");
        });
        assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
    });
}

/// Method: the step waits until somebody else was granted the lock, which is later than the end of
/// validity.
#[test]
fn a_step_that_outlives_the_lease_is_no_success() {
    let stores = Stores::new();
    stores.each(|form, pair| {
        let ttl = Duration::from_millis(200);
        let wish = Wish { ttl, renewal: Renew::Manual, ..Wish::of("job") };
        let ended = loop {
            let ended = form.hold(&pair.own, wish, || {
                let next = elsewhere(|| pair.other.mutex("job").lock()).expect("the lease ends");
                assert_eq!(Ended::from(next.release()), Ended::Done);
            });
            // A machine that stalls for so long at the grant: then there was no step.
            if ended != Ended::Failed(ErrorKind::TooLate) {
                break ended;
            }
        };
        assert!(matches!(ended, Ended::Lost(_)), "{ended:?}");
    });
}

#[test]
fn a_step_that_panics_gives_the_lock_back() {
    let stores = Stores::new();
    stores.each(|form, pair| {
        let panics = || form.hold(&pair.own, Wish::of("job"), || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err(), "it is not swallowed");
        until("it is free", || pair.is_free("job"));
        assert_eq!(form.hold(&pair.own, Wish::of("job"), || {}), Ended::Done);
    });
}

#[test]
fn a_step_that_asks_for_what_is_held_around_it_is_told_at_once_where_that_is_known() {
    let stores = Stores::new();
    stores.each(|form, pair| {
        let ended = form.hold(&pair.own, Wish::of("job"), || {
            // For threads, and for tasks: both look at the same list.
            let nested = pair.own.mutex("job").wait(Duration::ZERO).lock().unwrap_err();
            let mutex = pair.own.as_async().mutex("job").wait(Duration::ZERO);
            let mut lock = pin!(mutex.lock());
            let polled = lock.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if form.is_scoped() {
                assert!(nested.is_already_held(), "{nested}");
                assert!(matches!(polled, Poll::Ready(Err(error)) if error.is_already_held()));
            } else {
                assert!(nested.is_wait_expired(), "{nested}");
            }
            // Another name is no nesting, and nor is the same one for somebody else.
            assert_eq!(Form::ThreadRun.hold(&pair.own, Wish::of("inner"), || {}), Ended::Done);
            let other = elsewhere(|| pair.other.mutex("job").try_lock());
            assert!(matches!(other, Ok(Attempt::Busy(_))));
        });
        assert_eq!(ended, Ended::Done);
        assert_eq!(Form::ThreadRun.hold(&pair.own, Wish::of("job"), || {}), Ended::Done);
    });
}

/// Method: a counter that is read and written in two steps, by threads of two clients in all forms.
#[test]
fn all_forms_exclude_each_other() {
    const ROUNDS: u32 = 4;
    let stores = Stores::new();
    for pair in &stores.pairs {
        let (read, written) = (std::sync::atomic::AtomicU32::new(0), std::sync::Mutex::new(0));
        let step = || {
            let before = read.load(std::sync::atomic::Ordering::SeqCst);
            std::thread::yield_now();
            *written.lock().unwrap() += 1;
            read.store(before + 1, std::sync::atomic::Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for form in FORMS {
                for client in [&pair.own, &pair.other] {
                    let step = &step;
                    scope.spawn(move || {
                        for _ in 0..ROUNDS {
                            assert_eq!(form.hold(client, Wish::of("counter"), step), Ended::Done);
                        }
                    });
                }
            }
        });
        let counted = read.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(counted, *written.lock().unwrap(), "{}", pair.own.store_display());
        assert_eq!(counted, ROUNDS * 2 * u32::try_from(FORMS.len()).unwrap());
    }
}
