//! What it costs to hold very many locks: one client, a real Redis, and the keeper's renewals.
//!
//! ```console
//! cargo run --release -p fencelock-bench --bin renewals -- --locks 100000 --seconds 60
//! ```
//!
//! It takes the locks through the client with many requests in flight, lets one period of renewals
//! pass, and then counts for so many seconds: CPU of this process and of the keeper's thread, CPU
//! of the server, what was renewed and lost, and what went over the wire. One row per phase would
//! say no more: a lease that is lost at any time counts. Ends with status 1 when one was lost.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fencelock::{Client, Guard, LeaseState};
use fencelock_bench::option;
use fencelock_testkit::RedisServer;
use rustix::time::{ClockId, clock_gettime};

/// Acquires that are in flight at once.
const TAKERS: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let locks = option("--locks", 100_000);
    let span = Duration::from_secs(option("--seconds", 60) as u64);
    let ttl = Duration::from_millis(option("--ttl-ms", 30_000) as u64);
    let server = RedisServer::start();
    let client = Client::builder(server.url()).build().expect("the URL is right");

    let start = Instant::now();
    let guards = take(&client, locks, ttl).await;
    let taking = start.elapsed();
    // Past the first renewals, which come as bunched as the acquires were.
    tokio::time::sleep((ttl / 2).saturating_sub(taking)).await;

    let before = Sample::take(&server, &client);
    let start = Instant::now();
    tokio::time::sleep(span).await;
    let after = Sample::take(&server, &client);
    let elapsed = start.elapsed().as_secs_f64();

    let lost = guards.iter().filter(|guard| guard.state() != LeaseState::Held).count();
    let keys = keys(&server);
    println!(
        "{locks} locks, ttl {ttl:?}, taken in {:.2} s, counted for {elapsed:.1} s\n",
        taking.as_secs_f64()
    );
    print(&before, &after, elapsed);
    println!("| lost, of {locks} | {lost} |");
    println!("| keys at the server | {keys} |");
    // Their releases are no part of what is measured.
    guards.into_iter().for_each(std::mem::forget);
    if lost == 0 && keys == locks { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn take(client: &Client, locks: usize, ttl: Duration) -> Vec<Guard> {
    let next = Arc::new(AtomicUsize::new(0));
    let takers: Vec<_> = (0..TAKERS)
        .map(|_| {
            let (client, next) = (client.clone(), Arc::clone(&next));
            tokio::spawn(async move {
                let mut guards = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= locks {
                        return guards;
                    }
                    let mutex = client.mutex(format!("renewals:{number}")).ttl(ttl);
                    guards.push(mutex.lock().await.expect("nobody contends"));
                }
            })
        })
        .collect();
    let mut guards = Vec::with_capacity(locks);
    for taker in takers {
        guards.extend(taker.await.expect("no panic"));
    }
    guards
}

/// What has been used up to now.
struct Sample {
    process: f64,
    keeper: f64,
    server: f64,
    renewals: f64,
    bytes_in: f64,
    bytes_out: f64,
    commands: BTreeMap<String, f64>,
}

impl Sample {
    fn take(server: &RedisServer, client: &Client) -> Self {
        let mut connection = server.connect();
        let info: String =
            redis::cmd("INFO").arg("everything").query(&mut connection).expect("INFO");
        let field = |name: &str| -> f64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).expect("the field is there")
        };
        let commands = info.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        });
        Self {
            process: process_cpu(),
            keeper: keeper_cpu(),
            server: field("used_cpu_sys:") + field("used_cpu_user:"),
            renewals: renewals(client),
            bytes_in: field("total_net_input_bytes:"),
            bytes_out: field("total_net_output_bytes:"),
            commands: commands.collect(),
        }
    }
}

fn print(before: &Sample, after: &Sample, seconds: f64) {
    let renewals = after.renewals - before.renewals;
    let command = |name: &str| {
        let of = |sample: &Sample| sample.commands.get(name).copied().unwrap_or(0.0);
        of(after) - of(before)
    };
    let batches = command("evalsha") + command("eval");
    let percent = |after: f64, before: f64| 100.0 * (after - before) / seconds;
    let micros = |after: f64, before: f64| 1e6 * (after - before) / renewals;
    let scripted = ["time", "mget", "get", "pexpire", "setrange", "set", "type"];
    let inside: f64 = scripted.iter().map(|name| command(name)).sum();
    let bytes_in = (after.bytes_in - before.bytes_in) / renewals;
    let bytes_out = (after.bytes_out - before.bytes_out) / renewals;
    println!("| what | figure |\n|---|---|");
    println!(
        "| client CPU, of a core | {:.2} % ({:.2} us a renewal) |",
        percent(after.process, before.process),
        micros(after.process, before.process)
    );
    println!("| keeper thread of it | {:.2} % |", percent(after.keeper, before.keeper));
    println!(
        "| server CPU, of a core | {:.2} % ({:.2} us a renewal) |",
        percent(after.server, before.server),
        micros(after.server, before.server)
    );
    println!("| renewals a second | {:.0} |", renewals / seconds);
    println!("| batches a second | {:.1} |", batches / seconds);
    println!("| renewals a batch | {:.1} |", renewals / batches);
    println!("| commands a renewal | {:.4} |", batches / renewals);
    println!("| commands inside the script, a renewal | {:.2} |", inside / renewals);
    println!("| bytes a renewal, to and from the server | {bytes_in:.1} and {bytes_out:.1} |");
}

/// Seconds of CPU that this process has used.
fn process_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
        .as_secs_f64()
}

/// Seconds of CPU that the keeper's thread has used.
fn keeper_cpu() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is there");
    let nanos = tasks.filter_map(|task| {
        let task = task.ok()?.path();
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let nanos: f64 = stat.split_whitespace().next()?.parse().ok()?;
        // The kernel keeps 15 bytes of a name.
        name.starts_with("fencelock-keep").then_some(nanos)
    });
    nanos.sum::<f64>() / 1e9
}

/// How many renewals the keeper has sent: its `Debug` says so.
fn renewals(client: &Client) -> f64 {
    let shown = format!("{client:?}");
    let (_, rest) = shown.split_once("renewals: ").expect("the field is shown");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

fn keys(server: &RedisServer) -> usize {
    let mut connection = server.connect();
    redis::cmd("DBSIZE").query(&mut connection).expect("DBSIZE")
}
