//! The clocks: the one that tests move, and those that nobody does.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencelock_store::{Clock, ManualClock, core::Moment, rt};

const SECOND: Duration = Duration::from_secs(1);

fn is_ready<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
    matches!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
}

#[test]
fn a_manual_clock_stands_still_and_its_clones_move_with_it() {
    let clock = ManualClock::new();
    let start = clock.now();
    assert!(start > Moment::START, "moments before the present exist");
    assert_eq!(clock.now(), start);
    clock.clone().advance(SECOND);
    assert_eq!(clock.now(), start.saturating_add(SECOND));
    assert_eq!(Clock::Manual(clock.clone()).now(), clock.now());
}

#[test]
fn a_sleeper_wakes_at_its_moment_and_not_the_instant_before() {
    let manual = ManualClock::new();
    let clock = Clock::Manual(manual.clone());
    let mut sleep = pin!(clock.sleep_until(manual.now().saturating_add(SECOND)));
    assert!(!is_ready(&mut sleep));
    manual.advance(SECOND - Duration::from_nanos(1));
    assert!(!is_ready(&mut sleep));
    manual.advance(Duration::from_nanos(1));
    assert!(is_ready(&mut sleep));
}

#[test]
fn a_move_wakes_a_sleeper_of_another_thread() {
    let manual = ManualClock::new();
    let clock = Clock::Manual(manual.clone());
    let moment = manual.now().saturating_add(SECOND);
    let sleeper = std::thread::spawn(move || rt::block_on(clock.sleep_until(moment)));
    // Whether it sleeps already or not, it must not miss this.
    manual.advance(SECOND);
    sleeper.join().expect("it woke");
}

#[test]
fn a_moment_that_has_come_does_not_wait_on_any_clock() {
    let manual = Clock::Manual(ManualClock::new());
    for clock in [manual, Clock::Monotonic, Clock::Boottime] {
        rt::block_on(clock.sleep_until(clock.now()));
        rt::block_on(clock.sleep_until(Moment::START));
    }
}

#[test]
fn a_future_is_run_until_a_moment_and_no_longer() {
    let manual = ManualClock::new();
    let clock = Clock::Manual(manual.clone());
    let later = manual.now().saturating_add(SECOND);
    assert_eq!(rt::block_on(clock.until(later, async { 7 })), Some(7));
    let mut endless = pin!(clock.until(later, std::future::pending::<()>()));
    assert!(!is_ready(&mut endless));
    manual.advance(SECOND);
    assert!(is_ready(&mut endless));
    for clock in [Clock::Monotonic, Clock::Boottime] {
        let now = clock.now();
        assert_eq!(rt::block_on(clock.until(now, std::future::pending::<()>())), None);
        assert_eq!(rt::block_on(clock.until(Moment::NEVER, async { 7 })), Some(7));
    }
}

#[test]
fn the_clocks_of_the_system_never_go_back() {
    for clock in [Clock::Monotonic, Clock::Boottime] {
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
