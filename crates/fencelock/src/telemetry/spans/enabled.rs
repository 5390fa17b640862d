//! Spans as `tracing` has them. Names, fields and outcomes are part of the interface:
//! `docs/guide/observability.md` lists them.

use std::{fmt::Display, future::Future};

use fencelock_core::{FencingToken, Names};
use tracing::{
    Instrument,
    field::{Empty, display},
};

#[derive(Clone, Debug)]
pub(crate) struct Span(tracing::Span);

impl Span {
    pub(crate) fn acquire(names: &Names, store: &str) -> Self {
        Self(tracing::info_span!(
            target: "fencelock",
            "fencelock.acquire",
            lock = %names,
            store,
            attempt = Empty,
            fencing = Empty,
            outcome = Empty,
        ))
    }

    pub(crate) fn run(names: &dyn Display, store: &dyn Display) -> Self {
        Self(tracing::info_span!(
            target: "fencelock",
            "fencelock.run",
            lock = %names,
            store = %store,
            fencing = Empty,
            outcome = Empty,
        ))
    }

    pub(crate) fn none() -> Self {
        Self(tracing::Span::none())
    }

    /// Does something in the span.
    pub(crate) fn within<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        work.instrument(self.0)
    }

    /// The same for what blocks its thread.
    #[cfg(feature = "blocking")]
    pub(crate) fn around<T>(self, work: impl FnOnce() -> T) -> T {
        self.0.in_scope(work)
    }

    pub(crate) fn granted(&self, fencing_token: Option<FencingToken>) {
        if let Some(fencing_token) = fencing_token {
            self.0.record("fencing", display(fencing_token));
        }
    }

    /// An acquire has ended.
    pub(crate) fn ended(&self, asked: u32, outcome: &'static str) {
        self.0.record("attempt", asked);
        self.done(outcome);
    }

    pub(crate) fn done(&self, outcome: &'static str) {
        self.0.record("outcome", outcome);
    }
}
