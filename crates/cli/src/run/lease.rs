//! Follows the lease while the command runs: moves the instants of TERM and KILL on with each
//! renewal, and has the command stopped when the lease can't be kept.
//!
//! Two ways to lose it. *Nobody answers*: then TERM goes out at the last instant that leaves the
//! command its grace, and a renewal may still come until then. *The store says so*: then somebody may
//! hold the lock already, and TERM goes out at once.

use std::cell::Cell;

use fencelock::{Clock, Guard, LossReason, Moment};
use tokio::sync::watch;

use super::timing::Timing;
use crate::child::{self, Deadline, Stop, StopReason};
use crate::console::Console;
use crate::settings::OnLost;
use crate::span;

/// The lease of a running command.
pub(super) struct Lease<'a> {
    pub(super) guard: &'a Guard,
    pub(super) clock: Clock,
    pub(super) timing: Timing,
    pub(super) on_lost: OnLost,
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
        let mut doubtful = false;
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
                    self.cannot_be_kept(deadline);
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
        self.stop.send_replace(Some(Stop { reason: StopReason::Lost, kill_at }));
        self.console.error(&format!(
            "{} can't be kept: no renewal was answered by {}, {left} left; stopping the command",
            self.what, self.store
        ));
    }

    /// It is lost for certain.
    fn lost(&self, reason: LossReason, deadline: Moment) {
        let why = match reason {
            LossReason::Disappeared => {
                "lock key disappeared from the store (deleted or evicted)".to_owned()
            }
            other => other.to_string(),
        };
        let rest = match self.on_lost {
            OnLost::Term if self.stop.borrow().is_some() => "the command is being stopped",
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
        self.stop.send_replace(Some(Stop { reason: StopReason::Lost, kill_at }));
        self.console.error(&message);
    }

    fn instant(&self, moment: Moment) -> Deadline {
        instant(&self.clock, moment)
    }
}

/// A moment of the library as the machinery of processes counts it.
pub(super) fn instant(clock: &Clock, moment: Moment) -> Deadline {
    let clock = match clock {
        Clock::Monotonic => child::Clock::Monotonic,
        // The one that runs on is the one that can't be late.
        _ => child::Clock::Boottime,
    };
    Deadline::new(clock, moment.as_nanos())
}
