//! Waiting without a line at the store: try, sleep, try again.
//!
//! For dialects and stores that know no line, and for callers who chose how tries are spaced.

use std::time::Duration;

use fencelock_core::{Backoff, Moment, RetryStrategy};
use fencelock_store::rt;

use crate::{
    Error, Guard,
    attempt::{Tried, attempt},
    context::Context,
    waiting::watch::Watch,
};

/// Tries until the lock is granted or the wait is over.
pub(super) async fn lock(wait: &mut Watch<'_>, retry: &RetryStrategy) -> Result<Guard, Error> {
    let context = wait.context;
    let mut pace = Pace::new(context, retry, wait.end);
    loop {
        let tried_at = context.clock.now();
        wait.acquiring.asks();
        let error = match attempt(context, wait.plan, wait.limit()).await? {
            Tried::Granted(guard) => return Ok(guard),
            Tried::Busy(busy) => {
                let remaining = busy.holder.remaining;
                wait.busy(&busy);
                if !pace.sleep(remaining).await {
                    return Err(wait.expired());
                }
                continue;
            }
            Tried::Failed(error) | Tried::UsedUp(error) => error,
            // It did not ask for a place.
            Tried::Queued(..) => continue,
        };
        let error = wait.failed(error, tried_at)?;
        if !pace.sleep_after_failure(wait.patience(&error)).await {
            return Err(error);
        }
    }
}

/// Spaces the tries of one wait.
pub(super) struct Pace<'a> {
    context: &'a Context,
    backoff: Backoff<'a>,
    failures: u32,
    end: Moment,
}

impl<'a> Pace<'a> {
    pub(super) fn new(context: &'a Context, retry: &'a RetryStrategy, end: Moment) -> Self {
        Self { context, backoff: retry.start(), failures: 0, end }
    }

    /// Sleeps until another try makes sense; false when the wait is over.
    pub(super) async fn sleep(&mut self, holder_remaining: Option<Duration>) -> bool {
        self.failures = 0;
        let Some(pause) = self.backoff.next_delay(rt::chance()) else { return false };
        // The lease may end before the pause does; a little later, so that it really has.
        let after = jitter(AFTER_LEASE_END) + ONE_TICK;
        let lease_end = holder_remaining.map(|left| left.saturating_add(after));
        self.pause(pause.min(lease_end.unwrap_or(Duration::MAX)), self.end).await
    }

    /// Sleeps after a failure that may pass, for longer each time.
    pub(super) async fn sleep_after_failure(&mut self, end: Moment) -> bool {
        let pause = failure_pause(self.failures);
        self.failures += 1;
        self.pause(pause, end).await
    }

    async fn pause(&self, pause: Duration, end: Moment) -> bool {
        let until = self.context.clock.now().saturating_add(pause.max(RetryStrategy::MIN_DELAY));
        self.context.clock.sleep_until(until.min(end)).await;
        self.context.clock.now() < end
    }
}

/// The pause after so many failures in a row: longer each time, with jitter.
pub(super) fn failure_pause(failures: u32) -> Duration {
    let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
    let pause = FIRST_FAILURE_PAUSE.saturating_mul(factor).min(LONGEST_FAILURE_PAUSE);
    pause / 2 + jitter(pause / 2)
}

pub(super) fn jitter(span: Duration) -> Duration {
    span.mul_f64(f64::from(rt::chance()) / f64::from(u32::MAX))
}

/// Waiters of one lease that ended do not all come in the same instant.
const AFTER_LEASE_END: Duration = Duration::from_millis(10);
const ONE_TICK: Duration = Duration::from_millis(1);
const FIRST_FAILURE_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_FAILURE_PAUSE: Duration = Duration::from_millis(500);
