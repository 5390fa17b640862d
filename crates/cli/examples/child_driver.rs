//! Runs a command as `run` does, but with a lease that is nothing but numbers: what the tests of the
//! process machinery drive.
//!
//! `child_driver [OPTION VALUE]... -- COMMAND [ARGS...]`
//!
//! Options, all in milliseconds from the start of the command unless they say otherwise:
//! `--kill-at N` (the minder's deadline) · `--stop-at N --stop-grace N` (TERM, then KILL) ·
//! `--stop-for lost|max-hold` ·
//! `--invalid-at N` (the lease is not valid from then on) · `--clock boottime|monotonic` ·
//! `--left-behind-grace N` · `--wait-first 1` (wait for a signal instead of a lock) ·
//! `--hold-before-start 1` (start the command on a signal) · `--renew-every N` (moves the deadline on).
//! Prints `outcome: ...` as its last line on standard error.
#![deny(unsafe_code)]

#[path = "../src/child/mod.rs"]
mod child;

use std::process::{Command, ExitCode};
use std::time::Duration;

use child::{
    Child, Clock, Controls, Deadline, Minder, Notice, Outcome, Serves, Signals, SpawnError,
    SpawnErrorKind, Status, Stop, StopReason, die_of, spawn, supervise,
};
use tokio::sync::watch;

struct Options {
    clock: Clock,
    kill_at: Option<Duration>,
    stop_at: Option<Duration>,
    stop_grace: Duration,
    stop_for: StopReason,
    invalid_at: Option<Duration>,
    left_behind_grace: Duration,
    renew_every: Option<Duration>,
    wait_first: bool,
    hold_before_start: bool,
    command: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("driver: {error}");
            ExitCode::from(70)
        }
    }
}

fn run() -> Result<u8, Box<dyn std::error::Error>> {
    let mut minder = Minder::fork(Serves::One)?;
    let signals = Signals::install()?;
    let options = parse(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end: Result<End, Box<dyn std::error::Error>> = runtime.block_on(async {
        if options.wait_first {
            eprintln!("waiting");
            let signal = signals.interrupted().await?;
            return Ok(End::Code(Status::Signal(signal.as_raw()).exit_code()));
        }
        if options.hold_before_start {
            eprintln!("holding");
            signals.interrupted().await?;
        }
        if let Some(signal) = signals.pending()? {
            return Ok(End::Code(Status::Signal(signal.as_raw()).exit_code()));
        }
        drive(&options, &mut minder, &signals).await
    });
    drop(minder);
    match end? {
        End::Code(code) => Ok(code),
        End::Typed(signal) => die_of(signal),
    }
}

enum End {
    Code(u8),
    Typed(rustix::process::Signal),
}

async fn drive(
    options: &Options,
    minder: &mut Minder,
    signals: &Signals,
) -> Result<End, Box<dyn std::error::Error>> {
    let after = |delay: Duration| Deadline::after(options.clock, delay);
    let (program, arguments) = options.command.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).env("DRIVER_SET", "1").env_remove("DRIVER_REMOVED");
    // Before the start, as a lease is: a wrapper that is frozen while it starts the command loses time.
    let (kill_at, invalid_at) = (options.kill_at.map(after), options.invalid_at.map(after));
    let child: Child = match spawn(command, minder, kill_at) {
        Ok(child) => child,
        Err(error) => return Ok(End::Code(refuse(&error))),
    };
    let (renew, deadlines) = watch::channel(kill_at);
    let (stop, stops) = watch::channel(None);
    let pid = child.pid().as_raw_nonzero();
    let controls = Controls {
        kill_at: deadlines,
        stop: stops,
        still_valid: &|| invalid_at.is_none_or(|deadline| !deadline.is_past()),
        notice: &|notice: Notice| eprintln!("notice: {notice:?}: {notice}"),
        left_behind_grace: options.left_behind_grace,
    };
    let outcome: Outcome = tokio::select! {
        outcome = supervise(child, minder, signals, controls) => outcome?,
        () = lease(options, renew, stop) => return Err("the lease ended first".into()),
    };
    eprintln!("outcome: {outcome:?} pid {pid}");
    if let Some(signal) = outcome.typed {
        return Ok(End::Typed(signal));
    }
    let stopped = outcome.stopped_by_us.is_some();
    Ok(End::Code(if stopped { 79 } else { outcome.status.exit_code() }))
}

/// Plays the part of the lock; never returns.
async fn lease(
    options: &Options,
    renew: watch::Sender<Option<Deadline>>,
    stop: watch::Sender<Option<Stop>>,
) {
    let stopping = async {
        let Some(delay) = options.stop_at else { return std::future::pending().await };
        tokio::time::sleep(delay).await;
        let kill_at = Deadline::after(options.clock, options.stop_grace);
        stop.send_replace(Some(Stop { reason: options.stop_for, kill_at: Some(kill_at) }));
        std::future::pending::<()>().await;
    };
    let renewing = async {
        let Some(pause) = options.renew_every else { return std::future::pending().await };
        loop {
            tokio::time::sleep(pause).await;
            renew.send_replace(options.kill_at.map(|ttl| Deadline::after(options.clock, ttl)));
        }
    };
    tokio::join!(stopping, renewing);
}

fn refuse(error: &SpawnError) -> u8 {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let kind: SpawnErrorKind = error.kind();
    eprintln!("refused: {kind:?}: {error} ({source})");
    error.exit_code()
}

fn parse(
    mut arguments: impl Iterator<Item = String>,
) -> Result<Options, Box<dyn std::error::Error>> {
    let mut options = Options {
        clock: Clock::Boottime,
        kill_at: None,
        stop_at: None,
        stop_grace: Duration::ZERO,
        stop_for: StopReason::Lost,
        invalid_at: None,
        left_behind_grace: Duration::from_millis(200),
        renew_every: None,
        wait_first: false,
        hold_before_start: false,
        command: Vec::new(),
    };
    while let Some(option) = arguments.next() {
        if option == "--" {
            options.command = arguments.collect();
            break;
        }
        let value = arguments.next().ok_or("an option needs a value")?;
        if option == "--clock" {
            options.clock = if value == "monotonic" { Clock::Monotonic } else { Clock::Boottime };
            continue;
        }
        if option == "--stop-for" {
            options.stop_for =
                if value == "max-hold" { StopReason::MaxHold } else { StopReason::Lost };
            continue;
        }
        let span = Duration::from_millis(value.parse()?);
        match option.as_str() {
            "--kill-at" => options.kill_at = Some(span),
            "--stop-at" => options.stop_at = Some(span),
            "--stop-grace" => options.stop_grace = span,
            "--invalid-at" => options.invalid_at = Some(span),
            "--left-behind-grace" => options.left_behind_grace = span,
            "--renew-every" => options.renew_every = Some(span),
            "--wait-first" => options.wait_first = true,
            "--hold-before-start" => options.hold_before_start = true,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(options)
}
