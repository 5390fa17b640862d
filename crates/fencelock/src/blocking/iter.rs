//! Scoped work that is an iterator: what `run_stream` is for streams.

use std::mem;

use super::{
    Held, Mutex,
    scope::{Scope, scoped},
};
use crate::Error;

impl Mutex {
    /// Waits for the lock, makes an iterator and hands its items on, and gives the lock back when that
    /// iterator ends: [`fencelock::Mutex::run_stream`](crate::Mutex::run_stream) for threads.
    ///
    /// Nothing happens before the first `next`. The lock stays held between the items, for as long as
    /// this iterator lives: whoever stops early drops it. The inner iterator may not lock the same name
    /// again (`AlreadyHeld`); the code that takes the items is outside, and would wait for itself.
    ///
    /// # Errors
    /// The last item is an `Err` when the lock could not be had, as [`Mutex::lock`] says; `Lost` when
    /// it was lost before the iterator ended (the inner iterator is dropped first, and an item that it
    /// made meanwhile is not handed on), or the release found it taken.
    ///
    /// # Panics
    /// When the iterator or what makes it does: the lock is given back, and nothing comes after.
    ///
    /// # Examples
    /// ```
    /// let locks = fencelock::blocking::connect("memory:")?;
    /// let lock = locks.mutex("import");
    /// for row in lock.run_iter(|_held| ["old 1", "old 2"].into_iter().chain(["new 1"])) {
    ///     println!("{}", row?);
    ///     assert!(lock.try_lock()?.granted().is_none());
    /// }
    /// assert!(lock.try_lock()?.granted().is_some());
    /// # Ok::<(), fencelock::Error>(())
    /// ```
    pub fn run_iter<F, I>(
        &self,
        work: F,
    ) -> impl Iterator<Item = Result<I::Item, Error>> + use<F, I>
    where
        F: FnOnce(Held) -> I,
        I: IntoIterator,
    {
        let lock = self.clone();
        items(move || lock.lock(), work)
    }
}

/// The items of an iterator that is made under a guard, once somebody asks for the first.
pub(super) fn items<G, I, L, F>(lock: L, work: F) -> impl Iterator<Item = Result<I::Item, Error>>
where
    G: Scope,
    I: IntoIterator,
    L: FnOnce() -> Result<G, Error>,
    F: FnOnce(G::Held) -> I,
{
    Scoped::Waiting(move || {
        let guard = lock().map_err(End::Failed)?;
        let held = guard.held();
        let items = scoped(&guard, || work(held).into_iter());
        Ok(Running { items, guard })
    })
}

/// The iterator that the consumer sees.
enum Scoped<S, I, G> {
    Waiting(S),
    Running(Running<I, G>),
    /// Also while an item is made, so that a panic ends it.
    Over,
}

/// In this order: what the lock guards is dropped before it is given back.
struct Running<I, G> {
    items: I,
    guard: G,
}

impl<S, I, G> Iterator for Scoped<S, I, G>
where
    S: FnOnce() -> Result<Running<I, G>, End>,
    I: Iterator,
    G: Scope,
{
    type Item = Result<I::Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let running = match mem::replace(self, Self::Over) {
            Self::Waiting(start) => start(),
            Self::Running(running) => Ok(running),
            Self::Over => return None,
        };
        match running.and_then(Running::step) {
            Ok((item, running)) => {
                *self = Self::Running(running);
                Some(Ok(item))
            }
            Err(End::Done) => None,
            Err(End::Failed(error)) => Some(Err(error)),
        }
    }
}

/// Why nothing comes any more.
enum End {
    Done,
    Failed(Error),
}

impl<I: Iterator, G: Scope> Running<I, G> {
    /// The next item, made under the lock from its beginning to its end.
    fn step(mut self) -> Result<(I::Item, Self), End> {
        self.guard.check_live().map_err(End::Failed)?;
        match scoped(&self.guard, || self.items.next()) {
            Some(item) => {
                self.guard.check_live().map_err(End::Failed)?;
                Ok((item, self))
            }
            None => {
                let Self { items, guard } = self;
                drop(items);
                Err(guard.finish(()).map_or_else(End::Failed, |()| End::Done))
            }
        }
    }
}
