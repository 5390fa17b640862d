//! One command under one lock: granted, started, followed, ended, given back. What `run` does once
//! and `elect` does again and again.

use std::cell::Cell;
use std::error::Error as _;
use std::ffi::OsString;
use std::future::Future;
use std::process::Command;

use fencelock::{Client, Mutex, Names, Released};
use rustix::process::Signal;
use tokio::sync::watch;

use super::binding;
use super::environment::{self, Told};
use super::lease::{Lease, instant};
use super::stage::no_protection;
use super::timing::Timing;
use crate::child::{
    Controls, Minder, Notice, Outcome, Signals, SpawnError, Status, StopReason, spawn, supervise,
};
use crate::context::{CLOSE_WITHIN, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hold::{Hold, Manner};
use crate::names::Spelling;
use crate::settings::OnLost;
use crate::view::{HolderRecord, Record, millis, rfc3339};
use crate::waiting;

/// What is asked for, besides the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) names: &'a Names,
    pub(crate) spelling: Spelling,
    /// How they are held; alone without it.
    pub(crate) manner: Option<Manner>,
    /// The program and its arguments.
    pub(crate) command: &'a [OsString],
}

/// How a command under a lock ended.
#[derive(Debug)]
#[must_use = "the exit code is in here"]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The lock was lost, or could not be kept.
    pub(crate) lost: bool,
    /// Somebody asked for the lock back, and the command was told.
    pub(crate) asked_back: bool,
    /// What the release found.
    pub(crate) released: Released,
}

/// One command under one lock, and all that it takes.
pub(crate) struct Holding<'a> {
    pub(crate) context: &'a Context,
    pub(crate) asked: Asked<'a>,
    pub(super) timing: Timing,
    pub(crate) client: &'a Client,
    pub(super) store: String,
    /// The signal that was typed at the terminal and ended the command.
    pub(super) typed: Cell<Option<Signal>>,
    /// Whether a release was not answered in time.
    pub(super) silent: &'a Cell<bool>,
}

impl Holding<'_> {
    /// Waits for the lock that `mutex` describes, runs the command under it, and gives it back.
    ///
    /// # Errors
    /// The lock was not to be had, a signal came, or the command did not start: nothing runs, and
    /// nothing is held.
    pub(crate) async fn hold(
        &self,
        mutex: Mutex,
        minder: &mut Minder,
        signals: &Signals,
    ) -> Result<Ended, Failure> {
        let mutex = self.described(mutex).bind(binding::of(minder));
        let Asked { names, manner, .. } = self.asked;
        let guard =
            waiting::acquire(self.context, mutex, manner, names, &self.store, signals).await?;
        if let Err(failure) = self.may_start(&guard, signals).await {
            self.release_now(guard).await;
            return Err(failure);
        }
        self.tell_grant(&guard);
        self.run(guard, minder, signals).await
    }

    /// The settings that are about the lease.
    fn described(&self, mutex: Mutex) -> Mutex {
        let mut mutex = mutex.ttl(self.timing.ttl).min_hold(self.timing.min_hold);
        if let Some(max_hold) = self.timing.max_hold {
            mutex = mutex.max_hold(max_hold);
        }
        for pair in &self.context.settings.meta {
            let (key, value) = &pair.value;
            mutex = mutex.metadata(key, value);
        }
        mutex
    }

    /// Whether the command may still be started: nobody has asked for the end, and the lease has room
    /// for the command to die in.
    async fn may_start(&self, guard: &Hold, signals: &Signals) -> Result<(), Failure> {
        match signals.pending() {
            Ok(None) => {}
            Ok(Some(signal)) => {
                let console = &self.context.console;
                return Err(waiting::interrupted(console, self.asked.names, Ok(signal)));
            }
            Err(error) => return Err(no_protection(&error)),
        }
        let clock = self.client.clock();
        if self.timing.term_at(guard.deadline()) > clock.now() {
            return Ok(());
        }
        // The grant was slow to arrive. A fresh lease is as good.
        guard.renew(self.timing.ttl).await.map_err(|error| self.context.failure(&error))?;
        if self.timing.term_at(guard.deadline()) > clock.now() {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Unavailable,
            format!(
                "{} in {} is answered too slowly for this ttl: the command was not started; use a \
                 longer --ttl",
                waiting::shown(self.asked.names),
                self.store
            ),
        ))
    }

    async fn run(
        &self,
        guard: Hold,
        minder: &mut Minder,
        signals: &Signals,
    ) -> Result<Ended, Failure> {
        let what = waiting::shown(self.asked.names);
        let clock = self.client.clock();
        let on_lost = self.context.settings.on_lost;
        let first = match on_lost {
            OnLost::Term => Some(instant(&clock, self.timing.kill_at(guard.deadline()))),
            OnLost::Ignore => None,
        };
        let child = match spawn(self.command(&guard), minder, first) {
            Ok(child) => child,
            Err(error) => {
                self.release_now(guard).await;
                return Err(not_started(&error));
            }
        };
        let (kill_at, kill_at_seen) = watch::channel(first);
        let (stop, stop_seen) = watch::channel(None);
        let console = &self.context.console;
        let lease = Lease {
            guard: &guard,
            clock,
            timing: self.timing,
            on_lost,
            kill: self.context.settings.kill,
            console,
            what: &what,
            store: &self.store,
            kill_at,
            stop,
            lost: Cell::new(false),
        };
        let still_valid = || on_lost == OnLost::Ignore || guard.is_valid();
        let notice = |notice: Notice| console.error(&format!("{what}: {notice}"));
        let controls = Controls {
            kill_at: kill_at_seen,
            stop: stop_seen,
            still_valid: &still_valid,
            notice: &notice,
            left_behind_grace: self.timing.grace,
        };
        let outcome = tokio::select! {
            outcome = supervise(child, minder, signals, controls) => outcome,
            () = lease.follow() => unreachable!("a lease is followed until the command ends"),
        };
        let (lost, asked_back) = (lease.lost.get(), lease.is_asked_back());
        drop(lease);
        let outcome = outcome.map_err(|error| {
            Failure::internal(format!("the command can't be watched and was killed: {error}"))
        });
        let released = self.release(guard).await;
        let outcome = outcome?;
        self.typed.set(outcome.typed);
        Ok(Ended { outcome, lost, asked_back, released })
    }

    /// The command with its environment.
    fn command(&self, guard: &Hold) -> Command {
        let mut words = self.asked.command.iter();
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words);
        let export = self.context.settings.export_token;
        let told = Told {
            names: self.asked.names,
            spelling: self.asked.spelling,
            fencing_token: guard.fencing_token(),
            validity_left: guard.validity_left(),
            store: self.context.store.urls_for_the_command(),
            token: export.then(|| guard.token().reveal()),
        };
        environment::set(&mut command, &told);
        command
    }

    fn tell_grant(&self, guard: &Hold) {
        let fencing_token = guard.fencing_token();
        let console = &self.context.console;
        console.detail(|| {
            let fencing = match (self.asked.manner, fencing_token) {
                (Some(manner), _) => manner.to_string(),
                (None, Some(token)) => format!("with fencing token {token}"),
                (None, None) => "without a fencing token".to_owned(),
            };
            let left = crate::span::show(guard.validity_left());
            format!(
                "took {} {fencing}, valid for {left} [{}]",
                waiting::shown(self.asked.names),
                self.store
            )
        });
        if !self.context.settings.json {
            return;
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for name in self.asked.names {
            let record = Record {
                token_hash: Some(Some(guard.token_hash())),
                fencing_token,
                ttl_ms: Some(millis(self.timing.lease())),
                validity_ms: Some(millis(guard.validity_left())),
                holder: Some(HolderRecord {
                    host: Some(host.clone()),
                    pid: Some(std::process::id()),
                    label: None,
                    since: Some(rfc3339(std::time::SystemTime::now())),
                }),
                meta: self.context.settings.meta.iter().map(|pair| pair.value.clone()).collect(),
                ..Record::taken(name, self.asked.manner, self.client.capabilities().dialect)
            };
            console.raw_line(record.to_line().trim_end());
        }
    }

    /// Gives the lock back, or leaves it to the rest of `--min-hold`.
    async fn release(&self, guard: Hold) -> Released {
        let now = self.client.clock().now();
        let rest = guard.kept_until().map(|until| until.saturating_since(now)).unwrap_or_default();
        let released = self.answered(guard.release()).await;
        self.context.console.detail(|| {
            let (what, store) = (waiting::shown(self.asked.names), &self.store);
            if rest.is_zero() || released != Released::Held {
                format!("{} [{store}]", said(&what, released))
            } else {
                let rest = crate::span::show(rest);
                format!("left {what} held for {rest} more, not renewed (--min-hold) [{store}]")
            }
        });
        released
    }

    /// Gives a lock back under which nothing was done.
    async fn release_now(&self, guard: Hold) {
        let released = self.answered(guard.release_now()).await;
        self.context.console.detail(|| {
            let what = waiting::shown(self.asked.names);
            format!("{} [{}]", said(&what, released), self.store)
        });
    }

    async fn answered(&self, release: impl Future<Output = Released>) -> Released {
        let released = tokio::time::timeout(CLOSE_WITHIN, release).await;
        let released = released.unwrap_or(Released::Unknown);
        self.silent.set(released == Released::Unknown);
        released
    }

    /// The exit code, with a word about everything that is not as it should be.
    ///
    /// # Errors
    /// The command was stopped, or may have run without the lock.
    pub(crate) fn conclude(&self, ended: &Ended) -> Result<u8, Failure> {
        let Ended { outcome, lost, released, .. } = ended;
        let what = waiting::shown(self.asked.names);
        let store = &self.store;
        match outcome.stopped_by_us {
            // Not the lock's fault, and not the command's.
            Some(StopReason::MinderDied) => return Err(Failure::silent(Exit::Internal.code())),
            Some(_) => return Err(Failure::silent(Exit::Lost.code())),
            None => {}
        }
        let own = outcome.status.exit_code();
        if *lost {
            let code = if outcome.status == Status::Code(0) { Exit::Lost.code() } else { own };
            return Err(Failure::silent(code));
        }
        let why = match released {
            Released::Held => return Ok(own),
            Released::Expired => "it had ended before the command did",
            Released::Taken => "somebody else got it before the command ended",
            _ => {
                self.context.console.notice(&format!(
                    "whether {what} was given back is unknown: {store} did not answer, or would \
                     not; it is free after its ttl, {}",
                    crate::span::show(self.timing.lease().max(self.timing.min_hold))
                ));
                return Ok(own);
            }
        };
        let so = match self.asked.manner {
            None => "the command may not have been alone (use the fencing token)",
            Some(Manner::Shared) => "the command may have run beside one that was not to share it",
            Some(Manner::Permits { .. }) => "more than the limit may have run at once",
        };
        let message = format!("{what} in {store} was lost: {why}; {so}");
        self.context.console.error(&message);
        let code = if outcome.status == Status::Code(0) { Exit::Lost.code() } else { own };
        Err(Failure::silent(code))
    }
}

/// What became of a lock that was given back.
fn said(what: &str, released: Released) -> String {
    match released {
        Released::Held => format!("gave {what} back"),
        Released::Expired => format!("{what} had ended before it was given back"),
        Released::Taken => format!("{what} was somebody else's before it was given back"),
        _ => format!("whether {what} was given back is unknown"),
    }
}

fn not_started(error: &SpawnError) -> Failure {
    let cause = error.source().map(|source| format!(" ({source})")).unwrap_or_default();
    let exit = match error.exit_code() {
        127 => Exit::NotFound,
        126 => Exit::NotExecutable,
        _ => Exit::Internal,
    };
    Failure::new(exit, format!("{error}{cause}"))
}
