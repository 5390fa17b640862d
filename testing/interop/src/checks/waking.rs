//! A waiter gets the lock when the other releases it; how long that takes is measured, not judged.

use std::{
    sync::mpsc::channel,
    time::{Duration, Instant},
};

use fencelock::Released;

use super::Outcome;
use crate::stage::{LONG, Stage};

/// They release, we wait.
pub(super) fn by_them(stage: &Stage, wakes: usize) -> Outcome {
    let mut driver = stage.driver();
    let spans = (0..wakes).map(|_| {
        stage.takes(&mut driver, "wake-us", LONG);
        let (refused, was_refused) = channel();
        let mutex = stage.mutex("wake-us", LONG).on_busy(move |_| {
            let _ = refused.send(());
        });
        std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                let guard = mutex.lock().expect("it is released");
                let granted = Instant::now();
                assert_eq!(guard.release(), Released::Held);
                granted
            });
            was_refused.recv().expect("the waiter asks");
            let released = Instant::now();
            assert!(driver.ask("release").is_done());
            waiter.join().expect("the waiter got it") - released
        })
    });
    Outcome::Woken(median(spans.collect()))
}

/// We release, they wait.
pub(super) fn by_us(stage: &Stage, wakes: usize) -> Outcome {
    let mut driver = stage.driver();
    let spans = (0..wakes).map(|_| {
        let guard = stage.mutex("wake-them", LONG).lock().expect("it is free");
        stage.begins_to_wait(&mut driver, "wake-them", LONG);
        let released = Instant::now();
        assert_eq!(guard.release(), Released::Held);
        stage.is_granted(&mut driver, "wake-them", LONG);
        let span = released.elapsed();
        assert!(driver.ask("release").is_done());
        span
    });
    Outcome::Woken(median(spans.collect()))
}

fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort();
    spans[spans.len() / 2]
}
