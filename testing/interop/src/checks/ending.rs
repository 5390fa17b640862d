//! Leases that end by themselves, while their holder lives on or not.

use std::time::{Duration, Instant};

use fencelock::Released;

use crate::{
    driver::Answer,
    stage::{LONG, Stage},
};

/// Whoever releases after its lease ended finds that out, and the other's lock stays.
pub(super) fn late_release(stage: &Stage) {
    let mut driver = stage.driver();
    stage.takes(&mut driver, "late-they", SHORT);
    let ours = stage.mutex("late-they", LONG).lock().expect("their lease ends");
    assert_eq!(driver.ask("release"), Answer::Expired);
    ours.renew(LONG).expect("still ours");
    assert_eq!(ours.release(), Released::Held);

    let ours = stage.mutex("late-we", SHORT).lock().expect("it is free");
    stage.waits(&mut driver, "late-we", LONG);
    let released = ours.release();
    assert!(matches!(released, Released::Expired | Released::Taken), "{released:?}");
    let _ = stage.refused("late-we");
    let holding = driver.ask("holding");
    assert!(holding.is_done() || holding == Answer::Unsupported, "{holding:?}");
    assert!(driver.ask("release").is_done(), "still theirs");
}

/// Whoever waits for a dead holder has the lock when its lease is over, and not before.
pub(super) fn death(stage: &Stage) {
    let mut driver = stage.driver();
    let asked = Instant::now();
    stage.takes(&mut driver, "they-die", SHORT);
    driver.kill();
    let guard = stage.mutex("they-die", LONG).lock().expect("their lease ends");
    let after = asked.elapsed();
    assert!(after >= SHORT, "their lease of {SHORT:?} was ours after {after:?}");
    assert_eq!(guard.release(), Released::Held);

    let mut driver = stage.driver();
    let asked = we_die(stage);
    stage.waits(&mut driver, "we-die", LONG);
    let after = asked.elapsed();
    assert!(after >= SHORT, "our lease of {SHORT:?} was theirs after {after:?}");
    assert!(driver.ask("release").is_done());
}

/// We take a lock and are gone; gives the moment just before it was asked for.
fn we_die(stage: &Stage) -> Instant {
    for _ in 0..TRIES {
        let asked = Instant::now();
        let guard = stage.mutex("we-die", SHORT).lock().expect("it is free");
        // Leaked, a lease is what a killed process leaves: nobody renews it nor gives it back. What
        // ended before, on a machine that stood still, is no such lease.
        if guard.leak().is_ok() {
            return asked;
        }
    }
    panic!("this machine is too slow for leases of {SHORT:?}");
}

const TRIES: u32 = 10;

/// Whole seconds, since some peers know no others.
const SHORT: Duration = Duration::from_secs(3);
