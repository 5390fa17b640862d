//! Scoped work as it is traced: one span around its acquire and itself.

use std::{collections::BTreeSet, fmt};

use fencelock_core::FencingToken;

use super::spans::Span;
use crate::{Error, Mutex};

/// A `run` that is on its way. Dropped before its end, it ends as dropped.
pub(crate) struct Running {
    span: Span,
    ended: bool,
}

impl Running {
    pub(crate) fn begin(mutex: &Mutex) -> Self {
        let span = match &mutex.names {
            Ok(names) => Span::run(names, &mutex.context().display),
            // It ends before it begins.
            Err(_) => Span::none(),
        };
        Self { span, ended: false }
    }

    /// For several recipes that are one: all names, and each store once.
    pub(crate) fn of_all<'m>(recipes: impl Iterator<Item = &'m Mutex>) -> Self {
        let (mut names, mut stores) = (BTreeSet::new(), BTreeSet::new());
        for recipe in recipes {
            let Ok(some) = &recipe.names else { return Self { span: Span::none(), ended: false } };
            names.extend(some.iter());
            stores.insert(&*recipe.context().display);
        }
        let span = Span::run(&Joined(&names), &Joined(&stores));
        Self { span, ended: false }
    }

    /// The span that the acquire and the work are done in.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn granted(&self, fencing_token: Option<FencingToken>) {
        self.span.granted(fencing_token);
    }

    pub(crate) fn ended<T>(mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.ended = true;
        self.span.done(match &result {
            Ok(_) => "done",
            Err(error) if error.is_lost() => "lost",
            Err(_) => "failed",
        });
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.span.done("dropped");
        }
    }
}

/// Values as a set of names shows its own.
struct Joined<'a, T>(&'a BTreeSet<T>);

impl<T: fmt::Display> fmt::Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{value}")?;
        }
        Ok(())
    }
}
