//! One call that waits: how long, and what it saw meanwhile.

use std::{sync::Arc, time::Duration};

use fencelock_core::{Busy, Moment, Queued};

use crate::{
    BusyView, Error, ErrorKind, HolderView, Mutex, Position, context::Context, error::rounded,
    listening::Ear, plan::Plan, telemetry::Acquiring,
};

/// A client that never reached its store gives up after this: its address is probably wrong.
const NEVER_REACHED_LIMIT: Duration = Duration::from_secs(2);

/// A try that had less time than this and got no answer is no sign that the store is gone.
const FAIR_TRY: Duration = Duration::from_millis(100);

/// A wait.
pub(crate) struct Watch<'a> {
    pub(super) context: &'a Arc<Context>,
    pub(super) mutex: &'a Mutex,
    pub(super) plan: &'a Plan,
    pub(super) acquiring: &'a mut Acquiring,
    start: Moment,
    pub(super) end: Moment,
    seen: Option<BusyView>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        mutex: &'a Mutex,
        plan: &'a Plan,
        wait: Option<Duration>,
        acquiring: &'a mut Acquiring,
    ) -> Self {
        let context = mutex.context();
        let start = context.clock.now();
        let end = wait.map_or(Moment::NEVER, |wait| start.saturating_add(wait));
        Self { context, mutex, plan, acquiring, start, end, seen: None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end != Moment::NEVER && self.context.clock.now() >= self.end
    }

    /// Until when a question may take.
    pub(super) fn limit(&self) -> Moment {
        if self.context.was_reached() { self.end } else { self.give_up() }
    }

    /// Has this runtime listen. Nothing where that can't be, or is not known by the end of the wait:
    /// another wait, with more time, may be making the subscription.
    pub(super) async fn open_ear(&self) -> Option<Arc<Ear>> {
        let context = self.context;
        let by = context.call_limit(self.end);
        context.clock.until(by, context.ears.open(context, by)).await.flatten()
    }

    fn give_up(&self) -> Moment {
        self.start.saturating_add(NEVER_REACHED_LIMIT).min(self.end)
    }

    /// Somebody else has the lock.
    pub(super) fn busy(&mut self, busy: &Busy) -> &BusyView {
        self.see(BusyView::of(busy))
    }

    /// The same, from a place in its line.
    pub(super) fn queued(&mut self, queued: &Queued) -> &BusyView {
        let position = Position { place: queued.position, waiting: queued.busy.holder.waiting };
        self.see(BusyView { position: Some(position), ..BusyView::of(&queued.busy) })
    }

    pub(super) fn see(&mut self, view: BusyView) -> &BusyView {
        self.acquiring.contended();
        let same = self.seen.as_ref().is_some_and(|last| says_the_same(last, &view));
        if !same && let Some(on_busy) = &self.mutex.on_busy {
            on_busy(&view);
        }
        self.seen.insert(view)
    }

    /// A question failed for a reason that may pass: the error, if it makes sense to ask again.
    pub(super) fn failed(&mut self, error: Error, tried_at: Moment) -> Result<Error, Error> {
        let now = self.context.clock.now();
        // A try that the end of the wait cut off says nothing about the store, and what it may have
        // been granted is taken back: what was seen before counts.
        let was_cut_off = now >= self.end && now.saturating_since(tried_at) < FAIR_TRY;
        let unasked = error.is_unavailable() || error.is_no_quorum() || error.is_unknown();
        if was_cut_off && self.seen.is_some() && unasked {
            return Err(self.expired());
        }
        if self.is_hopeless(&error) && now >= self.give_up() {
            return Err(error);
        }
        Ok(error)
    }

    /// Until when such a failure is worth another try.
    pub(super) fn patience(&self, error: &Error) -> Moment {
        if self.is_hopeless(error) { self.give_up() } else { self.end }
    }

    /// A full store does not make room by itself, and replicas that are gone rarely come back by
    /// themselves: waiting for ever would only hide it.
    fn is_hopeless(&self, error: &Error) -> bool {
        let is_stuck = matches!(error.kind(), ErrorKind::Full | ErrorKind::NotAcknowledged);
        !self.context.was_reached() || is_stuck
    }

    /// The error of a wait that is over.
    pub(super) fn expired(&mut self) -> Error {
        let (context, plan) = (self.context, self.plan);
        let waited = rounded(context.clock.now().saturating_since(self.start));
        let Some(BusyView { name, holder, .. }) = self.seen.take() else {
            let what = format!("not granted within {waited}");
            return Error::new(ErrorKind::WaitExpired, what)
                .with_names(plan.names())
                .with_store(&context.display);
        };
        let which = if plan.names().len() > 1 { format!("`{name}` is ") } else { String::new() };
        let own = context
            .keeper
            .leases()
            .into_iter()
            .filter(|_| holder.sharing.is_none())
            .find(|cell| cell.is_valid() && cell.fixed.names.iter().any(|own| *own == name));
        let by = match own {
            Some(cell) => {
                format!("held by this process itself, since {} ago", rounded(cell.age()))
            }
            None => holder.situation(),
        };
        Error::new(ErrorKind::WaitExpired, format!("not granted within {waited}: {which}{by}"))
            .with_names(plan.names())
            .with_store(&context.display)
            .with_holder(holder)
    }
}

/// Whether two answers say the same; the remaining time differs in any case.
fn says_the_same(a: &BusyView, b: &BusyView) -> bool {
    let (x, y) = (&a.holder, &b.holder);
    let same_process = x.host == y.host && x.pid == y.pid && x.label == y.label;
    let same_hold = a.name == b.name && same_process && x.fencing_token == y.fencing_token;
    let taken = |view: &HolderView| view.sharing.as_ref().map(|s| (s.holders, s.used));
    same_hold && a.position == b.position && taken(x) == taken(y)
}
