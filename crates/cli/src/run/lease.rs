//! Follows the lease while the command runs: moves the instants of TERM and KILL on with each
//! renewal, and has the command stopped when the lease can't be kept.
//!
//! Two ways to lose it. *Nobody answers*: then TERM goes out at the last instant that leaves the
//! command its grace, and a renewal may still come until then. *The store says so*: then somebody may
//! hold the lock already, and TERM goes out at once.
//!
//! And two other ends. *It was held for long enough* (`--max-hold`): the limit is the end of validity,
//! so TERM and KILL come as they do when nobody answers. *Somebody asks for it back*: then the command
//! is told, once; it decides how it ends, and the lease goes on until it has.

use std::cell::Cell;
use std::time::Duration;

use fencelock::{Clock, LossReason, Moment};
use tokio::sync::watch;

use super::timing::Timing;
use crate::child::{self, Deadline, Stop, StopReason};
use crate::console::Console;
use crate::hold::Hold;
use crate::settings::OnLost;
use crate::span;

/// The lease of a running command.
pub(super) struct Lease<'a> {
    pub(super) guard: &'a Hold,
    pub(super) clock: Clock,
    pub(super) timing: Timing,
    pub(super) on_lost: OnLost,
    /// After a revoke, KILL follows the grace.
    pub(super) kill: bool,
    pub(super) console: &'a Console,
    /// The lock and its store, as messages call them.
    pub(super) what: &'a str,
    pub(super) store: &'a str,
    pub(super) kill_at: watch::Sender<Option<Deadline>>,
    pub(super) stop: watch::Sender<Option<Stop>>,
    /// Whether the loss has been reported.
    pub(super) lost: Cell<bool>,
}

impl Lease<'_> {
    /// Follows the lease. Never ends: whoever waits for the command drops it.
    pub(super) async fn follow(&self) {
        let mut deadline = self.guard.deadline();
        let (mut doubtful, mut asked) = (false, false);
        // A command that is over soon is not worth a subscription.
        let revoked = async {
            tokio::time::sleep(LISTEN_AFTER).await;
            self.guard.revoked().await;
        };
        tokio::pin!(revoked);
        loop {
            let term_at = self.timing.term_at(deadline);
            tokio::select! {
                biased;
                changed = self.guard.deadline_changed(deadline) => {
                    if changed == Moment::START || !self.guard.is_valid() {
                        let reason = self.guard.lost().await;
                        self.lost(reason, deadline);
                        return std::future::pending().await;
                    }
                    deadline = changed;
                    self.renewed(deadline);
                }
                () = self.clock.sleep_until(term_at), if !doubtful => {
                    doubtful = true;
                    if self.guard.hold_limit().is_some_and(|limit| deadline >= limit) {
                        self.held_for_long_enough(deadline);
                    } else {
                        self.cannot_be_kept(deadline);
                    }
                }
                () = &mut revoked, if !asked => {
                    asked = true;
                    self.asked_back();
                }
            }
        }
    }

    fn renewed(&self, deadline: Moment) {
        if self.on_lost == OnLost::Term {
            let kill_at = self.instant(self.timing.kill_at(deadline));
            self.kill_at.send_replace(Some(kill_at));
        }
        self.console.detail(|| {
            let left = deadline.saturating_since(self.clock.now());
            format!("renewed {}: valid for {} [{}]", self.what, span::show(left), self.store)
        });
    }

    /// Nobody answered for so long that the command has to go now, if it is to have its grace.
    fn cannot_be_kept(&self, deadline: Moment) {
        let left = span::show(deadline.saturating_since(self.clock.now()));
        if self.on_lost == OnLost::Ignore {
            self.console.notice(&format!(
                "{} can hardly be kept: no renewal was answered by {}, {left} left; the command runs on \
                 (--on-lost ignore)",
                self.what, self.store
            ));
            return;
        }
        self.lost.set(true);
        let kill_at = self.instant(self.timing.kill_at(deadline));
        self.stop.send_replace(Some(Stop { reason: StopReason::Lost, kill_at: Some(kill_at) }));
        self.console.error(&format!(
            "{} can't be kept: no renewal was answered by {}, {left} left; stopping the command",
            self.what, self.store
        ));
    }

    /// The command had the time that it was given. That is no loss: `--on-lost` has no say in it.
    fn held_for_long_enough(&self, deadline: Moment) {
        let kill_at = self.instant(self.timing.kill_at(deadline));
        self.stop.send_replace(Some(Stop { reason: StopReason::MaxHold, kill_at: Some(kill_at) }));
        let most = self.timing.max_hold.map_or_else(String::new, span::show);
        self.console.error(&format!(
            "{} is held for at most {most} (--max-hold); stopping the command [{}]",
            self.what, self.store
        ));
    }

    /// Somebody wants the lock. The first word counts: a command that is being stopped already
    /// needs no other reason.
    fn asked_back(&self) {
        if self.stop.borrow().is_some() {
            return;
        }
        let kill_at =
            self.kill.then(|| self.instant(self.clock.now().saturating_add(self.timing.grace)));
        self.stop.send_replace(Some(Stop { reason: StopReason::Revoked, kill_at }));
        let rest = match kill_at {
            None => "telling the command to end (TERM)".to_owned(),
            Some(_) => format!("stopping the command within {}", span::show(self.timing.grace)),
        };
        self.console.notice(&format!(
            "{} is asked back by somebody else in {}: {rest}",
            self.what, self.store
        ));
    }

    /// It is lost for certain.
    fn lost(&self, reason: LossReason, deadline: Moment) {
        if reason == LossReason::MaxHold {
            // Said and done before, unless this process was stopped meanwhile.
            if !self.is_being_stopped_for(StopReason::MaxHold) {
                self.held_for_long_enough(deadline);
            }
            return;
        }
        let why = match reason {
            LossReason::Disappeared => {
                "lock key disappeared from the store (deleted or evicted)".to_owned()
            }
            other => other.to_string(),
        };
        let rest = match self.on_lost {
            OnLost::Term if self.is_being_stopped() => "the command is being stopped",
            OnLost::Term => "stopping the command",
            OnLost::Ignore => "the command runs on without it (--on-lost ignore)",
        };
        let message = format!("{} was lost in {}: {why}; {rest}", self.what, self.store);
        self.lost.set(true);
        if self.on_lost == OnLost::Ignore {
            self.console.notice(&message);
            return;
        }
        let grace_over = self.clock.now().saturating_add(self.timing.grace);
        let kill_at = self.instant(self.timing.kill_at(deadline).min(grace_over));
        self.stop.send_replace(Some(Stop { reason: StopReason::Lost, kill_at: Some(kill_at) }));
        self.console.error(&message);
    }

    /// Whether the command was told that somebody wants the lock.
    pub(super) fn is_asked_back(&self) -> bool {
        self.is_being_stopped_for(StopReason::Revoked)
    }

    /// Whether the command has to end whatever it wants.
    fn is_being_stopped(&self) -> bool {
        self.stop.borrow().is_some_and(|stop| stop.reason != StopReason::Revoked)
    }

    fn is_being_stopped_for(&self, reason: StopReason) -> bool {
        self.stop.borrow().is_some_and(|stop| stop.reason == reason)
    }

    fn instant(&self, moment: Moment) -> Deadline {
        instant(&self.clock, moment)
    }
}

/// Short for a person, long beside the start of a command.
const LISTEN_AFTER: Duration = Duration::from_millis(100);

/// A moment of the library as the machinery of processes counts it.
pub(super) fn instant(clock: &Clock, moment: Moment) -> Deadline {
    let clock = match clock {
        Clock::Monotonic => child::Clock::Monotonic,
        // The one that runs on is the one that can't be late.
        _ => child::Clock::Boottime,
    };
    Deadline::new(clock, moment.as_nanos())
}
