//! Timed rounds: one task in sequence, many tasks in flight, and the processor time of the server.

use std::error::Error;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use tokio::task::JoinSet;

use crate::candidate::Candidate;
use crate::server::field;

/// How many tasks, each with names of its own, are in flight at once.
pub const TASKS: u32 = 64;

/// What the rounds of one candidate cost, per cycle.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Sequential acquire + release, in microseconds.
    pub sequential_us: f64,
    /// Cycles a second with [`TASKS`] in flight.
    pub throughput: f64,
    /// Processor time of the server per cycle in flight, in microseconds.
    pub server_us: f64,
}

/// What a timed request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Acquire, then release.
    Cycle,
    /// Renew a lease that is held.
    Renew,
    /// Acquire what somebody else holds.
    Busy,
}

/// Measures one candidate once.
///
/// # Errors
/// If a request fails or is answered with anything but success.
pub async fn cost(
    connection: &MultiplexedConnection,
    candidate: &Candidate,
    names: u32,
    cycles: u32,
) -> Result<Cost, Box<dyn Error>> {
    let keys = keys(candidate, 0, names);
    let started = Instant::now();
    run(connection.clone(), candidate.clone(), keys, 0, cycles, Job::Cycle).await?;
    let sequential_us = started.elapsed().as_secs_f64() * 1e6 / f64::from(cycles);
    let (throughput, server_us) =
        in_flight(connection, candidate, names, cycles, Job::Cycle).await?;
    Ok(Cost { sequential_us, throughput, server_us })
}

/// Runs `job` with [`TASKS`] in flight: how many a second, and the server's time for each in us.
///
/// # Errors
/// If a request fails or is answered with anything but what the job expects.
pub async fn in_flight(
    connection: &MultiplexedConnection,
    candidate: &Candidate,
    names: u32,
    cycles: u32,
    job: Job,
) -> Result<(f64, f64), Box<dyn Error>> {
    let mut connection = connection.clone();
    if job != Job::Cycle {
        for task in 0..TASKS {
            let request = candidate.acquire(&keys(candidate, task, names), u128::from(task));
            let _: Value = request.query_async(&mut connection).await?;
        }
    }
    let each = (cycles / TASKS * 4).max(1);
    let before = server_cpu(&mut connection).await?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let keys = keys(candidate, task, names);
        tasks.spawn(run(connection.clone(), candidate.clone(), keys, task, each, job));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu = server_cpu(&mut connection).await? - before;
    let total = f64::from(each * TASKS);
    let _: () = cmd("FLUSHALL").query_async(&mut connection).await?;
    Ok((total / seconds, cpu * 1e6 / total))
}

async fn run(
    mut connection: MultiplexedConnection,
    candidate: Candidate,
    keys: Vec<String>,
    task: u32,
    times: u32,
    job: Job,
) -> redis::RedisResult<()> {
    for round in 1..=times {
        let nonce = (u128::from(round) << 64) | u128::from(task);
        match job {
            Job::Cycle => {
                let taken = candidate.acquire(&keys, nonce).query_async(&mut connection).await?;
                expect(&candidate, &taken, &["OK", "g"])?;
                let freed = candidate.release(&keys, nonce).query_async(&mut connection).await?;
                expect(&candidate, &freed, &["1", "r"])?;
            }
            Job::Renew => {
                let request = candidate.renew(&keys, u128::from(task));
                expect(&candidate, &request.query_async(&mut connection).await?, &["1", "k"])?;
            }
            Job::Busy => {
                let request = candidate.acquire(&keys, nonce);
                expect(&candidate, &request.query_async(&mut connection).await?, &["", "b"])?;
            }
        }
    }
    Ok(())
}

/// Checks that a reply is the one the job is about: a plain answer, or a letter behind the time.
fn expect(candidate: &Candidate, reply: &Value, wanted: &[&str]) -> redis::RedisResult<()> {
    let right = match reply {
        Value::Okay => wanted.contains(&"OK"),
        Value::Nil => wanted.contains(&"") || wanted.contains(&"OK"),
        Value::Int(number) => wanted.contains(&number.to_string().as_str()),
        Value::BulkString(text) => {
            let letter = text.get(16..17).and_then(|letter| str::from_utf8(letter).ok());
            letter.is_some_and(|letter| wanted.contains(&letter))
        }
        Value::Array(parts) => !parts.is_empty(),
        _ => false,
    };
    if right {
        return Ok(());
    }
    let text = format!("{}: unexpected reply {reply:?}", candidate.name);
    Err(redis::RedisError::from((redis::ErrorKind::Client, "unexpected reply", text)))
}

fn keys(candidate: &Candidate, task: u32, names: u32) -> Vec<String> {
    let kind = candidate.name.len();
    (0..names).map(|name| format!("fencelock:{kind}:{task:03}:{name}")).collect()
}

async fn server_cpu(connection: &mut MultiplexedConnection) -> Result<f64, Box<dyn Error>> {
    let info: String = cmd("INFO").arg("cpu").query_async(connection).await?;
    let user = field(&info, "used_cpu_user_main_thread").ok_or("no used_cpu_user in INFO")?;
    let system = field(&info, "used_cpu_sys_main_thread").ok_or("no used_cpu_sys in INFO")?;
    Ok(user + system)
}
