//! Uncontended acquire + release on a quorum of five servers: against one server, over a network
//! that takes its time and over none, and beside rslock on the very same five.
//!
//! ```console
//! cargo run --release -p fencelock-bench --bin quorum_cycle -- --pairs 20
//! ```
//! The two ways of a pair run one after the other, so that whatever drifts hits both. rslock is
//! driven in a process of its own (`testing/interop/peers/rslock/cycle.rs`), which is built first;
//! where that does not work, its table says so.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use fencelock::{Client, IfUsed};
use fencelock_bench::{Pairs, median, micros, option};
use fencelock_testkit::{Proxy, RedisServer};

const NODES: usize = 5;
const TTL: Duration = Duration::from_secs(10);
/// The tasks of the throughput, each on a name of its own.
const TASKS: u64 = 64;
/// What each proxy adds, on the way there and on the way back.
const ONE_WAY: Duration = Duration::from_millis(1);

/// How often things are done.
#[derive(Clone, Copy, Debug)]
struct Size {
    pairs: usize,
    /// Of one measurement; a twentieth of it where a cycle takes milliseconds.
    cycles: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let size =
        Size { pairs: option("--pairs", 20), cycles: option("--cycles", 2_000).max(64) as u64 };
    let servers: Vec<_> = (0..NODES).map(|_| RedisServer::start()).collect();
    let single = RedisServer::start();
    for server in &servers {
        // Else none of them would count at first.
        let new = Client::builder(server.url()).initialise(Duration::from_secs(60), IfUsed::Refuse);
        let _ = new.await.expect("it answers");
    }
    println!(
        "medians of {} interleaved pairs, ttl {TTL:?}, {NODES} servers, everything on one machine",
        size.pairs
    );
    against_one(&servers, &single, size).await;
    beside_rslock(&servers, size).await;
    two_down(&servers, size).await;
}

/// A quorum against one server, which has no more between it and its client than they have.
async fn against_one(servers: &[RedisServer], single: &RedisServer, size: Size) {
    println!("\nratio = time on the quorum / time on one server, lower is better\n");
    println!("| network | dialect | quorum us | ratio |");
    println!("|---|---|---|---|");
    let proxies: Vec<_> = servers.iter().map(Proxy::before).collect();
    let proxy = Proxy::before(single);
    for proxy in proxies.iter().chain([&proxy]) {
        proxy.delay_requests(ONE_WAY);
        proxy.delay_replies(ONE_WAY);
    }
    let far = (proxies.iter().map(Proxy::url).collect::<Vec<_>>(), proxy.url());
    let near = (urls(servers), single.url());
    let slow = (size.cycles / 20).max(1);
    for (network, (many, one), cycles) in
        [("1 ms each way", far, slow), ("loopback", near, size.cycles)]
    {
        for dialect in ["native", "plain"] {
            let (many, one) = (quorum(&many, dialect), alone(&one, dialect));
            sequential(&many, slow).await;
            sequential(&one, slow).await;
            let mut pairs = Pairs::default();
            for _ in 0..size.pairs {
                let other = micros(sequential(&one, cycles).await);
                pairs.push(micros(sequential(&many, cycles).await), other);
            }
            println!("| {network} | {dialect} | {:.0} | {:.2} |", pairs.ours(), pairs.ratio());
            many.close().await;
            one.close().await;
        }
    }
}

/// The same five servers, by two libraries in turn.
async fn beside_rslock(servers: &[RedisServer], size: Size) {
    let urls = urls(servers);
    let mut peer = match Peer::start(&urls) {
        Ok(peer) => peer,
        Err(reason) => {
            println!("\nrslock was skipped: {reason}");
            return;
        }
    };
    println!(
        "\nspeed = time of rslock / our time, higher is better; CPU us of a cycle, ours / rslock\n"
    );
    println!("| tasks | dialect | ours us | speed | client CPU | CPU of all servers |");
    println!("|---|---|---|---|---|---|");
    let pids = servers.iter().map(RedisServer::pid).collect::<Vec<_>>();
    let servers_cpu = || pids.iter().map(|pid| cpu(*pid)).sum::<f64>();
    let (own, its) = (std::process::id(), peer.child.id());
    for dialect in ["native", "plain"] {
        let client = quorum(&urls, dialect);
        for tasks in [1, TASKS] {
            let cycles = if tasks == 1 { size.cycles } else { size.cycles * 4 };
            peer.cycles(tasks, (cycles / 10).max(tasks));
            parallel(&client, tasks, (cycles / 10).max(tasks)).await;
            let mut pairs = Pairs::default();
            // By whose clients; the CPU time says more than the clock on a machine that is shared.
            let (mut ours, mut theirs) = ([0.0; 2], [0.0; 2]);
            for _ in 0..size.pairs {
                let before = [cpu(its), servers_cpu()];
                let other = micros(peer.cycles(tasks, cycles));
                add(&mut theirs, before, [cpu(its), servers_cpu()]);
                let before = [cpu(own), servers_cpu()];
                pairs.push(micros(parallel(&client, tasks, cycles).await), other);
                add(&mut ours, before, [cpu(own), servers_cpu()]);
            }
            let all = size.pairs as f64 * (cycles / tasks * tasks) as f64;
            println!(
                "| {tasks} | {dialect} | {:.1} | {:.2} | {:.0} / {:.0} | {:.0} / {:.0} |",
                pairs.ours(),
                1.0 / pairs.ratio(),
                ours[0] / all,
                theirs[0] / all,
                ours[1] / all,
                theirs[1] / all,
            );
        }
        client.close().await;
    }
    if peer.failed > 0 {
        println!("\nrslock: {} cycles failed and were made again", peer.failed);
    }
}

/// The CPU time of a process so far, in microseconds; the kernel counts hundredths of a second.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in brackets");
    let ticks = fields.split(' ').skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() * 10_000.0
}

fn add(sum: &mut [f64; 2], before: [f64; 2], after: [f64; 2]) {
    for (sum, (before, after)) in sum.iter_mut().zip(before.into_iter().zip(after)) {
        *sum += after - before;
    }
}

/// What it costs that two of the five are not there. Last, since it kills them.
async fn two_down(servers: &[RedisServer], size: Size) {
    println!("\nratio = time with two of five killed / with all of them, lower is better\n");
    println!("| tasks | all us | two down us | ratio | client CPU, all / two down |");
    println!("|---|---|---|---|---|");
    let (own, urls) = (std::process::id(), urls(servers));
    let client = quorum(&urls, "native");
    let mut all = Vec::new();
    for are_down in [false, true] {
        if are_down {
            servers[..2].iter().for_each(RedisServer::kill);
        }
        for (at, tasks) in [1, TASKS].into_iter().enumerate() {
            let cycles = if tasks == 1 { size.cycles } else { size.cycles * 4 };
            parallel(&client, tasks, (cycles / 10).max(tasks)).await;
            let (mut spans, before) = (Vec::new(), cpu(own));
            for _ in 0..size.pairs {
                spans.push(micros(parallel(&client, tasks, cycles).await));
            }
            let cycles = size.pairs as f64 * (cycles / tasks * tasks) as f64;
            let (span, used) = (median(&spans), (cpu(own) - before) / cycles);
            if are_down {
                let (before, used_before) = all[at];
                let ratio = span / before;
                println!(
                    "| {tasks} | {before:.1} | {span:.1} | {ratio:.2} | {used_before:.0} / {used:.0} |"
                );
            } else {
                all.push((span, used));
            }
        }
    }
}

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

fn quorum(urls: &[String], dialect: &str) -> Client {
    Client::quorum_builder(urls).dialect(dialect).build().expect("the urls are right")
}

fn alone(url: &str, dialect: &str) -> Client {
    Client::builder(url).dialect(dialect).build().expect("the url is right")
}

async fn cycle(client: &Client, name: &str) {
    let guard = client.mutex(name).ttl(TTL).lock().await.expect("nobody contends");
    let released = guard.release().await;
    assert_eq!(released, fencelock::Released::Held);
}

async fn sequential(client: &Client, cycles: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..cycles {
        cycle(client, "bench:one").await;
    }
    start.elapsed() / u32::try_from(cycles).expect("not that many")
}

/// The time for one cycle when so many tasks on as many names go on at once.
async fn parallel(client: &Client, tasks: u64, cycles: u64) -> Duration {
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                let name = format!("bench:{task}");
                for _ in 0..cycles / tasks {
                    cycle(&client, &name).await;
                }
            })
        })
        .collect();
    for task in running {
        task.await.expect("no panic");
    }
    start.elapsed() / u32::try_from(cycles / tasks * tasks).expect("not that many")
}

/// The driver of rslock; ends with its standard input.
struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    failed: u64,
}

impl Peer {
    fn start(urls: &[String]) -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/interop/peers");
        let build = ["build", "--quiet", "--locked", "--release", "--target-dir", "target"];
        let status = Command::new(env!("CARGO"))
            .args(build)
            .args(["-p", "contend-rslock"])
            .current_dir(&folder)
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("its driver was not built: {status}")),
            Err(error) => return Err(format!("its driver was not built: {error}")),
        }
        let mut child = Command::new(folder.join("target/release/cycle-rslock"))
            .arg(TTL.as_millis().to_string())
            .args(urls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("its driver did not start: {error}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        Ok(Self { child, input, output: BufReader::new(output), failed: 0 })
    }

    /// As [`parallel`]. This thread stands still meanwhile, and so does our client.
    fn cycles(&mut self, tasks: u64, cycles: u64) -> Duration {
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{tasks} {cycles}").expect("the driver listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the driver answers");
        let (nanos, failed) = line.trim().split_once(' ').expect("NANOSECONDS FAILED");
        self.failed += failed.parse::<u64>().expect("a number");
        let span = Duration::from_nanos(nanos.parse().expect("a number"));
        span / u32::try_from(cycles / tasks * tasks).expect("not that many")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        // It has nothing left to do, and ends by itself.
        let _ = self.child.wait();
    }
}
