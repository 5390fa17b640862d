//! Waiting where no line is kept, but holders say that they give a lock back: other libraries' locks.
//!
//! ```text
//!   ask --busy--> asleep --told, or the timer--> ask again, with the same token --granted--> guard
//! ```
//! Messages are hints, and not all holders send one: the timer runs until the lease in the way ought to
//! be over, and where some say nothing it is that of polling.

use std::{sync::Arc, time::Duration};

use fencelock_core::{Busy, PlaceRequest};
use fencelock_store::{Hints, rt};

use super::{
    polling::{Pace, jitter},
    watch::Watch,
};
use crate::{
    Error, Guard,
    attempt::{Armed, Tried},
    listening::{Mail, Routed},
};

/// Where all holders say so, a waiter looks this often all the same: the price of a message that was
/// lost.
const BEAT: Duration = Duration::from_secs(5);
/// Waiters of one lease that ended do not all come in the same instant.
const AFTER_LEASE_END: Duration = Duration::from_millis(10);
const ONE_TICK: Duration = Duration::from_millis(1);

/// Tries, and sleeps until it makes sense to try again, until the lock is granted or the wait is
/// over.
pub(super) async fn lock(watch: &mut Watch<'_>, hints: Hints) -> Result<Guard, Error> {
    let context = watch.context;
    let mut pace = Pace::new(context, &context.settings.retry, watch.end);
    let mut waiter = Waiter::default();
    loop {
        let tried_at = context.clock.now();
        watch.acquiring.asks();
        let error = match waiter.ask(watch).await? {
            Tried::Granted(guard) => return Ok(guard),
            Tried::Busy(busy) => {
                watch.busy(&busy);
                if waiter.opens_ear(watch).await {
                    continue;
                }
                // It is told nothing.
                if !pace.sleep(busy.holder.remaining).await {
                    return Err(watch.expired());
                }
                continue;
            }
            Tried::Queued(queued, _) => {
                watch.busy(&queued.busy);
                if !waiter.sleep(watch, &queued.busy, hints, &mut pace).await {
                    return Err(watch.expired());
                }
                continue;
            }
            Tried::Failed(error) => error,
            Tried::UsedUp(error) => {
                // The next token is told by a route of its own.
                (waiter.armed, waiter.route) = (None, None);
                error
            }
        };
        let error = watch.failed(error, tried_at)?;
        if !pace.sleep_after_failure(watch.patience(&error)).await {
            return Err(error);
        }
    }
}

/// One who waits, by one token until that is granted or used up.
#[derive(Default)]
struct Waiter {
    armed: Option<Armed>,
    mail: Arc<Mail>,
    route: Option<Routed>,
    /// It had to wait, so it listens.
    listens: bool,
}

impl Waiter {
    async fn ask(&mut self, watch: &Watch<'_>) -> Result<Tried, Error> {
        let (context, plan) = (watch.context, watch.plan);
        context.check_open()?;
        context.keeper.start()?;
        let ear = context.ears.live().filter(|_| self.listens);
        let armed = self
            .armed
            .get_or_insert_with(|| Armed::new(context, plan.fresh_request(), plan.manner));
        if let Some(ear) = &ear
            && self.route.as_ref().is_none_or(|route| !Arc::ptr_eq(route.ear(), ear))
        {
            // Before the question can leave: its turn may be told at once.
            self.route = Some(ear.expect(armed.request().token, &self.mail));
        }
        armed.hear_with(ear);
        if armed.request().listener.is_some() {
            armed.wish(PlaceRequest::new(plan.ttl(), BEAT), 0);
        }
        let now = context.clock.now();
        let asked = armed.send(now, context.call_limit_from(now, watch.limit())).await;
        match asked.result {
            Ok(reply) => {
                let received = asked.received.unwrap_or_else(|| context.clock.now());
                armed.answered(reply, asked.sent, received)
            }
            Err(error) => Ok(Tried::Failed(armed.failed(error)?)),
        }
    }

    /// Begins to listen, the first time or when the connection broke. Whether there is something new
    /// to ask by.
    async fn opens_ear(&mut self, watch: &Watch<'_>) -> bool {
        let context = watch.context;
        let was_live = self.listens && context.ears.live().is_some();
        self.listens = true;
        !was_live && watch.open_ear().await.is_some()
    }

    /// Sleeps until it makes sense to ask again; false when the wait is over.
    async fn sleep(
        &self,
        watch: &Watch<'_>,
        busy: &Busy,
        hints: Hints,
        pace: &mut Pace<'_>,
    ) -> bool {
        let remaining = busy.holder.remaining;
        if hints == Hints::All {
            let after = ONE_TICK + jitter(AFTER_LEASE_END);
            let lease_end = remaining.map_or(BEAT, |left| left.saturating_add(after));
            let clock = &watch.context.clock;
            let beat = BEAT - jitter(BEAT / 8);
            let until = clock.now().saturating_add(lease_end.min(beat)).min(watch.end);
            self.told(clock.sleep_until(until)).await;
            return !watch.is_over();
        }
        match self.told(pace.sleep(remaining)).await {
            Some(goes_on) => goes_on,
            None => !watch.is_over(),
        }
    }

    /// Sleeps until something is told; what the sleep came to, if nothing was.
    async fn told<T>(&self, sleep: impl Future<Output = T>) -> Option<T> {
        let told = async {
            loop {
                // A connection that broke tells us to ask, too.
                if self.mail.take().ask {
                    return;
                }
                self.mail.news().await;
            }
        };
        rt::first(sleep, told).await
    }
}
