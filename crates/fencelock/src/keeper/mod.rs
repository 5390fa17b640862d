//! The keeper: one thread for each client that renews leases, tells holders at the deadline that
//! they lost, and gives back what dropped guards and dropped requests left behind.
//!
//! It does not depend on the user's runtime yielding, or living. A lease that lives for 30 us costs
//! two short locks here and does not wake the thread, unless it is due before anything else.
//!
//! ```text
//!   guards ---- register, remove ---> [ leases ] --- due ---> batches of renewals, a few at once
//!                                          | deadline
//!                                          v  lost
//!   guards, requests --- push ------> [ jobs   ] --- due ---> releases, a bounded number of tasks
//! ```
//! A turn of the thread touches what is due and what came since the last one, nothing else.
//! The thread starts when it is first needed, and ends when no client is left and nothing is to do.

mod class;
mod job;
mod jobs;
mod leases;
mod renewals;
mod slab;
mod thread;
mod timers;

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fencelock_core::{LeaseState, LossReason, Moment, RenewalSchedule};
use fencelock_store::rt;

pub(crate) use self::job::{Copies, Job};
use self::{
    jobs::Jobs,
    leases::{Due, Leases},
    timers::Timer,
};
use crate::{
    Error, ErrorKind,
    cell::{LeaseCell, Look},
    context::Context,
};

#[derive(Default)]
pub(crate) struct Keeper {
    state: Mutex<State>,
    /// The context that it is part of.
    context: OnceLock<Weak<Context>>,
    wake: rt::sync::Notify,
    drained: Condvar,
    drained_async: rt::sync::Notify,
    renewals: AtomicU64,
}

#[derive(Default)]
struct State {
    running: bool,
    leases: Leases,
    /// When the thread looks again; earlier leases have to wake it.
    next: Moment,
    jobs: Jobs,
    clients_gone: bool,
}

/// What the thread has to do now.
struct Turn {
    jobs: Vec<Job>,
    due: Vec<Due>,
    next: Moment,
    /// Nothing will ever come again.
    over: bool,
}

impl Keeper {
    /// Tells it which context it is part of: once, when that is made.
    pub(crate) fn attach(&self, context: &Arc<Context>) {
        let _first = self.context.set(Arc::downgrade(context));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, unless it runs: before the first request whose outcome it may have to
    /// clear up.
    pub(crate) fn start(&self) -> Result<(), Error> {
        self.ensure(&mut self.state())
    }

    fn ensure(&self, state: &mut State) -> Result<(), Error> {
        if state.running {
            return Ok(());
        }
        let Some(context) = self.context.get().and_then(Weak::upgrade) else {
            return Err(Error::new(ErrorKind::Closed, "the client is gone"));
        };
        let run = move || -> thread::Run { Box::pin(thread::run(context)) };
        rt::spawn_thread("fencelock-keeper", run).map_err(|error| {
            let what = format!("the system gives no thread to keep locks with: {error}");
            Error::new(ErrorKind::Internal, what)
        })?;
        state.running = true;
        state.next = Moment::START;
        Ok(())
    }

    /// Looks after a lease from now on. `due` is when the thread has to know of it: what is to be
    /// done, the cell says then.
    pub(crate) fn register(&self, cell: &Arc<LeaseCell>, due: Moment) -> Result<(), Error> {
        let mut state = self.state();
        self.ensure(&mut state)?;
        state.leases.insert(cell);
        self.look_at(state, due);
        Ok(())
    }

    /// The lease may be due earlier than was planned.
    pub(crate) fn reschedule(&self, cell: &LeaseCell) {
        let Some(schedule) = self.context.get().and_then(Weak::upgrade).map(|it| it.schedule())
        else {
            return;
        };
        let mut state = self.state();
        let due = state.leases.reschedule(cell, schedule);
        self.look_at(state, due);
    }

    /// Many leases may be due earlier than was planned.
    pub(crate) fn reschedule_all(&self) {
        let mut state = self.state();
        state.leases.begin_anew();
        self.look_at(state, Moment::START);
    }

    /// Wakes the thread, if it would look later than at `due`.
    fn look_at(&self, mut state: MutexGuard<'_, State>, due: Moment) {
        let earlier = due < state.next;
        if earlier {
            state.next = due;
        }
        drop(state);
        if earlier {
            self.wake.notify_one();
        }
    }

    /// Forgets a lease: nothing renews it after this, except what was sent already.
    pub(crate) fn remove(&self, cell: &LeaseCell) {
        let mut state = self.state();
        let kept = state.leases.remove(cell);
        let last = state.clients_gone && state.leases.is_empty();
        drop(state);
        drop(kept);
        if last {
            self.wake.notify_one();
        }
    }

    /// Takes over a release.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state();
        if let Err(error) = self.ensure(&mut state) {
            drop(state);
            tracing::warn!(lock = %job.names(), %error, "a lock can't be given back before its ttl");
            return;
        }
        state.jobs.push(job);
        self.look_at(state, Moment::START);
    }

    /// All leases that are looked after.
    pub(crate) fn leases(&self) -> Vec<Arc<LeaseCell>> {
        self.state().leases.cells().map(Arc::clone).collect()
    }

    /// What is to do at `now`.
    fn turn(&self, schedule: RenewalSchedule, now: Moment) -> Turn {
        let chance = rt::chance();
        let mut state = self.state();
        let jobs = state.jobs.start(now);
        let due = state.leases.take(schedule, now, chance);
        let next = state.jobs.next().min(state.leases.next());
        let over = state.clients_gone && state.leases.is_empty() && state.jobs.is_empty();
        state.running = !over;
        state.next = next;
        Turn { jobs, due, next, over }
    }

    /// A batch, or what was left of it, has ended: when its leases are due again, and the place
    /// that it had.
    fn finished(&self, place: Option<u32>, looks: &[(Timer, Look)], now: Moment) {
        let mut state = self.state();
        let mut due = Moment::NEVER;
        for (timer, look) in looks {
            due = due.min(state.leases.settle(*timer, look, now));
        }
        if place.is_some_and(|place| state.leases.finished(place)) {
            due = Moment::START;
        }
        self.look_at(state, due);
    }

    /// A try of a job has ended: with another one to come, or for good.
    fn tried(&self, again: Option<(Moment, Job)>) {
        let mut state = self.state();
        let was_full = state.jobs.ended();
        let due = again.as_ref().map_or(Moment::NEVER, |(due, _)| *due);
        if let Some((due, job)) = again {
            state.jobs.push_later(due, job);
        }
        let drained = state.jobs.is_empty();
        let last = drained && state.clients_gone;
        self.look_at(state, if was_full || last { Moment::START } else { due });
        if drained {
            self.drained.notify_all();
            self.drained_async.notify_waiters();
        }
    }

    /// No client is left: flushes what is pending, for at most so long, and lets the thread end
    /// when the last guard is gone.
    pub(crate) fn clients_gone(&self, limit: Duration) {
        let end = rt::monotonic_now().saturating_add(limit);
        let mut state = self.state();
        state.clients_gone = true;
        if state.running {
            self.wake.notify_one();
        }
        while !state.jobs.is_empty() {
            let left = end.saturating_since(rt::monotonic_now());
            if left.is_zero() {
                break;
            }
            let waited = self.drained.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until no job is pending, for at most so long.
    pub(crate) async fn drain(&self, limit: Duration) {
        let drained = async {
            loop {
                let notified = self.drained_async.notified();
                rt::pin!(notified);
                notified.as_mut().enable();
                if self.state().jobs.is_empty() {
                    return;
                }
                notified.await;
            }
        };
        let _in_time = rt::timeout(limit, drained).await;
    }

    /// Ends all leases, since the client is closed.
    pub(crate) fn close(&self, context: &Context) {
        for cell in self.leases() {
            if matches!(cell.state(), LeaseState::Held | LeaseState::Suspect) {
                context.lose(&cell, LossReason::Closed);
            } else {
                context.lose(&cell, LossReason::Expired);
            }
        }
    }

    pub(crate) fn count_renewals(&self, count: usize) {
        self.renewals.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Keeper")
            .field("running", &state.running)
            .field("leases", &state.leases.len())
            .field("pending", &state.jobs.len())
            .field("renewals", &self.renewals)
            .finish_non_exhaustive()
    }
}
