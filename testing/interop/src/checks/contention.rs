//! Both ask at once, again and again, and a witness looks whether ever both are inside.

use fencelock::Released;
use fencelock_testkit::Witness;

use crate::stage::{LONG, Stage};

/// In each round both begin to ask for a free lock at the same time, and both get it once: who is
/// second waits in its own way. So none can starve the other, and each round has contention.
pub(super) fn rounds(stage: &Stage, rounds: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let witness = Witness::in_directory(directory.path());
    let mut driver = stage.driver();
    let ours = stage.mutex("contended", LONG);
    for _ in 0..rounds {
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let guard = ours.lock().expect("it is released");
                let inside = witness.enter("ours").expect("they are outside");
                guard.renew(LONG).expect("still ours");
                drop(inside);
                assert_eq!(guard.release(), Released::Held);
            });
            stage.waits(&mut driver, "contended", LONG);
            let inside = witness.enter("theirs").expect("we are outside");
            // Only to be inside for a while: not all peers can tell.
            let _ = driver.ask("holding");
            drop(inside);
            assert!(driver.ask("release").is_done());
            waiter.join().expect("we got it");
        });
    }
    let verdict = witness.check();
    verdict.assert_exclusive();
    assert_eq!(verdict.entries, 2 * rounds);
}
