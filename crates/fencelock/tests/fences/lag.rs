//! A replica that is behind when its primary dies: what was granted meanwhile is forgotten, each time.
//!
//! On one machine replication is as fast as the answer, so a kill alone forgets hardly anything.

use std::time::{Duration, Instant};

use fencelock_testkit::RedisServer;

/// What the primary writes that the replica never hears of: some requests of the crew, and fewer than
/// it has left. Grants that are not acknowledged, and given back, count as well.
const UNHEARD_BYTES: u64 = 4_000;

/// A crew that has just got its last grant writes nothing more: then this fault comes to nothing.
const LIMIT: Duration = Duration::from_secs(5);

/// Kills the primary when it has written on without its replica for a while.
pub(crate) fn kill_ahead_of(primary: &RedisServer, replica: &RedisServer) {
    // It can't log in any more, so it does not follow.
    replica.cli(&["CONFIG", "SET", "masteruser", "nobody"]);
    replica.cli(&["CONFIG", "SET", "masterauth", "wrong"]);
    primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
    let heard = offset(primary);
    let start = Instant::now();
    while offset(primary) <= heard + UNHEARD_BYTES && start.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(1));
    }
    primary.kill();
    replica.cli(&["CONFIG", "SET", "masteruser", ""]);
    replica.cli(&["CONFIG", "SET", "masterauth", ""]);
}

fn offset(primary: &RedisServer) -> u64 {
    let info: String = redis::from_redis_value(primary.cli(&["INFO", "replication"])).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    line.expect("a primary says how much it wrote").trim().parse().expect("a number")
}
