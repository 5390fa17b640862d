//! Contended hand-off of Fencelock beside other libraries: one table and one plot.
//!
//! ```console
//! cargo build --release -p fencelock-bench
//! cargo run --release -p fencelock-bench --bin contended -- --seconds 5 --rounds 3
//! ```
//!
//! `--contenders 8,64`, `--processes 4,1`, `--section-us 0,1000`, `--only fencelock,rslock`,
//! `--warm-up SECONDS`, `--ttl-ms`, `--out FOLDER`. See the README of this package.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use fencelock_bench::{
    contended::{
        calls::Sent,
        peers::{PEERS, Peer, Setting, Skipped},
        plot, report,
        report::Row,
        run::{Scenario, Timing, learn, measure},
    },
    option, words,
};
use fencelock_testkit::RedisServer;

/// A peer that takes part, with one of its settings.
struct Entrant {
    peer: &'static Peer,
    setting: &'static Setting,
    sent: Sent,
}

fn main() -> ExitCode {
    let timing = Timing {
        warm_up: Duration::from_secs(option("--warm-up", 1) as u64),
        window: Duration::from_secs(option("--seconds", 5) as u64),
        ttl: Duration::from_millis(option("--ttl-ms", 10_000) as u64),
    };
    let rounds = option("--rounds", 3);
    let only = words("--only", "");
    let out = PathBuf::from(words("--out", "target/contended").remove(0));
    let scenarios = scenarios();

    let (entrants, mut skipped) = entrants(&only, &timing);
    for Skipped { name, why } in &skipped {
        println!("skipped {name}: {why}");
    }
    let mut rows: Vec<Row> = Vec::new();
    for scenario in &scenarios {
        rows.extend(entrants.iter().map(|entrant| Row {
            scenario: *scenario,
            peer: entrant.peer.name,
            setting: entrant.setting.name,
            language: entrant.peer.language,
            mixed: entrant.sent.mixed(),
            outcomes: Vec::new(),
        }));
    }
    let started = Instant::now();
    // Round by round, so that what drifts hits everybody.
    for round in 1..=rounds {
        let measured =
            scenarios.iter().flat_map(|scenario| entrants.iter().map(move |e| (scenario, e)));
        for ((scenario, entrant), row) in measured.zip(&mut rows) {
            let Entrant { peer, setting, sent } = entrant;
            match measure(peer, setting, scenario, &timing, sent) {
                Ok(outcome) => {
                    println!(
                        "round {round}, {scenario}: {}, {}: {} hand-offs, p50 {:.0} us, overlaps {}",
                        peer.name,
                        setting.name,
                        outcome.figures.hand_offs,
                        outcome.figures.hand_off_us.p50,
                        outcome.figures.overlaps,
                    );
                    row.outcomes.push(outcome);
                }
                Err(why) => {
                    println!("round {round}, {scenario}: {}, {}: {why}", peer.name, setting.name);
                    let why = format!("round {round}, {scenario}, {}: {why}", setting.name);
                    skipped.push(Skipped { name: peer.name, why });
                }
            }
        }
    }

    let facts = facts(rounds, &timing, started.elapsed());
    let table = report::markdown(&facts, &rows, &skipped);
    std::fs::create_dir_all(&out).expect("the folder can be made");
    let write = |name: &str, text: &str| {
        std::fs::write(out.join(name), text).expect("the folder takes files");
    };
    write("contended.md", &table);
    write("contended.csv", &report::csv(&rows));
    write("contended-rounds.csv", &report::rounds_csv(&rows));
    plot::draw(&out.join("contended.svg"), &rows).expect("the folder takes files");
    println!("\n{table}\nwritten: contended.md, .csv, -rounds.csv and .svg in {}", out.display());
    let overlapped: Vec<_> = rows.iter().filter(|row| row.overlaps() > 0).collect();
    for row in &overlapped {
        println!("two were inside at once: {}, {}, {}", row.peer, row.setting, row.scenario);
    }
    if overlapped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn scenarios() -> Vec<Scenario> {
    let numbers = |name: &str, default: &str| -> Vec<u32> {
        words(name, default).iter().map(|word| word.parse().expect("numbers")).collect()
    };
    let mut scenarios = Vec::new();
    for processes in numbers("--processes", "4,1") {
        for contenders in numbers("--contenders", "8,64") {
            for section in numbers("--section-us", "0,1000") {
                let section = Duration::from_micros(section.into());
                scenarios.push(Scenario { contenders, processes, section });
            }
        }
    }
    scenarios
}

/// Builds every peer that is asked for and learns what its clients send.
fn entrants(only: &[String], timing: &Timing) -> (Vec<Entrant>, Vec<Skipped>) {
    let (mut entrants, mut skipped) = (Vec::new(), Vec::new());
    let asked =
        |peer: &&Peer| only.iter().all(String::is_empty) || only.iter().any(|o| o == peer.name);
    for peer in PEERS.iter().filter(asked) {
        println!("building {}", peer.name);
        if let Err(reason) = peer.build() {
            skipped.push(reason);
            continue;
        }
        for setting in peer.settings {
            match learn(peer, setting, timing) {
                Ok(sent) => entrants.push(Entrant { peer, setting, sent }),
                Err(why) => skipped
                    .push(Skipped { name: peer.name, why: format!("{}: {why}", setting.name) }),
            }
        }
    }
    (entrants, skipped)
}

/// What a reader must know about the machine and the run.
fn facts(rounds: usize, timing: &Timing, spent: Duration) -> String {
    let server = RedisServer::start();
    let info: String = redis::cmd("INFO").arg("server").query(&mut server.connect()).expect("INFO");
    let field = |key: &str| {
        let found = info.lines().find_map(|line| line.strip_prefix(key));
        found.unwrap_or("unknown").trim().to_owned()
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let date = Command::new("date").arg("-u").arg("+%F").output();
    let date = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned());
    format!(
        "{}. Redis {}, {}, {} processors; load at the end {}. Loopback TCP, a server of its own for \
         each run, no persistence. {rounds} interleaved rounds of {} s after {} s of warm-up, ttl {} \
         ms; {} min in all. Closed loop: acquire, critical section, release, at once again.",
        date.unwrap_or_default(),
        field("redis_version:"),
        field("os:"),
        std::thread::available_parallelism().map_or(0, usize::from),
        load.split_whitespace().next().unwrap_or("unknown"),
        timing.window.as_secs(),
        timing.warm_up.as_secs(),
        timing.ttl.as_millis(),
        spent.as_secs() / 60,
    )
}
