//! One acquire as it is measured and traced: from the call to its end, also by a drop.

use std::{fmt, sync::Arc};

use super::{
    metrics::{Class, Timer, Waiting},
    spans::Span,
};
use crate::{Error, ErrorKind, Guard, RetryAdvice, attempt::Tried, context::Context, plan::Plan};

/// An acquire that is on its way. Dropped before its end, it ends as dropped.
pub(crate) struct Acquiring {
    timer: Timer,
    span: Span,
    /// How many questions the store was asked for it.
    asked: u32,
    /// It found the lock busy, and waits.
    waiting: Option<Waiting>,
    ended: bool,
}

impl Acquiring {
    pub(crate) fn begin(context: &Arc<Context>, plan: &Plan, class: Class) -> Self {
        Self {
            timer: Timer::begin(context.meter.of_class(class), &context.clock),
            span: Span::acquire(plan.names(), &context.display),
            asked: 0,
            waiting: None,
            ended: false,
        }
    }

    /// The span that the acquire is done in.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// The store is asked.
    pub(crate) fn asks(&mut self) {
        self.asked += 1;
    }

    /// Somebody else has the lock, or is before us in the line of this process.
    pub(crate) fn contended(&mut self) {
        if self.waiting.is_none() {
            self.waiting = Some(Waiting::begin(self.timer.meter()));
        }
    }

    /// How a wait ended.
    pub(crate) fn waited(&mut self, result: Result<Guard, Error>) -> Result<Guard, Error> {
        match &result {
            Ok(guard) => self.granted(guard),
            Err(error) => self.end(outcome_of(error)),
        }
        result
    }

    /// How a single try ended.
    pub(crate) fn tried(&mut self, result: Result<Tried, Error>) -> Result<Tried, Error> {
        self.asks();
        match &result {
            Ok(Tried::Granted(guard)) => self.granted(guard),
            Ok(Tried::Busy(_) | Tried::Queued(..)) => {
                self.contended();
                self.end("busy");
            }
            Ok(Tried::Failed(error) | Tried::UsedUp(error)) | Err(error) => {
                self.end(outcome_of(error));
            }
        }
        result
    }

    fn granted(&mut self, guard: &Guard) {
        // What comes of the lease from now on is counted for this caller.
        guard.cell().shared.meter.set(self.timer.meter());
        self.span.granted(guard.own_fence());
        self.end("granted");
    }

    fn end(&mut self, outcome: &'static str) {
        self.ended = true;
        self.waiting = None;
        self.timer.acquired(outcome);
        self.span.ended(self.asked, outcome);
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if !self.ended {
            self.end("dropped");
        }
    }
}

impl fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// An error as a label: few of them, so that each is a line that can be watched.
fn outcome_of(error: &Error) -> &'static str {
    match (error.kind(), error.retry()) {
        (ErrorKind::WaitExpired, _) => "expired",
        (_, RetryAdvice::Later) => "unavailable",
        _ => "refused",
    }
}
