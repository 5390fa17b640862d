//! Nothing is measured.

use std::time::Duration;

use fencelock_core::{ClockStep, LossReason};
use fencelock_store::Clock;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Class(());

impl Class {
    pub(crate) fn new(_: &'static str) -> Self {
        Self(())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter;

impl Meter {
    pub(crate) fn of_store(_: &str) -> Self {
        Self
    }

    pub(crate) fn of_class(self, _: Class) -> Self {
        self
    }

    pub(crate) fn held(_: impl FnOnce() -> (Self, Duration)) {}

    pub(crate) fn lost(self, _: LossReason) {}

    pub(crate) fn renewal_failed(self) {}

    pub(crate) fn clock_stepped(self, _: ClockStep) {}
}

#[derive(Debug)]
pub(crate) struct MeterCell;

impl MeterCell {
    pub(crate) fn new() -> Self {
        Self
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn set(&self, _: Meter) {}

    #[allow(clippy::unused_self)]
    pub(crate) fn get(&self) -> Meter {
        Meter
    }
}

pub(crate) struct Timer;

impl Timer {
    pub(crate) fn begin(_: Meter, _: &Clock) -> Self {
        Self
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn meter(&self) -> Meter {
        Meter
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn acquired(&self, _: &'static str) {}
}

pub(crate) struct Waiting;

impl Waiting {
    pub(crate) fn begin(_: Meter) -> Self {
        Self
    }
}
