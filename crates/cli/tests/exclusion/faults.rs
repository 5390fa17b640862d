//! What can happen to a run, and which exit codes it may then have.
//!
//! One run meets one fault: wrapper and minder lost at the same time is a limit that `SAFETY.md`
//! states. A run that certainly meets its fault while it holds the lock has a command without an
//! end, so that only the machinery under test can end it, and one exit code is right.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use fencelock_testkit::Process;
use fencelock_testkit::process::{Signal, send, send_group};

use crate::random::Random;
use crate::support::{LIMIT, group};

/// The lease of the runs. Between the death of a frozen run's command and the end of its lease are
/// 92 ms: 2 % margin, 1 % drift and 2 ms. A busy machine needs some of it to take a process down.
pub(crate) const TTL: Duration = Duration::from_secs(3);

/// What happens to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Nothing,
    KillWrapper,
    /// Stopped, and continued before its lease is in danger.
    PauseWrapper,
    /// Stopped, and continued after its lease.
    FreezeWrapper,
    /// Stopped, and then killed.
    FreezeAndKillWrapper,
    KillMinder,
    PauseMinder,
    /// The first process of the command, not its children.
    KillLeader,
    KillCommand,
    PauseCommand,
}

/// When it happens.
#[derive(Debug, Clone, Copy)]
enum When {
    /// Counted from the start of the wrapper: anywhere between its first instruction and its end.
    Started(Duration),
    /// Counted from the first sign of the command.
    Inside(Duration),
}

/// A run to be made.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) fault: Fault,
    when: When,
    /// How long a pause is.
    pause: Duration,
    /// How long the command works; without, until it is killed.
    work: Option<Duration>,
    stubborn: bool,
}

impl Plan {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let fault = match random.below(100) {
            0..45 => Fault::Nothing,
            45..60 => Fault::KillWrapper,
            60..68 => Fault::PauseWrapper,
            68..74 => Fault::FreezeWrapper,
            74..80 => Fault::FreezeAndKillWrapper,
            80..85 => Fault::KillMinder,
            85..89 => Fault::PauseMinder,
            89..93 => Fault::KillLeader,
            93..96 => Fault::KillCommand,
            _ => Fault::PauseCommand,
        };
        let when = if random.chance(40) && !fault.needs_command() {
            When::Started(Duration::from_millis(random.below(150)))
        } else {
            When::Inside(Duration::from_millis(random.below(40)))
        };
        let pause = match fault {
            Fault::FreezeWrapper => TTL + Duration::from_millis(random.below(1000)),
            _ => Duration::from_millis(random.below(600)),
        };
        let endless = matches!(when, When::Inside(_)) && fault.ends_the_command();
        let work = (!endless).then(|| Duration::from_millis(5 + random.below(60)));
        Self { fault, when, pause, work, stubborn: random.chance(30) }
    }

    /// The command: tells its fencing token and its group, then works with a child of its own.
    pub(crate) fn script(&self) -> String {
        let trap = if self.stubborn { "trap '' TERM; " } else { "" };
        let work = match self.work {
            Some(work) => {
                let seconds = work.as_secs_f64();
                format!("sleep {seconds} & sleep {seconds}; wait")
            }
            None => "(while :; do sleep 0.5; done) & while :; do sleep 0.5; done".to_owned(),
        };
        format!(
            "{trap}echo \"$FENCELOCK_FENCING_TOKEN\" >>tokens.$FENCELOCK_NAME; \
             echo inside $PPID; {work}"
        )
    }

    /// Does it, unless the run has ended before; returns when it is done.
    pub(crate) fn strike(&self, run: &mut Process) {
        let delay = match self.when {
            When::Started(delay) => delay,
            When::Inside(delay) => {
                if !wait_for_command(run) {
                    return;
                }
                delay
            }
        };
        // Sleeping is the chaos itself here: nothing is right only because of it.
        thread::sleep(delay);
        let (target, signals) = match self.fault {
            Fault::Nothing => return,
            Fault::KillWrapper => (Target::Wrapper, [Some(Signal::KILL), None]),
            Fault::PauseWrapper | Fault::FreezeWrapper => {
                (Target::Wrapper, [Some(Signal::STOP), Some(Signal::CONT)])
            }
            Fault::FreezeAndKillWrapper => {
                (Target::Wrapper, [Some(Signal::STOP), Some(Signal::KILL)])
            }
            Fault::KillMinder => (Target::Minder, [Some(Signal::KILL), None]),
            Fault::PauseMinder => (Target::Minder, [Some(Signal::STOP), Some(Signal::CONT)]),
            Fault::KillLeader => (Target::Leader, [Some(Signal::KILL), None]),
            Fault::KillCommand => (Target::Command, [Some(Signal::KILL), None]),
            Fault::PauseCommand => (Target::Command, [Some(Signal::STOP), Some(Signal::CONT)]),
        };
        let pid = target.find(run);
        for (signal, pause) in signals.into_iter().flatten().zip([Duration::ZERO, self.pause]) {
            thread::sleep(pause);
            // Looked up again: its number may be another's by now.
            if target.find(run) == pid {
                target.send(pid, signal);
            }
        }
    }

    /// Whether a run with this fault may end so, when nothing else disturbs it.
    pub(crate) fn allows(&self, code: i32) -> bool {
        let killed = 137;
        if self.work.is_none() {
            return code
                == match self.fault {
                    Fault::FreezeWrapper => 79,
                    Fault::KillMinder => 70,
                    _ => killed,
                };
        }
        match self.fault {
            Fault::Nothing | Fault::PauseMinder | Fault::PauseCommand => code == 0,
            // Before its command is there: the lease it was granted, or all it waited for, is over.
            Fault::PauseWrapper | Fault::FreezeWrapper => [0, 69, 79].contains(&code),
            Fault::KillMinder => [0, 70].contains(&code),
            _ => [0, killed].contains(&code),
        }
    }
}

impl Fault {
    pub(crate) fn stops_wrapper(self) -> bool {
        matches!(self, Self::PauseWrapper | Self::FreezeWrapper | Self::FreezeAndKillWrapper)
    }

    fn needs_command(self) -> bool {
        matches!(self, Self::KillLeader | Self::KillCommand | Self::PauseCommand)
    }

    fn ends_the_command(self) -> bool {
        !matches!(self, Self::Nothing | Self::PauseWrapper | Self::PauseMinder | Self::PauseCommand)
    }
}

/// Whom it hits.
#[derive(Debug, Clone, Copy)]
enum Target {
    Wrapper,
    Minder,
    Leader,
    Command,
}

impl Target {
    fn find(self, run: &mut Process) -> Option<u32> {
        if run.exited().is_some() {
            return None;
        }
        match self {
            Self::Wrapper => Some(run.pid()),
            Self::Minder => children(run.pid()).into_iter().find(|pid| is_minder(*pid)),
            Self::Leader | Self::Command => {
                group(run).filter(|leader| children(run.pid()).contains(leader))
            }
        }
    }

    fn send(self, pid: Option<u32>, signal: Signal) {
        // It may have ended in this instant, which is as good.
        let _sent = match (self, pid) {
            (_, None) => false,
            (Self::Command, Some(group)) => send_group(group, signal),
            (_, Some(pid)) => send(pid, signal),
        };
    }
}

/// Whether the command has shown itself before the end of the run.
fn wait_for_command(run: &mut Process) -> bool {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        let ended = run.exited().is_some();
        if group(run).is_some() {
            return true;
        }
        if ended {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("no command within {LIMIT:?}: {}", run.stderr());
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn is_minder(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "lock-minder")
}
