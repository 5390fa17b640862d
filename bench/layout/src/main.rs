//! The layout experiment: what each way to keep a lock in one Redis key costs against `SET NX PX` and
//! compare-and-delete, over the same connection, in interleaved pairs. Prints the table of README.md.
//!
//! Relies on `redis-server` in the PATH. Times are worth nothing by themselves: read the ratios.

#![forbid(unsafe_code)]

use std::error::Error;

use redis::aio::MultiplexedConnection;

use fencelock_bench_layout::candidate::{self, Candidate, Retain};
use fencelock_bench_layout::measure::{Job, cost, in_flight};
use fencelock_bench_layout::server::Server;

/// Interleaved pairs of a candidate and the baseline; the goals speak of at least 30.
const PAIRS: u32 = 31;
/// Sequential cycles of one round; in flight it is four times as many.
const CYCLES: u32 = 320;
/// Names of the set in the multi-name row.
const SET_NAMES: u32 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let pairs = arguments.next().map_or(Ok(PAIRS), |text| text.parse())?;
    let only = arguments.next().unwrap_or_default();
    let server = Server::start().await?;
    let mut connection = server.connect().await?;
    let baseline = candidate::baseline(&mut connection).await?;
    let candidates: Vec<Candidate> = candidate::all(&mut connection)
        .await?
        .into_iter()
        .filter(|candidate| candidate.name.contains(&only))
        .collect();

    let all = server.pin()?;
    for pinned in [true, false] {
        if !pinned {
            server.set_affinity(&all)?;
        }
        let place = if pinned { "one processor" } else { "unpinned" };
        println!("\n{place}, {pairs} pairs, ratios to the baseline (median)");
        println!("| candidate | retain | latency | throughput | server cpu |");
        println!("|---|---|---|---|---|");
        table(&connection, &baseline, &candidates, pairs).await?;
        if pinned {
            println!("\n{place}, 64 in flight, server cpu against the plain form (median)");
            println!("| candidate | retain | renew | busy | cycle of {SET_NAMES} names / 1 name |");
            println!("|---|---|---|---|---|");
            verbs(&connection, &baseline, &candidates, pairs).await?;
        }
    }
    Ok(())
}

async fn table(
    connection: &MultiplexedConnection,
    baseline: &Candidate,
    candidates: &[Candidate],
    pairs: u32,
) -> Result<(), Box<dyn Error>> {
    let mut ratios = vec![std::array::from_fn::<Vec<f64>, 3, _>(|_| Vec::new()); candidates.len()];
    for _ in 0..pairs {
        for (candidate, columns) in candidates.iter().zip(&mut ratios) {
            let base = cost(connection, baseline, 1, CYCLES).await?;
            let own = cost(connection, candidate, 1, CYCLES).await?;
            columns[0].push(own.sequential_us / base.sequential_us);
            columns[1].push(own.throughput / base.throughput);
            columns[2].push(own.server_us / base.server_us);
        }
    }
    print(candidates, ratios);
    Ok(())
}

/// The verbs that are not part of the cycle, of the layouts only.
async fn verbs(
    connection: &MultiplexedConnection,
    baseline: &Candidate,
    candidates: &[Candidate],
    pairs: u32,
) -> Result<(), Box<dyn Error>> {
    let layouts: Vec<Candidate> = candidates
        .iter()
        .filter(|candidate| ["A ", "B ", "D c"].iter().any(|name| candidate.name.starts_with(name)))
        .cloned()
        .collect();
    let mut ratios = vec![std::array::from_fn::<Vec<f64>, 3, _>(|_| Vec::new()); layouts.len()];
    for _ in 0..pairs {
        for (candidate, columns) in layouts.iter().zip(&mut ratios) {
            for (column, job) in columns.iter_mut().zip([Job::Renew, Job::Busy]) {
                let (_, base) = in_flight(connection, baseline, 1, CYCLES, job).await?;
                let (_, own) = in_flight(connection, candidate, 1, CYCLES, job).await?;
                column.push(own / base);
            }
            let (_, one) = in_flight(connection, candidate, 1, CYCLES, Job::Cycle).await?;
            let (_, set) = in_flight(connection, candidate, SET_NAMES, CYCLES, Job::Cycle).await?;
            columns[2].push(set / one);
        }
    }
    print(&layouts, ratios);
    Ok(())
}

fn print(candidates: &[Candidate], ratios: Vec<[Vec<f64>; 3]>) {
    for (candidate, columns) in candidates.iter().zip(ratios) {
        let retain = match candidate.retain {
            Retain::Nothing => "0",
            Retain::Token => "10 min",
        };
        let [first, second, third] = columns.map(median);
        println!("| {} | {retain} | {first:.2} | {second:.2} | {third:.2} |", candidate.name);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
