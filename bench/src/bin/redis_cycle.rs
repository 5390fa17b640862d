//! Uncontended acquire + release on Redis, against the same client sending `SET NX PX` and one
//! compare-and-delete `EVALSHA`.
//!
//! Beside Fencelock stand two floors, the same raw client with the least scripts that could do:
//! one that mints a fencing token from the server's time and deletes what is still ours, and one
//! that also keeps the token. They check nothing, know no other layout, no lease that is over and
//! no full memory: what a native lock costs more than they do is ours, what they cost more than
//! the baseline is the server's.
//!
//! ```console
//! cargo run --release -p fencelock-bench --bin redis_cycle -- --pairs 30
//! ```

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fencelock::Client;
use fencelock_bench::{Pairs, micros, option, pin};
use fencelock_testkit::RedisServer;
use redis::{Cmd, aio::MultiplexedConnection};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

const MINT: &str = "local t=redis.call('TIME') local n=t[1]..t[2] \
    if #n<16 then n=string.format('%010d%06d',t[1],t[2]) end \
    local o=redis.call('SET',KEYS[1],ARGV[1]..n,'NX','GET','PX',ARGV[2]) \
    if not o then return n end \
    if string.byte(o)==104 or string.sub(o,34)>=n then return o end \
    redis.call('SET',KEYS[1],ARGV[1]..n,'PX',ARGV[2]) return n";
const DELETE: &str = "local t=redis.call('TIME') local n=t[1]..t[2] \
    if #n<16 then n=string.format('%010d%06d',t[1],t[2]) end \
    local o=redis.call('GET',KEYS[1]) \
    if not o or string.sub(o,1,33)~=ARGV[1] or string.sub(o,34)>=n then return '' end \
    redis.call('DEL',KEYS[1]) return n";
const KEEP: &str = "local t=redis.call('TIME') local n=t[1]..t[2] \
    if #n<16 then n=string.format('%010d%06d',t[1],t[2]) end \
    local o=redis.call('GET',KEYS[1]) \
    if not o or string.sub(o,1,33)~=ARGV[1] or string.sub(o,34)>=n then return '' end \
    redis.call('SET',KEYS[1],'f'..string.sub(o,2),'PX',ARGV[2]) return n";

#[derive(Clone)]
enum Way {
    Floor { connection: MultiplexedConnection, acquire: Arc<str>, release: Arc<str> },
    Raw { connection: MultiplexedConnection, digest: Arc<str> },
    Ours(Client),
}

impl Way {
    async fn cycle(&mut self, name: &str, number: u64) {
        match self {
            Self::Raw { connection, digest } => {
                let token = format!("{number:032x}");
                let mut set = Cmd::with_capacity(6, 64);
                set.arg("SET").arg(name).arg(&token).arg("NX").arg("PX").arg(30_000);
                let answer: Option<String> = set.query_async(connection).await.expect("SET");
                assert!(answer.is_some(), "nobody contends");
                let mut delete = Cmd::with_capacity(5, 128);
                delete.arg("EVALSHA").arg(&**digest).arg(1).arg(name).arg(&token);
                let gone: i64 = delete.query_async(connection).await.expect("EVALSHA");
                assert_eq!(gone, 1);
            }
            Self::Floor { connection, acquire, release } => {
                let (key, holder) = (format!("floor:{name}"), format!("h{number:032x}"));
                for (digest, life) in [(acquire, 30_000), (release, 600_000)] {
                    let mut script = Cmd::with_capacity(6, 128);
                    script.arg("EVALSHA").arg(&**digest).arg(1).arg(&key).arg(&holder).arg(life);
                    let time: String = script.query_async(connection).await.expect("EVALSHA");
                    assert_eq!(time.len(), 16, "nobody contends");
                }
            }
            Self::Ours(client) => {
                let guard = client.mutex(name).lock().await.expect("nobody contends");
                let released = guard.release().await;
                assert_eq!(released, fencelock::Released::Held);
            }
        }
    }

    async fn sequential(&mut self, cycles: u64) -> Duration {
        let start = Instant::now();
        for number in 0..cycles {
            self.cycle("bench:one", number).await;
        }
        start.elapsed() / u32::try_from(cycles).expect("not that many")
    }

    /// The time for one cycle when 64 tasks on 64 names go on at once.
    async fn pipelined(&self, cycles: u64) -> Duration {
        const TASKS: u64 = 64;
        let start = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let mut way = self.clone();
                tokio::spawn(async move {
                    let name = format!("bench:{task}");
                    for number in 0..cycles / TASKS {
                        way.cycle(&name, number).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        start.elapsed() / u32::try_from(cycles / TASKS * TASKS).expect("not that many")
    }
}

/// Loads a script, and says how it is called.
async fn load(connection: &MultiplexedConnection, text: &str) -> Arc<str> {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(text);
    let digest: String = load.query_async(&mut connection.clone()).await.expect("SCRIPT LOAD");
    Arc::from(digest)
}

fn server_cpu(server: &RedisServer) -> f64 {
    let mut connection = server.connect();
    let info: String = redis::cmd("INFO").arg("cpu").query(&mut connection).expect("INFO");
    let value = |key: &str| -> f64 {
        let line =
            info.lines().find_map(|line| line.strip_prefix(key)).expect("the field is there");
        line.trim_start_matches(':').trim().parse().expect("a number")
    };
    value("used_cpu_sys:") + value("used_cpu_user:")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let pairs = option("--pairs", 30);
    let cycles = option("--cycles", 2_000) as u64;
    let server = RedisServer::start();
    let connection = redis::Client::open(server.url())
        .expect("a URL")
        .get_multiplexed_async_connection()
        .await
        .expect("it runs");
    let raw = Way::Raw {
        connection: connection.clone(),
        digest: load(&connection, COMPARE_AND_DELETE).await,
    };
    let mint = load(&connection, MINT).await;
    let floor = |release| Way::Floor {
        connection: connection.clone(),
        acquire: Arc::clone(&mint),
        release,
    };
    let client = |dialect: &str, retain: Duration| {
        let builder = Client::builder(server.url()).dialect(dialect).retain(retain);
        Way::Ours(builder.build().expect("the URL is right"))
    };
    let ways = [
        ("plain", client("plain", Duration::ZERO)),
        ("native, retain = 0", client("native", Duration::ZERO)),
        ("native, retained", client("native", Duration::from_secs(600))),
        ("floor, retain = 0", floor(load(&connection, DELETE).await)),
        ("floor, retained", floor(load(&connection, KEEP).await)),
    ];

    println!(
        "medians of {pairs} interleaved pairs; ratio = ours / raw client (time), lower is better;"
    );
    println!(
        "throughput = raw time / our time, higher is better; cpu = server CPU for a cycle, ours / raw\n"
    );
    println!("| cores | way | sequential us | ratio | 64 tasks us | throughput | cpu |");
    println!("|---|---|---|---|---|---|---|");
    let server_pid = i32::try_from(server.pid()).expect("a pid");
    for (cores, core) in [("one", Some(0)), ("all", None)] {
        pin(server_pid, core);
        pin(0, core);
        for (name, way) in &ways {
            let (mut raw, mut way) = (raw.clone(), way.clone());
            raw.sequential(200).await;
            way.sequential(200).await;
            let (mut sequential, mut pipelined) = (Pairs::default(), Pairs::default());
            for _ in 0..pairs {
                let other = micros(raw.sequential(cycles).await);
                sequential.push(micros(way.sequential(cycles).await), other);
                let before = server_cpu(&server);
                let other = micros(raw.pipelined(cycles * 4).await);
                let between = server_cpu(&server);
                pipelined.push(micros(way.pipelined(cycles * 4).await), other);
                pipelined.push_cpu(server_cpu(&server) - between, between - before);
            }
            println!(
                "| {cores} | {name} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} |",
                sequential.ours(),
                sequential.ratio(),
                pipelined.ours(),
                1.0 / pipelined.ratio(),
                pipelined.cpu_ratio().unwrap_or(f64::NAN),
            );
        }
    }
}
