//! How a caller waits for a lock.
//!
//! ```text
//!   one task of many here:   line of this process --> turn --> place at the store --> guard
//!   several names, strict, beside others:                      place at the store --> guard
//!   several nodes, no line:  try, sleep until told, try again (told)
//!   other libraries' locks:  try, sleep until told, try again (hinted)
//!   nobody tells anything:   try, sleep, try again (polling)
//! ```
//! Below this, [`attempt`] asks once.

mod contested;
mod hinted;
mod place;
mod polling;
mod told;
mod watch;

use std::sync::Arc;

use fencelock_core::Moment;
use fencelock_store::Hints;

pub use self::place::Position;
pub(crate) use self::{contested::Contested, place::Place, watch::Watch};
use crate::{
    Error, Guard, Mutex, Order,
    attempt::{Tried, attempt},
    context::Context,
    line::{Gift, Joined, Turn},
    plan::Plan,
    telemetry::Acquiring,
};

/// Tries once, for at most one request's time.
pub(crate) async fn try_once(context: &Arc<Context>, plan: &Plan) -> Result<Tried, Error> {
    let limit = context.call_limit(Moment::NEVER);
    attempt(context, plan, limit).await
}

/// Waits until the lock is granted or the wait is over.
pub(crate) async fn lock(
    mutex: &Mutex,
    plan: &Plan,
    acquiring: &mut Acquiring,
) -> Result<Guard, Error> {
    let span = mutex.wait.span();
    let mut watch = Watch::new(mutex, plan, span, acquiring);
    if span.is_some_and(|span| span.is_zero()) {
        return lock_at_once(watch).await;
    }
    let can = mutex.context().store.capabilities();
    match &mutex.retry {
        Some(retry) => polling::lock(&mut watch, retry).await,
        None if can.hints != Hints::None => hinted::lock(&mut watch, can.hints).await,
        None if !can.queue && can.wakeups => told::lock(&mut watch).await,
        None if !can.queue => polling::lock(&mut watch, &mutex.context().settings.retry).await,
        None if takes_turns(mutex, plan) => in_turn(watch).await,
        None => Place::new(mutex.context(), plan).granted(&mut watch).await,
    }
}

/// Whether the tasks of this process wait in a line of their own: where one lease can go from one to
/// the next.
fn takes_turns(mutex: &Mutex, plan: &Plan) -> bool {
    mutex.order == Order::Turns && plan.names().len() == 1 && plan.mode().is_exclusive()
}

async fn lock_at_once(mut watch: Watch<'_>) -> Result<Guard, Error> {
    watch.acquiring.asks();
    match try_once(watch.context, watch.plan).await? {
        Tried::Granted(guard) => Ok(guard),
        Tried::Busy(busy) => {
            watch.busy(&busy);
            Err(watch.expired())
        }
        Tried::Queued(queued, _) => {
            watch.busy(&queued.busy);
            Err(watch.expired())
        }
        Tried::Failed(error) | Tried::UsedUp(error) => Err(error),
    }
}

/// Waits in the line of this process, and at the store when it is our turn.
async fn in_turn(mut watch: Watch<'_>) -> Result<Guard, Error> {
    let context = watch.context;
    let (turn, place) = loop {
        let waiting = match context.lines.join(context, watch.plan) {
            Joined::First(turn) => break (turn, None),
            Joined::Behind(waiting) => waiting,
        };
        watch.acquiring.contended();
        if watch.mutex.on_busy.is_some()
            && let Some(view) = waiting.seen()
        {
            watch.see(view);
        }
        match waiting.gift(watch.end).await {
            Some(Gift::Guard(guard)) if guard.is_valid() => return Ok(guard),
            // It was passed on in time, and this task was woken too late: once more.
            Some(Gift::Guard(lost)) => drop(lost),
            Some(Gift::Turn(turn, place)) => break (turn, place),
            Some(Gift::Closed) => {
                context.check_open()?;
                return Err(watch.expired());
            }
            None => {
                if let Some(view) = waiting.seen() {
                    watch.see(view);
                }
                return Err(watch.expired());
            }
        }
    };
    let place = match place {
        Some(mut place) => {
            place.taken_over();
            place
        }
        None => Box::new(Place::new(context, watch.plan)),
    };
    let mut first = First { turn: Some(turn), place: Some(place) };
    first.granted(&mut watch).await
}

/// Waits at the store for a whole line. Whoever gives up leaves turn and place to the next.
struct First {
    turn: Option<Turn>,
    place: Option<Box<Place>>,
}

impl First {
    async fn granted(&mut self, watch: &mut Watch<'_>) -> Result<Guard, Error> {
        let Some(place) = &mut self.place else { return Err(watch.expired()) };
        let result = place.granted_in(watch, self.turn.as_ref()).await;
        let guard = result?;
        if let Some(turn) = self.turn.take() {
            guard.take_turn(turn);
        }
        Ok(guard)
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            turn.end(self.place.take().filter(|place| place.is_placed()));
        }
    }
}
