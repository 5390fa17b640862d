//! No spans.

use std::{fmt::Display, future::Future};

use fencelock_core::{FencingToken, Names};

#[derive(Clone, Debug)]
pub(crate) struct Span;

impl Span {
    pub(crate) fn acquire(_: &Names, _: &str) -> Self {
        Self
    }

    pub(crate) fn run(_: &dyn Display, _: &dyn Display) -> Self {
        Self
    }

    pub(crate) fn none() -> Self {
        Self
    }

    pub(crate) fn within<F: Future>(self, work: F) -> F {
        work
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn around<T>(self, work: impl FnOnce() -> T) -> T {
        work()
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn granted(&self, _: Option<FencingToken>) {}

    #[allow(clippy::unused_self)]
    pub(crate) fn ended(&self, _: u32, _: &'static str) {}

    #[allow(clippy::unused_self)]
    pub(crate) fn done(&self, _: &'static str) {}
}
