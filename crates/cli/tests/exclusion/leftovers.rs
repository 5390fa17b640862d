//! A command whose first process is gone while others of its group go on.

use fencelock_testkit::RedisServer;
use fencelock_testkit::process::{Signal, group_members, send};

use crate::support::{LIMIT, Place, finish, group};

/// Deaf to TERM, with a child that is, too.
const STUBBORN: &str = "trap '' TERM; (while :; do sleep 0.05; done) & echo inside $PPID; \
                        while :; do sleep 0.05; done";

#[test]
fn what_a_killed_leader_left_behind_is_killed_and_counts_as_no_loss() {
    let server = RedisServer::start();
    let place = Place::on(&server);
    let witness = place.witness("job");
    // A renewal falls into the grace of the left behind, each time: it must not turn their end into
    // that of the lease.
    let flags = ["job", "--ttl", "1s", "--grace", "450ms"];
    for _ in 0..6 {
        let mut run = place.run_inside(&witness, &flags, STUBBORN);
        run.wait_for_stdout(LIMIT, "inside ");
        let group = group(&run).unwrap();
        send(group, Signal::KILL);
        let ended = finish(&mut run);
        assert_eq!(ended.code, 137, "{ended:?}");
        assert!(!ended.stderr.contains("lease came to its end"), "{ended:?}");
        assert_eq!(group_members(group), Vec::<u32>::new());
    }
    witness.check().assert_exclusive();
}
