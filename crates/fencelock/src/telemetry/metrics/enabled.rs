//! What is measured, by name. Names and labels are part of the interface:
//! `docs/reference/metrics.md` lists them, and a test holds it to this file.
//!
//! Labels come from the program and never from its data: a class is a `&'static str`, a store is
//! its kind. The number of series stays what it was on the first day.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fencelock_core::{ClockStep, LossReason, Moment};
use fencelock_store::{Clock, rt};
use metrics::{
    Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

/// Which locks are counted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Class(&'static str);

impl Class {
    pub(crate) fn new(class: &'static str) -> Self {
        Self(class)
    }
}

impl Default for Class {
    fn default() -> Self {
        Self("default")
    }
}

/// Measures for one class of locks at one kind of store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    class: &'static str,
    store: &'static str,
}

impl Meter {
    pub(crate) fn of_store(display: &str) -> Self {
        Self { class: Class::default().0, store: kind_of(display) }
    }

    pub(crate) fn of_class(self, class: Class) -> Self {
        Self { class: class.0, ..self }
    }

    /// A hold has ended: whose it was, and how long it was.
    pub(crate) fn held(ended: impl FnOnce() -> (Self, Duration)) {
        let (Self { class, store }, span) = ended();
        quietly(|| histogram!(HOLD, "class" => class, "store" => store).record(span));
    }

    pub(crate) fn lost(self, reason: LossReason) {
        let Self { class, store } = self;
        let reason = reason_of(reason);
        quietly(|| {
            counter!(LOST, "class" => class, "store" => store, "reason" => reason).increment(1);
        });
    }

    pub(crate) fn renewal_failed(self) {
        let Self { class, store } = self;
        quietly(|| counter!(RENEW_FAILURES, "class" => class, "store" => store).increment(1));
    }

    pub(crate) fn clock_stepped(self, step: ClockStep) {
        let direction = match step {
            ClockStep::Forward(_) => "forward",
            _ => "back",
        };
        let store = self.store;
        quietly(|| {
            counter!(CLOCK_STEPS, "store" => store, "direction" => direction).increment(1);
        });
    }
}

/// The meter of whoever holds a lease now.
#[derive(Debug)]
pub(crate) struct MeterCell(Mutex<Meter>);

impl MeterCell {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Meter::of_store("")))
    }

    pub(crate) fn set(&self, meter: Meter) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = meter;
    }

    pub(crate) fn get(&self) -> Meter {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Measures one acquire.
pub(crate) struct Timer {
    meter: Meter,
    clock: Clock,
    began: Moment,
    process: Process,
}

impl Timer {
    pub(crate) fn begin(meter: Meter, clock: &Clock) -> Self {
        Self { meter, clock: clock.clone(), began: clock.now(), process: Process::this() }
    }

    pub(crate) fn meter(&self) -> Meter {
        self.meter
    }

    pub(crate) fn acquired(&self, outcome: &'static str) {
        if self.process.is_another() {
            return;
        }
        let Meter { class, store } = self.meter;
        let span = self.clock.now().saturating_since(self.began);
        quietly(|| {
            histogram!(ACQUIRE, "class" => class, "store" => store, "outcome" => outcome)
                .record(span);
        });
    }
}

/// One that waits, for as long as this lives.
pub(crate) struct Waiting {
    /// The very gauge that was raised: a recorder that is installed meanwhile has another.
    gauge: Option<Gauge>,
    process: Process,
}

impl Waiting {
    pub(crate) fn begin(meter: Meter) -> Self {
        let Meter { class, store } = meter;
        quietly(|| counter!(CONTENDED, "class" => class, "store" => store).increment(1));
        let raised = quietly(|| {
            let gauge = gauge!(WAITERS, "class" => class, "store" => store);
            gauge.increment(1.0);
            gauge
        });
        Self { gauge: raised, process: Process::this() }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(gauge) = self.gauge.take().filter(|_| !self.process.is_another()) {
            quietly(|| gauge.decrement(1.0));
        }
    }
}

/// Where something began. What is dropped in a forked process belongs to the parent, and a recorder
/// that was locked at the fork stays locked there for ever.
#[derive(Clone, Copy, Debug)]
struct Process(u32);

impl Process {
    fn this() -> Self {
        Self(rt::process_id())
    }

    fn is_another(self) -> bool {
        self.0 != rt::process_id()
    }
}

/// Tells the installed recorder what each measurement is, in words. Call it once, after a recorder
/// was installed; without it, names and values are the same and have no help text.
///
/// `docs/reference/metrics.md` has the same words.
///
/// # Examples
/// ```
/// // After the recorder of your exporter was installed:
/// fencelock::describe_metrics();
/// ```
pub fn describe_metrics() {
    use metrics::Unit;

    describe_histogram!(ACQUIRE, Unit::Seconds, "from the call to its end, by outcome");
    describe_histogram!(HOLD, Unit::Seconds, "from the grant to the release, or the loss");
    describe_counter!(CONTENDED, "acquires that found the lock busy");
    describe_gauge!(WAITERS, "callers of this process that wait for a busy lock");
    describe_counter!(LOST, "leases that were lost while they were held, by reason");
    describe_counter!(RENEW_FAILURES, "renewals without an answer; most are made up for");
    describe_counter!(CLOCK_STEPS, "steps of the store's clock that were noticed");
}

const ACQUIRE: &str = "fencelock_acquire_seconds";
const HOLD: &str = "fencelock_hold_seconds";
const CONTENDED: &str = "fencelock_contended_total";
const WAITERS: &str = "fencelock_waiters";
const LOST: &str = "fencelock_lease_lost_total";
const RENEW_FAILURES: &str = "fencelock_renew_failures_total";
const CLOCK_STEPS: &str = "fencelock_clock_steps_total";

/// A recorder is the user's code: its panic must not stop the renewal of leases, nor a release.
fn quietly<T>(record: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(record)).ok()
}

/// The kind of a store, of which there are few, by what it calls itself.
fn kind_of(display: &str) -> &'static str {
    const KINDS: [&str; 4] = ["redis", "sqlite", "quorum", "memory"];
    KINDS.into_iter().find(|kind| display.starts_with(kind)).unwrap_or("other")
}

fn reason_of(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::Disappeared => "disappeared",
        LossReason::ExpiredAtStore => "expired_at_store",
        LossReason::Taken => "taken",
        LossReason::Foreign => "foreign",
        LossReason::ClockStep => "clock_step",
        LossReason::Closed => "closed",
        LossReason::Forked => "forked",
        LossReason::MaxHold => "max_hold",
        LossReason::NoProgress => "no_progress",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_its_kind_and_a_store_of_ones_own_is_other() {
        for (display, kind) in [
            ("redis://127.0.0.1:6379/0 (native)", "redis"),
            ("rediss://host/0 (plain)", "redis"),
            ("redis+cluster://a,b/ (native)", "redis"),
            ("sqlite:/run/locks.db", "sqlite"),
            ("quorum(3: redis://a, redis://b, memory:)", "quorum"),
            ("memory:", "memory"),
            ("etcd://host", "other"),
            ("", "other"),
        ] {
            assert_eq!(kind_of(display), kind, "{display}");
        }
    }
}
