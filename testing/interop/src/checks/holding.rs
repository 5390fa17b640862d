//! Who holds is respected by the other, and its lease is seen as long as it is.

use std::time::{Duration, Instant};

use fencelock::Released;

use crate::{
    driver::Answer,
    stage::{LONG, Stage},
};

/// They hold: we are refused and see their lease; a renewal of theirs is seen, too.
pub(super) fn they_hold(stage: &Stage) {
    let mut driver = stage.driver();
    let asked = Instant::now();
    stage.takes(&mut driver, "theirs", TTL);
    let busy = stage.refused("theirs");
    let seen = busy.holder.remaining.expect("their lease ends");
    assert!(seen <= TTL, "a lease of {TTL:?} is seen with {seen:?} left");
    // It began after it was asked for, and was seen before now.
    let least = TTL.saturating_sub(asked.elapsed() + ROUNDING);
    assert!(seen >= least, "{seen:?} are seen where at least {least:?} are left");

    if let Answer::Done(left_ms) = driver.ask("ttl") {
        let left = Duration::from_millis(left_ms.parse().expect("a number"));
        assert!(left <= TTL, "they tell {left:?} of their lease of {TTL:?}");
    }
    match driver.ask(&format!("extend {}", TWICE.as_millis())) {
        Answer::Done(_) => {
            let seen = stage.refused("theirs").holder.remaining.expect("their lease ends");
            assert!(seen > TTL && seen <= TWICE, "renewed to {TWICE:?}, seen with {seen:?} left");
        }
        answer => assert_eq!(answer, Answer::Unsupported),
    }
    assert!(driver.ask("release").is_done());
    let guard = stage.mutex("theirs", LONG).try_lock().expect("it answers").granted();
    assert_eq!(guard.expect("it was released").release(), Released::Held);
}

/// We hold: they are refused, and get it once we have released it.
pub(super) fn we_hold(stage: &Stage) {
    let mut driver = stage.driver();
    let guard = stage.mutex("ours", LONG).lock().expect("it is free");
    assert_eq!(driver.ask("acquire ours 60000 0"), Answer::Busy);
    assert_eq!(guard.release(), Released::Held);
    stage.takes(&mut driver, "ours", LONG);
    assert!(driver.ask("release").is_done());
}

/// Long enough that no machine is so slow that it ends within the check.
const TTL: Duration = Duration::from_secs(120);

const TWICE: Duration = Duration::from_secs(240);

/// Stores and libraries round to milliseconds.
const ROUNDING: Duration = Duration::from_millis(10);
