//! Scoped work that is an iterator: what `run_stream` is for streams.

use std::mem;

use super::{Guard, Held, Mutex, in_child::InChild as _};
use crate::{Error, run};

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
        Scoped::Waiting(Box::new(self.clone()), work)
    }
}

/// The iterator that the consumer sees.
enum Scoped<F, I: IntoIterator> {
    Waiting(Box<Mutex>, F),
    Running(Running<I::IntoIter>),
    /// Also while an item is made, so that a panic ends it.
    Over,
}

/// In this order: what the lock guards is dropped before it is given back.
struct Running<I> {
    items: I,
    guard: Guard,
}

impl<F, I> Iterator for Scoped<F, I>
where
    F: FnOnce(Held) -> I,
    I: IntoIterator,
{
    type Item = Result<I::Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let running = match mem::replace(self, Self::Over) {
            Self::Waiting(mutex, work) => Running::start(&mutex, work),
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

impl<I: Iterator> Running<I> {
    fn start<F, S>(mutex: &Mutex, work: F) -> Result<Self, End>
    where
        F: FnOnce(Held) -> S,
        S: IntoIterator<IntoIter = I>,
    {
        let guard = mutex.lock().map_err(End::Failed)?;
        let held = Held::of(guard.inner.held(), &guard.driver);
        let items = scoped(&guard, || work(held).into_iter());
        Ok(Self { items, guard })
    }

    /// The next item, made under the lock from its beginning to its end.
    fn step(mut self) -> Result<(I::Item, Self), End> {
        self.guard.inner.check_live().map_err(End::Failed)?;
        match scoped(&self.guard, || self.items.next()) {
            Some(item) => {
                self.guard.inner.check_live().map_err(End::Failed)?;
                Ok((item, self))
            }
            None => {
                let Self { items, guard: Guard { inner, driver } } = self;
                drop(items);
                let finished = driver.wait(run::finish(inner, ())).unwrap_or_else(Result::in_child);
                Err(finished.map_or_else(End::Failed, |()| End::Done))
            }
        }
    }
}

fn scoped<T>(guard: &Guard, work: impl FnOnce() -> T) -> T {
    run::scoped_blocking(guard.inner.context(), guard.inner.names(), work)
}
