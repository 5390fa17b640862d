//! How far tokens run ahead of the store's clock: by as much as a store that forgets a name may fall
//! back behind tokens that were handed out already.
//!
//! The server runs on this machine, so its clock is the wall clock here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencelock::Client;
use fencelock_testkit::RedisServer;
use tokio::task::JoinSet;

/// The largest range of one turn. Not a limit of time: a slow machine is less ahead. What was seen is
/// none at all, and 9 to 28 ms while each turn got the largest range that was ever needed.
const MOST_AHEAD_US: i64 = 4096;

/// Goal: ranges of fencing tokens that were large once do not drive tokens ahead of the clock.
/// Method: many tasks need a large range; then few tasks with pauses use little of each.
#[test]
fn unused_tokens_do_not_add_up_ahead_of_the_clock() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::builder(server.url()).build().unwrap();
        let burst = most_ahead(&client, 64, 100, None).await;
        let few = most_ahead(&client, 8, 300, Some(Duration::from_millis(1))).await;
        eprintln!("ahead of the clock by at most {burst} us in the burst, {few} us after it");
        assert!(few < MOST_AHEAD_US, "{few} us ahead of the clock");
    });
}

async fn most_ahead(client: &Client, tasks: u64, rounds: u64, pause: Option<Duration>) -> i64 {
    let mut set = JoinSet::new();
    for _ in 0..tasks {
        let mutex = client.mutex("x");
        set.spawn(async move {
            let mut most = i64::MIN;
            for _ in 0..rounds {
                let guard = mutex.lock().await.unwrap();
                let token = guard.fencing_token().unwrap().as_u64();
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
                most = most.max(token.cast_signed() - i64::try_from(now).unwrap());
                drop(guard);
                if let Some(pause) = pause {
                    // The work that the tasks do besides.
                    tokio::time::sleep(pause).await;
                }
            }
            most
        });
    }
    set.join_all().await.into_iter().max().unwrap()
}
