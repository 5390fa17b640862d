//! One run: a server of its own, the drivers of one peer, the window in which it is measured.
//!
//! ```text
//! drivers start   ready   start | warm-up | window (measured)   | end   the last waiters | told
//!                                         ^ INFO                ^ INFO
//! ```

use std::{
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    process::{Child, ChildStdout, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use fencelock_testkit::{RedisServer, process::spawn_tied};

use super::{
    calls::{Calls, Sent, cpu_seconds},
    contender::{Grant, Span, now},
    peers::{Peer, Setting},
    statistics::{Crowd, Figures},
};

/// How long a driver may take to connect; a Java machine beside others needs some seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long the last waiters and the telling may take after the end; a peer that loses a wakeup
/// waits for the lease to end.
const TOLD_WITHIN: Duration = Duration::from_secs(90);

/// Long enough for the slowest retry to show what it sends.
const LEARN_FOR_NS: u64 = 1_500_000_000;

/// Between the word to start and the start: all drivers have read it by then.
const HEAD_START: Duration = Duration::from_millis(100);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Contenders in all.
    pub contenders: u32,
    /// Processes over which they are spread.
    pub processes: u32,
    /// How long a holder works.
    pub section: Duration,
}

/// How long it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Before the window; some peers get it several times.
    pub warm_up: Duration,
    /// The window.
    pub window: Duration,
    /// The lease.
    pub ttl: Duration,
}

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the grants.
    pub figures: Figures,
    /// Calls that gave up or failed and were made again.
    pub failed: u64,
    /// Commands that clients sent in the window.
    pub commands: f64,
    /// CPU time of the server in the window.
    pub server_cpu: Duration,
}

impl Scenario {
    /// The crowd of a peer, which may have a fixed one.
    fn crowd(&self, peer: &Peer) -> (Crowd, u32) {
        let (contenders, processes) = match peer.fixed_contenders {
            Some(fixed) => (fixed, fixed),
            None => (self.contenders, self.processes.min(self.contenders)),
        };
        (Crowd { contenders, per_process: contenders.div_ceil(processes) }, processes)
    }
}

/// Learns under MONITOR which commands the clients of a peer send.
///
/// # Errors
/// What went wrong with a driver.
pub fn learn(peer: &Peer, setting: &Setting, timing: &Timing) -> Result<Sent, String> {
    let scenario = Scenario { contenders: 4, processes: 2, section: Duration::ZERO };
    let server = RedisServer::start();
    let mut drivers = Drivers::start(&server, peer, setting, &scenario, timing)?;
    let start = now() + nanoseconds(HEAD_START);
    let span = Span { start, end: start + LEARN_FOR_NS };
    let monitor = server.monitor();
    drivers.go(span);
    sleep_until(span.end);
    let sent = Sent::of(&monitor.take());
    drivers.told()?;
    Ok(sent)
}

/// Measures a peer.
///
/// # Errors
/// What went wrong with a driver.
pub fn measure(
    peer: &Peer,
    setting: &Setting,
    scenario: &Scenario,
    timing: &Timing,
    sent: &Sent,
) -> Result<Outcome, String> {
    let server = RedisServer::start();
    let mut connection = server.connect();
    let mut read = || -> Result<(Calls, f64), String> {
        let mut info = |section: &str| -> Result<String, String> {
            let answer = redis::cmd("INFO").arg(section).query(&mut connection);
            answer.map_err(|error| format!("INFO: {error}"))
        };
        Ok((Calls::parse(&info("commandstats")?), cpu_seconds(&info("cpu")?)))
    };
    let mut drivers = Drivers::start(&server, peer, setting, scenario, timing)?;
    let start = now() + nanoseconds(HEAD_START);
    let begin = start + nanoseconds(timing.warm_up * peer.warm_ups);
    let span = Span { start, end: begin + nanoseconds(timing.window) };
    drivers.go(span);
    sleep_until(begin);
    let (calls_before, cpu_before) = read()?;
    sleep_until(span.end);
    let (calls, cpu) = read()?;
    let (grants, failed) = drivers.told()?;
    let (crowd, _) = scenario.crowd(peer);
    Ok(Outcome {
        figures: Figures::of(grants, crowd, Span { start: begin, end: span.end }),
        failed,
        commands: sent.count(&calls_before, &calls),
        server_cpu: Duration::from_secs_f64((cpu - cpu_before).max(0.0)),
    })
}

/// The drivers of one run; killed on drop.
struct Drivers(Vec<Started>);

struct Started {
    child: Child,
    heard: Receiver<Heard>,
    errors: std::fs::File,
}

enum Heard {
    Ready,
    Told { grants: Vec<Grant>, failed: Option<u64> },
}

impl Drivers {
    fn start(
        server: &RedisServer,
        peer: &Peer,
        setting: &Setting,
        scenario: &Scenario,
        timing: &Timing,
    ) -> Result<Self, String> {
        let (crowd, processes) = scenario.crowd(peer);
        let mut drivers = Self(Vec::new());
        for process in 0..processes {
            let first = process * crowd.per_process;
            let here = crowd.per_process.min(crowd.contenders.saturating_sub(first));
            let mut command = peer.command();
            command.args([server.url(), "contended".to_owned(), here.to_string()]);
            command.args(
                [scenario.section.as_micros(), timing.ttl.as_millis()].map(|n| n.to_string()),
            );
            command.args([setting.name, &first.to_string()]);
            let errors = tempfile::tempfile().map_err(|error| format!("a file: {error}"))?;
            let copy = errors.try_clone().map_err(|error| format!("a file: {error}"))?;
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(copy);
            let mut child = spawn_tied(command).map_err(|error| format!("no driver: {error}"))?;
            let output = child.stdout.take().ok_or("the driver has no output")?;
            let (sender, heard) = channel();
            std::thread::spawn(move || listen(output, &sender));
            drivers.0.push(Started { child, heard, errors });
        }
        for started in &mut drivers.0 {
            match started.heard.recv_timeout(READY_WITHIN) {
                Ok(Heard::Ready) => {}
                _ => return Err(started.complain("did not get ready")),
            }
        }
        Ok(drivers)
    }

    fn go(&mut self, span: Span) {
        for started in &mut self.0 {
            if let Some(input) = &mut started.child.stdin {
                // A driver that is gone is found out when it should tell.
                let _ = writeln!(input, "{} {}", span.start, span.end);
            }
        }
    }

    /// Every grant, and how many calls failed.
    fn told(&mut self) -> Result<(Vec<Grant>, u64), String> {
        let mut all = Vec::new();
        let mut sum = 0;
        for started in &mut self.0 {
            match started.heard.recv_timeout(TOLD_WITHIN) {
                Ok(Heard::Told { grants, failed: Some(failed) }) => {
                    all.extend(grants);
                    sum += failed;
                }
                _ => return Err(started.complain("did not tell what it saw")),
            }
        }
        Ok((all, sum))
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        for started in &mut self.0 {
            // Both fail only when it is gone already.
            let _ = started.child.kill();
            let _ = started.child.wait();
        }
    }
}

impl Started {
    fn complain(&mut self, what: &str) -> String {
        let mut text = String::new();
        let read = self.errors.rewind().and_then(|()| self.errors.read_to_string(&mut text));
        if read.is_err() {
            "(its errors cannot be read)".clone_into(&mut text);
        }
        let tail: Vec<&str> = text.trim().lines().rev().take(8).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("the driver {what}: {}", tail.join("\n"))
    }
}

/// Reads what a driver prints, so that its pipe never fills.
fn listen(output: ChildStdout, sender: &Sender<Heard>) {
    let mut grants = Vec::new();
    let mut failed = None;
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { break };
        let mut words = line.split_ascii_whitespace();
        let word = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match word {
            Some("ready") => drop(sender.send(Heard::Ready)),
            Some("grant") => grants.push(Grant {
                owner: u32::try_from(number()).unwrap_or(u32::MAX),
                called: number(),
                acquired: number(),
                releasing: number(),
                released: number(),
            }),
            Some("failed") => failed = Some(number()),
            _ => {}
        }
    }
    // Nobody listens any more when the run was given up.
    drop(sender.send(Heard::Told { grants, failed }));
}

fn sleep_until(moment: u64) {
    std::thread::sleep(Duration::from_nanos(moment.saturating_sub(now())));
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
