//! The tasks of this process that wait for one name: first come, first served, and only the first
//! of them waits at the store.
//!
//! ```text
//!   Turn: the first of the line, waiting at the store or holding the lock
//!     | release: the lease itself, with the next fencing token     (pass_on)
//!     | release, bounds reached: the turn only; the lease goes to the store
//!     | gave up waiting: the turn, and its place in the line at the store
//!     v
//!   waiters [ next | .. | last ]
//! ```
//! A gift that nobody takes (its task was dropped) is passed on by its own drop.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fencelock_core::{AcquireRequest, ListenerId, LockName, Moment, RenewRequest, Renewed};
use fencelock_store::rt;

use crate::{
    BusyView, Guard, HolderView, cell::LeaseCell, context::Context, listening, plan::Plan,
    telemetry::Meter, waiting::Place,
};

/// The lines of a client.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<LockName, Arc<Line>>>);

/// The line of one name.
#[derive(Default)]
pub(crate) struct Line(Mutex<State>);

#[derive(Default)]
struct State {
    waiters: VecDeque<Arc<Waiter>>,
    /// How many of them are gone.
    gone: usize,
    /// The lease, while this process has it.
    cell: Weak<LeaseCell>,
    context: Option<Weak<Context>>,
    /// The turn that counts: another begins when a lease is lost and its guard still lives.
    turn: u64,
    /// Who else was last seen to hold the lock.
    seen: Option<BusyView>,
    /// How many fencing tokens the next lease shall have: more, while they do not last.
    range: u32,
}

impl State {
    /// A turn is over that passed the lease on so often. Tokens that nobody used put the name ahead
    /// of the store's clock, so the next range is not larger than twice what this turn needed.
    fn settle(&mut self, passes: u32) {
        let needed = passes.min(LARGEST_RANGE).saturating_mul(2).next_power_of_two();
        self.range = self.range.min(needed.max(FIRST_RANGE));
    }
}

/// The first range that is asked for when tasks queue up here, and the largest.
pub(crate) const FIRST_RANGE: u32 = 64;
const LARGEST_RANGE: u32 = AcquireRequest::MAX_RESERVE;

/// One task that waits behind another.
struct Waiter {
    slot: Mutex<Slot>,
    news: rt::sync::Notify,
    plan: Plan,
}

enum Slot {
    Waiting,
    Given(Gift),
    Gone,
}

/// What a waiter gets.
pub(crate) enum Gift {
    /// The lock.
    Guard(Guard),
    /// The turn, and perhaps a place at the store.
    Turn(Turn, Option<Box<Place>>),
    /// The client was closed.
    Closed,
}

/// How a task joins a line.
pub(crate) enum Joined {
    First(Turn),
    Behind(Waiting),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    /// Joins the line of a name.
    pub(crate) fn join(&self, context: &Arc<Context>, plan: &Plan) -> Joined {
        let name = plan.names().first();
        let mut lines = locked(&self.0);
        let line = match lines.entry(name.clone()) {
            Entry::Vacant(vacant) => {
                let line = Arc::clone(vacant.insert(Arc::default()));
                drop(lines);
                return Joined::First(Turn::new(context, name, line));
            }
            Entry::Occupied(occupied) => Arc::clone(occupied.get()),
        };
        let waiter = Arc::new(Waiter {
            slot: Mutex::new(Slot::Waiting),
            news: rt::sync::Notify::new(),
            plan: plan.clone(),
        });
        // Under the lock of the lines, so that it is not removed in between.
        let cell = {
            let mut state = locked(&line.0);
            state.waiters.push_back(Arc::clone(&waiter));
            state.cell.upgrade()
        };
        drop(lines);
        // It is a renewal too: only of a lease that may be passed on to this one.
        if let Some(cell) = cell.filter(|cell| plan.fits(cell)) {
            widen(context, &cell);
        }
        Joined::Behind(Waiting { context: Arc::clone(context), line, waiter })
    }

    /// A lease was lost. Its guard may live on for long, in a task that hangs: the line goes on
    /// without it, as others do at the store.
    pub(crate) fn lost(&self, cell: &Arc<LeaseCell>) {
        let name = cell.fixed.names.first();
        let Some(line) = locked(&self.0).get(name).map(Arc::clone) else { return };
        let mut state = locked(&line.0);
        let is_own = std::ptr::eq(state.cell.as_ptr(), Arc::as_ptr(cell));
        let context = state.context.as_ref().filter(|_| is_own).and_then(Weak::upgrade);
        let Some(context) = context else { return };
        state.turn += 1;
        let number = state.turn;
        drop(state);
        Turn(Some(Parts { context, name: name.clone(), line, number })).end(None);
    }

    /// How many names have a line here: those that this process holds or waits for.
    pub(crate) fn count(&self) -> usize {
        locked(&self.0).len()
    }

    /// Ends the waiting of everybody.
    pub(crate) fn close(&self) {
        let lines: Vec<_> = locked(&self.0).values().map(Arc::clone).collect();
        for line in lines {
            let waiters = {
                let mut state = locked(&line.0);
                state.gone = 0;
                std::mem::take(&mut state.waiters)
            };
            for waiter in waiters {
                // Whoever is gone needs no news.
                let _ = waiter.give(Gift::Closed);
            }
        }
    }
}

impl Waiter {
    /// Gives it something; back, when it is gone.
    fn give(&self, gift: Gift) -> Result<(), Gift> {
        let mut slot = locked(&self.slot);
        if !matches!(*slot, Slot::Waiting) {
            return Err(gift);
        }
        *slot = Slot::Given(gift);
        drop(slot);
        self.news.notify_one();
        Ok(())
    }

    fn is_gone(&self) -> bool {
        matches!(*locked(&self.slot), Slot::Gone)
    }
}

/// A task's wait behind others.
pub(crate) struct Waiting {
    context: Arc<Context>,
    line: Arc<Line>,
    waiter: Arc<Waiter>,
}

impl Waiting {
    /// Waits for a gift, until `end`.
    ///
    /// # Cancel safety
    /// Safe: what was given to a dropped wait is passed on.
    pub(crate) async fn gift(&self, end: Moment) -> Option<Gift> {
        loop {
            if self.context.is_forked() {
                return Some(Gift::Closed);
            }
            {
                let mut slot = locked(&self.waiter.slot);
                if let Slot::Given(_) = *slot
                    && let Slot::Given(gift) = std::mem::replace(&mut *slot, Slot::Gone)
                {
                    return Some(gift);
                }
            }
            let news = self.waiter.news.notified();
            if end == Moment::NEVER {
                news.await;
            } else if rt::first(news, self.context.clock.sleep_until(end)).await.is_none() {
                return None;
            }
        }
    }

    /// Who holds the lock, as far as is known here.
    pub(crate) fn seen(&self) -> Option<BusyView> {
        let state = locked(&self.line.0);
        let own = state.cell.upgrade();
        own.map(|cell| BusyView {
            position: None,
            name: cell.fixed.names.first().clone(),
            holder: HolderView::of(&cell.as_holder()),
        })
        .or_else(|| state.seen.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.context.is_forked() {
            // The line is the parent's, and whoever had its locks at the fork is not here.
            return;
        }
        let old = {
            // Under the lock of the line, so that whoever takes it out of there knows that it counts.
            let mut state = locked(&self.line.0);
            let old = std::mem::replace(&mut *locked(&self.waiter.slot), Slot::Gone);
            if matches!(old, Slot::Waiting) {
                state.gone += 1;
                if state.gone > 16 && state.gone > state.waiters.len() / 2 {
                    state.gone = 0;
                    state.waiters.retain(|waiter| !waiter.is_gone());
                }
            }
            old
        };
        // A gift goes on to the next, with no lock held; the turn with its place at the store.
        match old {
            Slot::Given(Gift::Turn(turn, place)) => {
                turn.end(place.filter(|place| place.is_placed()));
            }
            other => drop(other),
        }
    }
}

/// The right to wait at the store for the whole line, or to hold what was granted to it.
pub(crate) struct Turn(Option<Parts>);

struct Parts {
    context: Arc<Context>,
    name: LockName,
    line: Arc<Line>,
    /// Which turn of the line it is: it counts until another has begun.
    number: u64,
}

impl Turn {
    fn new(context: &Arc<Context>, name: &LockName, line: Arc<Line>) -> Self {
        Self(Some(Parts { context: Arc::clone(context), name: name.clone(), line, number: 0 }))
    }

    fn line(&self) -> Option<&Line> {
        self.0.as_ref().map(|parts| &*parts.line)
    }

    /// How many fencing tokens, besides its own, a lease for this line shall have: none, while
    /// nobody waits behind.
    pub(crate) fn reserve(&self) -> u32 {
        let Some(line) = self.line() else { return 0 };
        let state = locked(&line.0);
        if state.waiters.len() > state.gone { state.range.max(FIRST_RANGE) - 1 } else { 0 }
    }

    /// The lock was granted to this turn.
    pub(crate) fn holds(&self, cell: &Arc<LeaseCell>) {
        if let Some(line) = self.line() {
            let mut state = locked(&line.0);
            state.cell = Arc::downgrade(cell);
            state.seen = None;
            state.context = self.0.as_ref().map(|parts| Arc::downgrade(&parts.context));
        }
        if let Some(parts) = self.0.as_ref().filter(|_| cell.is_over()) {
            // It was lost before the line knew of it.
            parts.context.lines.lost(cell);
        }
    }

    /// Somebody else was seen to hold it.
    pub(crate) fn has_seen(&self, busy: &BusyView) {
        if let Some(line) = self.line() {
            locked(&line.0).seen = Some(busy.clone());
        }
    }

    /// Ends the turn: the next in line has it, and the place at the store, if it wants the same.
    pub(crate) fn end(mut self, place: Option<Box<Place>>) {
        self.hand_on(place);
    }

    fn hand_on(&mut self, mut place: Option<Box<Place>>) {
        let Some(mut parts) = self.0.take() else { return };
        if parts.context.is_forked() {
            // The line is the parent's, and whoever had its locks at the fork is not here.
            return;
        }
        loop {
            let next = {
                let mut state = locked(&parts.line.0);
                if state.turn != parts.number {
                    // Its lease was lost, and the line went on without it.
                    return;
                }
                state.cell = Weak::new();
                state.waiters.pop_front()
            };
            let Some(next) = next else {
                let mut lines = locked(&parts.context.lines.0);
                let state = locked(&parts.line.0);
                if state.turn != parts.number {
                    return;
                }
                if state.waiters.is_empty() {
                    lines.remove(&parts.name);
                    return;
                }
                continue;
            };
            if place.as_ref().is_some_and(|place| !place.fits(&next.plan)) {
                place = None;
            }
            match next.give(Gift::Turn(Self(Some(parts)), place)) {
                Ok(()) => return,
                Err(Gift::Turn(mut turn, back)) => {
                    place = back;
                    let Some(back) = turn.0.take() else { return };
                    parts = back;
                    let mut state = locked(&parts.line.0);
                    state.gone = state.gone.saturating_sub(1);
                }
                Err(_) => return,
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.hand_on(None);
    }
}

/// Passes the lease of a guard to the next in its line, without asking the store. True when it did:
/// the guard is over then.
pub(crate) fn pass_on(guard: &mut Guard) -> bool {
    let cell = Arc::clone(guard.cell());
    let Some(turn) = cell.end_turn() else { return false };
    let mut turn = Some(turn);
    while let Some(line) = turn.as_ref().and_then(Turn::line) {
        let mut state = locked(&line.0);
        while state.waiters.front().is_some_and(|waiter| waiter.is_gone()) {
            state.waiters.pop_front();
            state.gone = state.gone.saturating_sub(1);
        }
        let fits = state.waiters.front().is_some_and(|waiter| waiter.plan.fits(&cell));
        let hold = if fits { cell.pass() } else { None };
        if fits && hold.is_none() && cell.shared.is_used_up() {
            state.range = state.range.max(FIRST_RANGE).saturating_mul(2).min(LARGEST_RANGE);
        }
        let waiter = if hold.is_some() { state.waiters.pop_front() } else { None };
        drop(state);
        let (Some(hold), Some(waiter)) = (hold, waiter) else { break };
        Meter::held(|| guard.measured());
        let next = Guard::passed(Arc::clone(guard.context()), Arc::clone(&cell), hold);
        if let Some(turn) = turn.take() {
            cell.set_turn(turn);
        }
        match waiter.give(Gift::Guard(next)) {
            Ok(()) => {
                widen(guard.context(), &cell);
                return true;
            }
            Err(Gift::Guard(back)) => {
                // It went in this instant. The lease is ours again, as its newest hold.
                guard.take_over(back);
                turn = cell.end_turn();
                if let Some(line) = turn.as_ref().and_then(Turn::line) {
                    let mut state = locked(&line.0);
                    state.gone = state.gone.saturating_sub(1);
                }
            }
            Err(_) => return true,
        }
    }
    if let Some(turn) = turn {
        if let Some(line) = turn.line() {
            locked(&line.0).settle(cell.shared.passes());
        }
        cell.set_turn(turn);
    }
    false
}

/// Fetches more fencing tokens for a lease that tasks queue for, in the runtime of the caller.
fn widen(context: &Arc<Context>, cell: &Arc<LeaseCell>) {
    let Some(count) = cell.shared.wants_range() else { return };
    let (context, cell) = (Arc::clone(context), Arc::clone(cell));
    rt::try_spawn(Widening { cell, count, last: None }.run(context));
}

/// A range that is being fetched. However that ends, also with its runtime, another may be fetched
/// afterwards.
struct Widening {
    cell: Arc<LeaseCell>,
    count: u32,
    last: Option<fencelock_core::FencingToken>,
}

impl Widening {
    async fn run(mut self, context: Arc<Context>) {
        let listener = listening::begin(&context, &self.cell).await;
        self.last = fetch(&context, &self.cell, self.count, listener).await;
    }
}

impl Drop for Widening {
    fn drop(&mut self) {
        self.cell.shared.widened(self.count, self.last);
    }
}

async fn fetch(
    context: &Context,
    cell: &LeaseCell,
    count: u32,
    listener: Option<ListenerId>,
) -> Option<fencelock_core::FencingToken> {
    let mut request: RenewRequest = cell.renew_request();
    request.reserve = count;
    request.listener = listener;
    let by = context.call_limit(cell.deadline());
    if !cell.renewal_sent(request.ttl, by) {
        return None;
    }
    let batch = [request];
    let asked = context.ask(context.store.renew(&batch, by)).await;
    match asked.result.ok()?.answer.into_iter().next()? {
        Renewed::Extended { remaining, last_fence, waiting, revoked } => {
            // It is a renewal too. Whether the lease still stands is the keeper's to find out.
            let _renewal = cell.renewed(remaining, asked.sent, context.clock.now());
            cell.learn(waiting, revoked);
            last_fence
        }
        _ => None,
    }
}
