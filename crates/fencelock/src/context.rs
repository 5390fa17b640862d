//! What all parts of one client share: the store, its clock and offset, settings, the keeper.

use std::{
    fmt,
    future::Future,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fencelock_core::{
    Binding, ClockStep, Drift, LossReason, Mode, Moment, NotHeld, ProcessId, RenewalSchedule,
    Retain, RetryStrategy, StoreOffset, StoreTime,
};
use fencelock_store::{Clock, Reply, Store, StoreError, StoreErrorKind, StoreResult, rt};

use crate::{
    Error, ErrorKind,
    cell::LeaseCell,
    keeper::{Job, Keeper},
    line::Lines,
    listening::Ears,
    metadata,
    telemetry::Meter,
    waiting::Contested,
};

/// The settings of a client.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) drift: Drift,
    pub(crate) request_timeout: Duration,
    pub(crate) retain: Retain,
    pub(crate) label: Option<String>,
    /// How tries are spaced where the store keeps no line and the caller does not say.
    pub(crate) retry: RetryStrategy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            drift: Drift::DEFAULT,
            request_timeout: Duration::from_secs(1),
            retain: Retain::DEFAULT,
            label: None,
            retry: RetryStrategy::default(),
        }
    }
}

pub(crate) struct Context {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) keeper: Keeper,
    /// Where the store's messages arrive.
    pub(crate) ears: Ears,
    /// Who waits for which name inside this process.
    pub(crate) lines: Lines,
    /// Which locks others wanted too, where no line is kept.
    pub(crate) contested: Contested,
    /// The store as messages call it: without its password.
    pub(crate) display: Arc<str>,
    /// Measures what no lock of a class is the cause of.
    pub(crate) meter: Meter,
    /// Tells stores apart when one task nests locks.
    pub(crate) identity: Arc<str>,
    /// The lines of metadata that describe this process.
    pub(crate) own_metadata: String,
    pub(crate) process: u32,
    /// This process as a store on the same machine sees it. Read when first needed, and once:
    /// a look at `/proc` costs more than a lock.
    this_process: OnceLock<Option<ProcessId>>,
    offset: Mutex<StoreOffset>,
    /// When the question was sent whose answer told the last step forward of the store's clock, in
    /// nanoseconds; and how far it has stepped in all, in microseconds.
    step_seen: AtomicU64,
    stepped: AtomicU64,
    /// The store's time is one for all names.
    one_clock: bool,
    reached: AtomicBool,
    closed: AtomicBool,
    /// How many releases of unknown grants run outside the keeper.
    pub(crate) taking_back: AtomicUsize,
}

/// An answer, or that there was none, and when the question was sent.
pub(crate) struct Asked<A> {
    pub(crate) sent: Moment,
    /// When the answer was there, where that had to be known.
    pub(crate) received: Option<Moment>,
    pub(crate) result: Result<Reply<A>, StoreError>,
}

impl Context {
    pub(crate) fn new(store: Arc<dyn Store>, settings: Settings, identity: Option<&str>) -> Self {
        let display = store.to_string();
        // Two stores in memory look the same and are not.
        let address = || format!("{:p}", Arc::as_ptr(&store).cast::<()>());
        let identity = identity.map_or_else(address, str::to_owned);
        let process = rt::process_id();
        Self {
            clock: store.clock(),
            one_clock: store.capabilities().one_clock,
            store,
            settings,
            keeper: Keeper::default(),
            ears: Ears::default(),
            lines: Lines::default(),
            meter: Meter::of_store(&display),
            contested: Contested::default(),
            display: Arc::from(display),
            identity: Arc::from(identity),
            own_metadata: metadata::own(crate::process::host_name().as_deref(), process),
            process,
            this_process: OnceLock::new(),
            offset: Mutex::new(StoreOffset::new()),
            step_seen: AtomicU64::new(0),
            stepped: AtomicU64::new(0),
            reached: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            taking_back: AtomicUsize::new(0),
        }
    }

    /// Sends a request and learns from its answer.
    pub(crate) async fn ask<A>(&self, call: impl Future<Output = StoreResult<A>>) -> Asked<A> {
        self.ask_at(self.clock.now(), call).await
    }

    /// The same, with a look at the clock that the caller has just taken.
    pub(crate) async fn ask_at<A>(
        &self,
        sent: Moment,
        call: impl Future<Output = StoreResult<A>>,
    ) -> Asked<A> {
        // `sent` is before the request is handed over: all validity counts from there.
        let result = call.await;
        let mut received = None;
        match &result {
            Ok(reply) => {
                self.note_reached();
                if let Some(at) = reply.at {
                    let now = self.clock.now();
                    // Clocks of several servers differ without any of them having stepped.
                    if self.one_clock {
                        self.learn_offset(at, sent, now);
                    }
                    received = Some(now);
                }
            }
            Err(error) if error.kind() == StoreErrorKind::Denied || error.is_of_a_part() => {
                self.note_reached();
            }
            Err(_) => {}
        }
        Asked { sent, received, result }
    }

    fn note_reached(&self) {
        // The first answer is rare, and a write would take the line from the caches of others.
        if !self.was_reached() {
            self.reached.store(true, Ordering::Relaxed);
        }
    }

    fn learn_offset(&self, at: StoreTime, sent: Moment, received: Moment) {
        // An answer that was overtaken by the one that told a step may show the clock as it was
        // before: it would pass for a step back, and the next one for another step forward.
        if sent.as_nanos() < self.step_seen.load(Ordering::SeqCst) {
            return;
        }
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let step = offset.handle_answer(at, sent, received);
        drop(offset);
        if let Some(step) = step {
            self.meter.clock_stepped(step);
        }
        match step {
            Some(ClockStep::Forward(by)) => {
                tracing::warn!(store = %self.display, ?by, "the clock of the store stepped forward");
                // First, so that a lease that is registered now is either found here or finds it.
                let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                self.stepped.fetch_add(micros, Ordering::SeqCst);
                self.step_seen.fetch_max(sent.as_nanos(), Ordering::SeqCst);
                for cell in self.keeper.leases() {
                    if cell.clock_stepped(by, sent) {
                        self.lose(&cell, LossReason::ClockStep);
                    }
                }
                self.keeper.reschedule_all();
            }
            Some(ClockStep::Back(by)) => {
                tracing::warn!(store = %self.display, ?by, "the clock of the store stepped back");
            }
            _ => {}
        }
    }

    /// A lease was registered that may have been granted before a step that is known by now.
    pub(crate) fn catch_up(&self, cell: &Arc<LeaseCell>) {
        let seen = self.step_seen.load(Ordering::SeqCst);
        if seen == 0 {
            return;
        }
        let by = Duration::from_micros(self.stepped.load(Ordering::SeqCst));
        let end = cell.deadline();
        if cell.clock_stepped(by, Moment::from_nanos(seen)) {
            self.lose(cell, LossReason::ClockStep);
        } else if cell.deadline() < end {
            self.keeper.reschedule(cell);
        }
    }

    /// The instant on the store's clock after which a request with this limit must not be carried
    /// out; nothing while the offset is not known.
    pub(crate) fn store_deadline(&self, by: Moment) -> Option<StoreTime> {
        let offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        // The offset itself may be wrong by as much as is not taken for a step.
        offset.latest_at(by.saturating_add(StoreOffset::STEP))
    }

    /// The end of a call that starts now and has to end at `limit` anyway.
    pub(crate) fn call_limit(&self, limit: Moment) -> Moment {
        self.call_limit_from(self.clock.now(), limit)
    }

    /// The same, with a look at the clock that the caller has just taken.
    pub(crate) fn call_limit_from(&self, now: Moment, limit: Moment) -> Moment {
        now.saturating_add(self.settings.request_timeout).min(limit)
    }

    pub(crate) fn schedule(&self) -> RenewalSchedule {
        RenewalSchedule::new(self.settings.request_timeout)
    }

    /// Whether the store ever answered.
    pub(crate) fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// What leases of this process are bound to.
    pub(crate) fn own_binding(&self) -> Binding {
        let this_process = self.this_process.get_or_init(crate::process::this_process);
        this_process.map_or(Binding::Unbound, |process| Binding::Processes(vec![process]))
    }

    /// Marks the client as closed; false when it was.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.process != rt::process_id()
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        let what = if self.is_forked() {
            "the client belongs to the process that was forked; connect anew in this one"
        } else if self.is_closed() {
            "the client was closed; connect anew"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Closed, what).with_store(&self.display))
    }

    pub(crate) fn store_error(&self, error: StoreError) -> Error {
        Error::from_store(error).with_store(&self.display)
    }

    /// Ends a lease for good: validity first, then the report, then what the store may still have.
    pub(crate) fn lose(&self, cell: &Arc<LeaseCell>, reason: LossReason) {
        if !cell.lose(reason) {
            return;
        }
        // The end of validity has a cause of its own.
        let reason = cell.loss();
        self.keeper.remove(cell);
        self.lines.lost(cell);
        self.report_loss(cell, reason);
        // Where the store itself said that nothing of a single name is left, there is nothing to
        // give back; of a set some names may still be ours.
        let gone = matches!(
            reason,
            LossReason::Disappeared
                | LossReason::ExpiredAtStore
                | LossReason::Taken
                | LossReason::Foreign
        );
        // A step that was taken stays: others may have gone on because of it.
        let stays = matches!(cell.fixed.mode, Mode::CountDown { .. });
        if !stays && (!gone || cell.fixed.names.len() > 1) {
            self.keeper.push(Job::of_lease(cell));
        }
        // The next of this process asks the store, though the guard may live on. This runs the
        // wakers of users: see `report_loss`.
        let turn = AssertUnwindSafe(cell.end_turn());
        let _panicked = panic::catch_unwind(|| drop(turn));
    }

    /// Says once that a lease was lost.
    pub(crate) fn report_loss(&self, cell: &LeaseCell, reason: LossReason) {
        cell.shared.meter.get().lost(reason);
        // A subscriber is the user's code: its panic must not stop the renewal of other leases.
        let report = AssertUnwindSafe(|| {
            tracing::warn!(
                lock = %cell.fixed.names,
                store = %self.display,
                fencing = cell.fencing_token().map(u64::from),
                held = ?cell.age(),
                %reason,
                "a lock was lost"
            );
        });
        let _panicked = panic::catch_unwind(report);
    }
}

/// What a store's "not held" means for the holder.
pub(crate) fn loss_reason(why: &NotHeld) -> LossReason {
    match why {
        NotHeld::Taken => LossReason::Taken,
        NotHeld::Foreign(_) => LossReason::Foreign,
        NotHeld::Expired => LossReason::ExpiredAtStore,
        _ => LossReason::Disappeared,
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("store", &self.display)
            .field("settings", &self.settings)
            .field("keeper", &self.keeper)
            .field("lines", &self.lines.count())
            .field("listening", &self.ears)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
