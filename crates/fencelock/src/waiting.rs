//! How a caller waits for a lock: it tries, then sleeps, and tries again.
//!
//! This is the one place that knows how waiting works; what is below it ([`attempt`]) tries once.
//! A queue with wakeups replaces the body of [`Pace::sleep`] and nothing else.

use std::{sync::Arc, time::Duration};

use fencelock_core::{Backoff, Busy, Moment, RetryStrategy};
use fencelock_store::rt;

use crate::{
    BusyView, Error, ErrorKind, Guard, HolderView, Mutex, Wait,
    attempt::{Tried, attempt},
    context::Context,
    error::rounded,
    plan::Plan,
};

/// A client that never reached its store gives up after this: its address is probably wrong.
const NEVER_REACHED_LIMIT: Duration = Duration::from_secs(2);

/// A try that had less time than this and got no answer is no sign that the store is gone.
const FAIR_TRY: Duration = Duration::from_millis(100);

/// Tries once, for at most one request's time.
pub(crate) async fn try_once(context: &Arc<Context>, plan: &Plan) -> Result<Tried, Error> {
    let limit = context.call_limit(Moment::NEVER);
    attempt(context, plan, limit).await
}

/// Waits until the lock is granted or the wait is over.
pub(crate) async fn lock(mutex: &Mutex, plan: &Plan) -> Result<Guard, Error> {
    let context = mutex.context();
    let start = context.clock.now();
    let end = match mutex.wait {
        Wait::Forever => Moment::NEVER,
        Wait::For(wait) if !wait.is_zero() => start.saturating_add(wait),
        Wait::For(_) | Wait::Never => return lock_at_once(mutex, plan).await,
    };
    let mut pace = Pace::new(context, &mutex.retry, end);
    let mut seen = Seen::default();
    loop {
        let give_up = start.saturating_add(NEVER_REACHED_LIMIT).min(end);
        let limit = if context.was_reached() { end } else { give_up };
        let tried_at = context.clock.now();
        let error = match attempt(context, plan, limit).await? {
            Tried::Granted(guard) => return Ok(guard),
            Tried::Busy(busy) => {
                let remaining = busy.holder.remaining;
                seen.busy(mutex, &busy);
                if !pace.sleep(remaining).await {
                    return Err(seen.wait_expired(context, plan, start));
                }
                continue;
            }
            Tried::Failed(error) => error,
        };
        // A try that the end of the wait cut off says nothing about the store, and what it may have
        // been granted is taken back: what was seen before counts.
        let now = context.clock.now();
        let was_cut_off = now >= end && now.saturating_since(tried_at) < FAIR_TRY;
        if was_cut_off && seen.last.is_some() && (error.is_unavailable() || error.is_unknown()) {
            return Err(seen.wait_expired(context, plan, start));
        }
        // A full store does not make room by itself: waiting for ever would only hide it.
        let hopeless = !context.was_reached() || error.kind() == ErrorKind::Full;
        if hopeless && context.clock.now() >= give_up {
            return Err(error);
        }
        if !pace.sleep_after_failure(if hopeless { give_up } else { end }).await {
            return Err(error);
        }
    }
}

async fn lock_at_once(mutex: &Mutex, plan: &Plan) -> Result<Guard, Error> {
    let context = mutex.context();
    let start = context.clock.now();
    match try_once(context, plan).await? {
        Tried::Granted(guard) => Ok(guard),
        Tried::Busy(busy) => {
            let mut seen = Seen::default();
            seen.busy(mutex, &busy);
            Err(seen.wait_expired(context, plan, start))
        }
        Tried::Failed(error) => Err(error),
    }
}

/// Spaces the tries of one wait.
struct Pace<'a> {
    context: &'a Context,
    backoff: Backoff<'a>,
    failures: u32,
    end: Moment,
}

impl<'a> Pace<'a> {
    fn new(context: &'a Context, retry: &'a RetryStrategy, end: Moment) -> Self {
        Self { context, backoff: retry.start(), failures: 0, end }
    }

    /// Sleeps until another try makes sense; false when the wait is over.
    async fn sleep(&mut self, holder_remaining: Option<Duration>) -> bool {
        self.failures = 0;
        let Some(pause) = self.backoff.next_delay(rt::chance()) else { return false };
        // The lease may end before the pause does; a little later, so that it really has.
        let after = jitter(AFTER_LEASE_END) + ONE_TICK;
        let lease_end = holder_remaining.map(|left| left.saturating_add(after));
        self.pause(pause.min(lease_end.unwrap_or(Duration::MAX)), self.end).await
    }

    /// Sleeps after a failure that may pass, for longer each time.
    async fn sleep_after_failure(&mut self, end: Moment) -> bool {
        let factor = 1u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures += 1;
        let pause = FIRST_FAILURE_PAUSE.saturating_mul(factor).min(LONGEST_FAILURE_PAUSE);
        self.pause(pause / 2 + jitter(pause / 2), end).await
    }

    async fn pause(&self, pause: Duration, end: Moment) -> bool {
        let until = self.context.clock.now().saturating_add(pause.max(RetryStrategy::MIN_DELAY));
        self.context.clock.sleep_until(until.min(end)).await;
        self.context.clock.now() < end
    }
}

fn jitter(span: Duration) -> Duration {
    span.mul_f64(f64::from(rt::chance()) / f64::from(u32::MAX))
}

/// Waiters of one lease that ended do not all come in the same instant.
const AFTER_LEASE_END: Duration = Duration::from_millis(10);
const ONE_TICK: Duration = Duration::from_millis(1);
const FIRST_FAILURE_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Who was seen holding the lock.
#[derive(Default)]
struct Seen {
    last: Option<BusyView>,
}

impl Seen {
    fn busy(&mut self, mutex: &Mutex, busy: &Busy) {
        let view = BusyView { name: busy.name.clone(), holder: HolderView::of(&busy.holder) };
        let same = self.last.as_ref().is_some_and(|last| is_same_grant(last, &view));
        if !same && let Some(on_busy) = &mutex.on_busy {
            on_busy(&view);
        }
        self.last = Some(view);
    }

    fn wait_expired(self, context: &Context, plan: &Plan, start: Moment) -> Error {
        let waited = rounded(context.clock.now().saturating_since(start));
        let Some(BusyView { name, holder }) = self.last else {
            return Error::new(ErrorKind::WaitExpired, format!("not granted within {waited}"));
        };
        let which = if plan.names().len() > 1 { format!("`{name}` is ") } else { String::new() };
        let own = context
            .keeper
            .leases()
            .into_iter()
            .find(|cell| cell.is_valid() && cell.fixed.names.iter().any(|own| *own == name));
        let by = match own {
            Some(cell) => {
                format!("held by this process itself, since {} ago", rounded(cell.age()))
            }
            None => format!("held by {holder}"),
        };
        Error::new(ErrorKind::WaitExpired, format!("not granted within {waited}: {which}{by}"))
            .with_names(plan.names())
            .with_store(&context.display)
            .with_holder(holder)
    }
}

/// Whether two answers are about the same hold; the remaining time differs in any case.
fn is_same_grant(a: &BusyView, b: &BusyView) -> bool {
    let (x, y) = (&a.holder, &b.holder);
    let same_process = x.host == y.host && x.pid == y.pid && x.label == y.label;
    a.name == b.name && same_process && x.fencing_token == y.fencing_token
}
