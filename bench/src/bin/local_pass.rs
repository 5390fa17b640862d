//! Grants of one lock to the tasks of one process, beside `tokio::sync::Mutex` in the same run.
//!
//! ```console
//! cargo run --release -p fencelock-bench --bin local_pass -- --pairs 10 --tasks 8 --millis 500
//! ```
//! Each task locks, checks that its fencing token is larger than all before it, and gives the lock
//! back; the others wait meanwhile. The lock is on a real server, which is asked a few times a
//! second; how often stands in the last line.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fencelock::Client;
use fencelock_bench::{Pairs, option};
use fencelock_testkit::RedisServer;

/// Runs `tasks` loops for `span`, and returns how many rounds they made in a second.
async fn rate<F, Fut>(tasks: u64, span: Duration, round: F) -> f64
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let stop = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (stop, round) = (Arc::clone(&stop), round.clone());
            tokio::spawn(async move {
                let mut rounds = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    round().await;
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    tokio::time::sleep(span).await;
    stop.store(true, Ordering::Relaxed);
    let mut rounds = 0;
    for task in running {
        rounds += task.await.expect("the task ends");
    }
    #[allow(clippy::cast_precision_loss)]
    let rounds = rounds as f64;
    rounds / start.elapsed().as_secs_f64()
}

/// Commands that the server was sent, without those inside scripts.
fn commands(server: &RedisServer) -> u64 {
    let info: String = redis::from_redis_value(server.cli(&["INFO", "stats"])).expect("text");
    let field = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    field.expect("the field").trim().parse().expect("a number")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let pairs = option("--pairs", 10);
    let tasks = option("--tasks", 8) as u64;
    let span = Duration::from_millis(option("--millis", 500) as u64);
    let server = RedisServer::start();
    let client = Client::builder(server.url()).build().expect("a URL");
    let highest = Arc::new(AtomicU64::new(0));
    let grants = Arc::new(AtomicU64::new(0));
    let plain = Arc::new(tokio::sync::Mutex::new(()));
    let mutex = client.mutex("bench");
    let before = commands(&server);
    let mut figures = Pairs::default();
    for _ in 0..=pairs {
        let plain = Arc::clone(&plain);
        let theirs = rate(tasks, span, move || {
            let plain = Arc::clone(&plain);
            async move {
                let guard = plain.lock().await;
                tokio::task::yield_now().await;
                drop(guard);
            }
        })
        .await;
        let (mutex, highest, grants) = (mutex.clone(), Arc::clone(&highest), Arc::clone(&grants));
        let ours = rate(tasks, span, move || {
            let (mutex, highest, grants) =
                (mutex.clone(), Arc::clone(&highest), Arc::clone(&grants));
            async move {
                let guard = mutex.lock().await.expect("the server works");
                let token = guard.fencing_token().expect("it is fenced").as_u64();
                assert!(highest.swap(token, Ordering::Relaxed) < token, "a larger one each time");
                grants.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                assert_eq!(guard.release().await, fencelock::Released::Held);
            }
        })
        .await;
        figures.push(ours, theirs);
    }
    let asked = commands(&server) - before;
    let grants = grants.load(Ordering::Relaxed);
    println!("medians of {pairs} interleaved pairs, {tasks} tasks, {span:?} each");
    println!("fencelock, local passes: {:.0} grants/s", figures.ours());
    println!("tokio::sync::Mutex:      {:.0} grants/s", figures.ours() / figures.ratio());
    println!("ratio: {:.2}", figures.ratio());
    println!("{grants} grants, {asked} commands at the server");
}
