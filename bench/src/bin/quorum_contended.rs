//! Several processes that want one lock of a quorum of five servers at the same time, and waiters
//! behind a holder that keeps it.
//!
//! ```console
//! cargo run --release -p fencelock-bench --bin quorum_contended -- --processes 4 --rounds 25
//! ```
//! In a round a process takes the lock, works for `--work-us`, gives it back and begins again at
//! once. Prints how long all rounds of all processes took, how long an acquire took, how unevenly
//! the processes were done, and how many commands the servers carried out for it. After that, what
//! `--waiters` clients send that wait behind one holder for `--idle-seconds`.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use fencelock::{Client, IfUsed};
use fencelock_bench::{micros, option};
use fencelock_testkit::RedisServer;

const NODES: usize = 5;
const TTL: Duration = Duration::from_secs(10);
/// Where a process finds the servers; without it, it is the one that starts the others.
const URLS: &str = "FENCELOCK_BENCH_URLS";
/// More than any run takes.
const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Ok(urls) = std::env::var(URLS) {
        return contend(&urls.split(' ').map(str::to_owned).collect::<Vec<_>>()).await;
    }
    let servers: Vec<_> = (0..NODES).map(|_| RedisServer::start()).collect();
    for server in &servers {
        // Else none of them would count at first.
        let new = Client::builder(server.url()).initialise(Duration::from_secs(60), IfUsed::Refuse);
        let _ = new.await.expect("it answers");
    }
    let (processes, rounds) = (option("--processes", 4), option("--rounds", 25));
    println!("{processes} processes, {rounds} rounds each, {NODES} servers, ttl {TTL:?}\n");
    println!(
        "| run | all us a round | wait p50 ms | p90 | p99 | longest | first done | commands |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for run in 1..=option("--runs", 5) {
        contended(&servers, run, processes, rounds);
    }
    let (waiters, seconds) = (option("--waiters", 8), option("--idle-seconds", 20));
    if waiters > 0 {
        idle(&servers, waiters, Duration::from_secs(seconds as u64)).await;
    }
}

/// A process: it says that it is ready, waits for a line, and then says how long each acquire took
/// and when it was done, in microseconds.
async fn contend(urls: &[String]) {
    let client = quorum(urls);
    client.connect_now().await.expect("all answer");
    let (rounds, work) = (option("--rounds", 25), option("--work-us", 1_000));
    let work = Duration::from_micros(work as u64);
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new()).expect("a line comes");
    let start = Instant::now();
    let mut waits = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let began = Instant::now();
        let guard = client.mutex("job").ttl(TTL).wait(PATIENCE).lock().await.expect("its turn");
        waits.push(micros(began.elapsed()).round().to_string());
        // The timers of the runtime count whole milliseconds.
        std::thread::sleep(work);
        guard.release().await;
    }
    println!("{} {}", micros(start.elapsed()).round(), waits.join(" "));
    client.close().await;
}

fn contended(servers: &[RedisServer], run: usize, processes: usize, rounds: usize) {
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let before = commands(servers);
    let mut children: Vec<Child> = (0..processes)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(std::env::args().skip(1)).env(URLS, urls.join(" "));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().expect("it is a pipe")))
        .collect();
    let line = |output: &mut BufReader<_>| {
        let mut line = String::new();
        output.read_line(&mut line).expect("it says something");
        line
    };
    for output in &mut outputs {
        assert_eq!(line(output).trim(), "ready");
    }
    for child in &mut children {
        child.stdin.take().expect("it is a pipe").write_all(b"go\n").expect("it listens");
    }
    let (mut ends, mut waits) = (Vec::new(), Vec::new());
    for output in &mut outputs {
        let said = line(output);
        let mut said = said.split_whitespace().map(|word| word.parse().expect("a number"));
        ends.push(said.next().expect("when it was done"));
        waits.extend(said);
    }
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    ends.sort_by(f64::total_cmp);
    waits.sort_by(f64::total_cmp);
    let at = |part: usize| waits[(waits.len() * part / 100).min(waits.len() - 1)] / 1e3;
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    let grants = (processes * rounds) as f64;
    println!(
        "| {run} | {:.0} | {:.2} | {:.1} | {:.1} | {:.1} | {:.2} of all | {:.1} a grant |",
        last / grants,
        at(50),
        at(90),
        at(99),
        waits[waits.len() - 1] / 1e3,
        first / last,
        (commands(servers) - before) / grants,
    );
}

/// What waiters send while nothing happens.
async fn idle(servers: &[RedisServer], waiters: usize, span: Duration) {
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let holder = quorum(&urls);
    let guard = holder.mutex("idle").ttl(TTL).lock().await.expect("nobody has it");
    let measured = async |span| {
        let before = commands(servers);
        tokio::time::sleep(span).await;
        commands(servers) - before
    };
    let alone = measured(span).await;
    let waiting: Vec<_> = (0..waiters)
        .map(|_| {
            let client = quorum(&urls);
            tokio::spawn(async move {
                let mutex = client.mutex("idle").ttl(TTL).wait(PATIENCE);
                mutex.lock().await.expect("its turn").release().await
            })
        })
        .collect();
    // Until each has connected and found it busy.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let together = measured(span).await;
    let rate = (together - alone) / span.as_secs_f64();
    println!(
        "\n{waiters} waiters behind a lease of {TTL:?}: {rate:.1} commands a second to all servers, \
         {:.2} for each waiter and server",
        rate / (waiters * servers.len()) as f64
    );
    let released = Instant::now();
    guard.release().await;
    for waiter in waiting {
        let _ = waiter.await.expect("no panic");
    }
    println!("after its release all had been served within {:.1?}", released.elapsed());
}

fn quorum(urls: &[String]) -> Client {
    Client::quorum_builder(urls).build().expect("the urls are right")
}

/// How many commands of clients all servers have carried out: those that scripts call are not
/// counted.
fn commands(servers: &[RedisServer]) -> f64 {
    let of = |server: &RedisServer| -> f64 {
        let info = format!("{:?}", server.cli(&["INFO", "commandstats"]));
        let calls = info.split("cmdstat_").filter_map(|line| {
            let (name, rest) = line.split_once(":calls=")?;
            let from_clients = ["eval", "evalsha", "fcall", "subscribe", "unsubscribe"];
            let calls = rest.split(',').next()?.parse::<f64>().ok()?;
            from_clients.contains(&name).then_some(calls)
        });
        calls.sum()
    };
    servers.iter().map(of).sum()
}
