//! Processes that wait for a lock in a file.

use std::time::{Duration, Instant};

use crate::{
    child::{Child, LIMIT},
    place::Place,
};

const PROCESSES: usize = 8;
const HOLD: Duration = Duration::from_secs(2);
const LOOKS_A_SECOND: f64 = 10.0;
/// No waiter looks by itself so soon: the claim is 500 ms, the heart-beat some ten seconds.
const HEART_BEAT: Duration = Duration::from_secs(8);

/// Goal: waiting costs nothing, and a release wakes the next without a look of its own. Method:
/// the questions of each process are counted.
#[test]
fn processes_that_wait_for_a_file_look_seldom_and_are_woken() {
    let place = Place::file();
    let mut holder = Child::start(&place.url());
    holder.lock("first", "job", "default", LIMIT);
    holder.granted("first");
    let mut children: Vec<Child> = (0..PROCESSES).map(|_| Child::start(&place.url())).collect();
    for (number, child) in children.iter_mut().enumerate() {
        child.lock("it", "job", "default", LIMIT);
        child.is_told("job");
        assert_eq!(child.waiting("job"), u64::try_from(number + 1).expect("few"));
    }
    let before: Vec<u64> = children.iter_mut().map(Child::questions).collect();
    let start = Instant::now();
    std::thread::sleep(HOLD);
    let idle: Vec<u64> = children.iter_mut().map(Child::questions).collect();
    let span = start.elapsed();
    for (after, before) in idle.iter().zip(&before) {
        let a_second = (after - before) as f64 / span.as_secs_f64();
        println!("{} questions in {span:?} of waiting", after - before);
        assert!(a_second <= LOOKS_A_SECOND, "{a_second} questions a second");
    }
    let mut releasing = holder.release("first").0;
    let mut told = 0;
    for (child, asked) in children.iter_mut().zip(idle) {
        let granted = child.granted("it");
        println!("the next process has the lock {:?} after the release", granted.after(&releasing));
        assert!(granted.after(&releasing) < HEART_BEAT);
        told += u32::from(child.questions() == asked);
        releasing = child.release("it").0;
    }
    // The first in line may have looked meanwhile; without messages each would have to.
    println!("{told} of {PROCESSES} had the lock without another question");
    assert!(told > 0);
}
