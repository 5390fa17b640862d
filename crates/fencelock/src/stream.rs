//! Scoped work that is a stream: the lock is taken at the first poll and held between items.
//!
//! ```text
//!   polls of the consumer   |wait.... item | item |  (busy elsewhere)  | item | end |
//!   the lock                        |================ held ==================|
//! ```
//! The whole of it is one [`run`](Mutex::run): its work polls the stream and leaves each item in a
//! slot, where the consumer finds it. So what `run` says of loss, of nesting, of panics and of the
//! release holds here too, and stands there alone.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex as Locked, PoisonError},
    task::{Context, Poll, ready},
};

use fencelock_core::LeaseState;
use futures_core::Stream;

use crate::{AcrossHeld, AcrossSlots, Error, Held, Mutex};

impl Mutex {
    /// Waits for the lock, makes a stream and hands its items on, and gives the lock back when that
    /// stream ends: an item after the first is as much under the lock as the first.
    ///
    /// Nothing happens before the first poll. The lock stays held while nobody polls, for as long as
    /// this stream lives: whoever stops early drops it. Items are items, whatever is in them; for a
    /// stream that is over at its first `Err`, see [`Mutex::run_try_stream`].
    ///
    /// What is polled inside may not lock the same name again (`AlreadyHeld`); the code that takes
    /// the items is outside, and would wait for itself.
    ///
    /// # Errors
    /// The last item is an `Err` when the lock could not be had, as [`Mutex::lock`] says; `Lost` when
    /// it was lost before the stream ended (the inner stream is dropped first, and an item that it
    /// made meanwhile is not handed on), or the release found it taken.
    ///
    /// # Panics
    /// When the stream or what makes it does: the lock is given back, and nothing comes after.
    ///
    /// # Cancel safety
    /// Polling can be stopped at any time. Dropping it drops the inner stream, then gives the lock back
    /// through the keeper.
    ///
    /// # Examples
    /// ```
    /// use futures_util::{StreamExt as _, stream};
    ///
    /// # async fn example() -> Result<(), fencelock::Error> {
    /// let locks = fencelock::connect("memory:").await?;
    /// let lock = locks.mutex("import:customers");
    /// let mut pages = lock.run_stream(|held| {
    ///     stream::iter(1..=3).map(move |page| (page, held.fencing_token()))
    /// });
    /// while let Some(item) = pages.next().await {
    ///     let (page, fencing_token) = item?;
    ///     println!("page {page}, written with {fencing_token:?}");
    /// }
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn run_stream<F, S>(
        &self,
        work: F,
    ) -> impl Stream<Item = Result<S::Item, Error>> + Unpin + use<F, S>
    where
        F: FnOnce(Held) -> S,
        S: Stream,
    {
        let mutex = self.clone();
        items(work, |fill| async move { mutex.run(|held| fill.with(held)).await })
    }

    /// As [`Mutex::run_stream`], for a stream that fails: its first `Err` ends the hold. The inner
    /// stream is dropped and the lock given back before that `Err` is handed on.
    ///
    /// # Errors
    /// As [`Mutex::run_stream`], in the error type of the stream. When the stream failed and the lock
    /// turns out to be lost, the failure comes first and `Lost` is the last item.
    ///
    /// # Panics
    /// As [`Mutex::run_stream`].
    ///
    /// # Cancel safety
    /// As [`Mutex::run_stream`].
    ///
    /// # Examples
    /// ```
    /// use std::error::Error;
    ///
    /// use futures_util::{StreamExt as _, stream};
    ///
    /// # async fn example() -> Result<(), fencelock::Error> {
    /// let locks = fencelock::connect("memory:").await?;
    /// let lock = locks.mutex("import:customers");
    /// let rows = ["1", "two", "3"];
    /// let parsed = |row: &str| row.parse::<u32>().map_err(Box::<dyn Error>::from);
    /// let numbers = lock.run_try_stream(|_held| stream::iter(rows).map(parsed));
    /// let numbers: Vec<_> = numbers.collect().await;
    /// assert!(matches!(numbers[..], [Ok(1), Err(_)]), "it is over at the second row");
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn run_try_stream<F, S, T, E>(
        &self,
        work: F,
    ) -> impl Stream<Item = Result<T, E>> + Unpin + use<F, S, T, E>
    where
        F: FnOnce(Held) -> S,
        S: Stream<Item = Result<T, E>>,
        E: From<Error>,
    {
        let mutex = self.clone();
        results(work, |fill| async move { mutex.run(|held| fill.with(held)).await })
    }
}

/// The scoped streams of a recipe: its `run` with work that is a stream.
macro_rules! streams {
    (
        $recipe:ident: $run:ident($held:ident $(, $arg:ident: $type:ty)?)
            as $stream:ident, $try_stream:ident
    ) => {
        impl $recipe {
            #[doc = concat!("As [`", stringify!($recipe), "::", stringify!($run), "`] for work that \
                is a stream, which is held until it ends: see")]
            /// [`Mutex::run_stream`](crate::Mutex::run_stream).
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($recipe), "::", stringify!($run), "`], in the last \
                item.")]
            ///
            /// # Panics
            /// As [`Mutex::run_stream`](crate::Mutex::run_stream).
            ///
            /// # Cancel safety
            /// As [`Mutex::run_stream`](crate::Mutex::run_stream).
            pub fn $stream<F, S>(
                &self,
                $($arg: $type,)?
                work: F,
            ) -> impl futures_core::Stream<Item = Result<S::Item, crate::Error>> + Unpin + use<F, S>
            where
                F: FnOnce($held) -> S,
                S: futures_core::Stream,
            {
                let lock = self.clone();
                crate::stream::items(work, move |fill| async move {
                    lock.$run($($arg,)? |held| fill.with(held)).await
                })
            }

            #[doc = concat!("As [`", stringify!($recipe), "::", stringify!($stream), "`], but over \
                at its first `Err`: see")]
            /// [`Mutex::run_try_stream`](crate::Mutex::run_try_stream).
            ///
            /// # Errors
            /// As [`Mutex::run_try_stream`](crate::Mutex::run_try_stream).
            ///
            /// # Panics
            /// As [`Mutex::run_stream`](crate::Mutex::run_stream).
            ///
            /// # Cancel safety
            /// As [`Mutex::run_stream`](crate::Mutex::run_stream).
            pub fn $try_stream<F, S, T, E>(
                &self,
                $($arg: $type,)?
                work: F,
            ) -> impl futures_core::Stream<Item = Result<T, E>> + Unpin + use<F, S, T, E>
            where
                F: FnOnce($held) -> S,
                S: futures_core::Stream<Item = Result<T, E>>,
                E: From<crate::Error>,
            {
                let lock = self.clone();
                crate::stream::results(work, move |fill| async move {
                    lock.$run($($arg,)? |held| fill.with(held)).await
                })
            }
        }
    };
}

pub(crate) use streams;

streams!(AcrossSlots: run(AcrossHeld) as run_stream, run_try_stream);

/// What a stream is scoped by: whether it is lost.
pub(crate) trait Loss: Clone {
    fn is_lost(&self) -> bool;
}

impl Loss for Held {
    fn is_lost(&self) -> bool {
        matches!(self.state(), LeaseState::Lost(_))
    }
}

impl Loss for AcrossHeld {
    fn is_lost(&self) -> bool {
        self.loss().is_some()
    }
}

/// A `run` as a stream of all items that its work makes.
pub(crate) fn items<F, T, Fut>(
    work: F,
    run: impl FnOnce(Fill<F, T>) -> Fut,
) -> impl Stream<Item = Result<T, Error>> + Unpin
where
    Fut: Future<Output = Result<(), Error>>,
{
    Streamed::new(|slot| run(Fill { slot, work, is_last: |_| false }))
}

/// The same up to the first item that is an error.
pub(crate) fn results<F, T, E, Fut>(
    work: F,
    run: impl FnOnce(Fill<F, Result<T, E>>) -> Fut,
) -> impl Stream<Item = Result<T, E>> + Unpin
where
    Fut: Future<Output = Result<(), Error>>,
    E: From<Error>,
{
    Flat(Streamed::new(|slot| run(Fill { slot, work, is_last: Result::is_err })))
}

/// What the `run` has to do: make the stream, and hand on its items.
pub(crate) struct Fill<F, T> {
    slot: Slot<T>,
    work: F,
    is_last: fn(&T) -> bool,
}

impl<F, T> Fill<F, T> {
    /// The work of the `run`, which calls this where the stream is to be made.
    pub(crate) fn with<H, S>(self, held: H) -> impl Future<Output = ()>
    where
        H: Loss,
        F: FnOnce(H) -> S,
        S: Stream<Item = T>,
    {
        let stream = (self.work)(held.clone());
        self.slot.fill(stream, move || held.is_lost(), self.is_last)
    }
}

/// The stream that the consumer sees: a `run`, and the slot that its work fills.
struct Streamed<Fut, T> {
    /// Nothing once it is over; also while it is polled, so that a panic ends it.
    run: Option<Pin<Box<Fut>>>,
    slot: Slot<T>,
    /// What is told after the last item.
    last: Option<Error>,
}

impl<Fut, T> Streamed<Fut, T>
where
    Fut: Future<Output = Result<(), Error>>,
{
    fn new(run: impl FnOnce(Slot<T>) -> Fut) -> Self {
        let slot = Slot(Arc::new(Locked::new(None)));
        Self { run: Some(Box::pin(run(slot.clone()))), slot, last: None }
    }
}

impl<Fut, T> Stream for Streamed<Fut, T>
where
    Fut: Future<Output = Result<(), Error>>,
{
    type Item = Result<T, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(mut run) = this.run.take() else {
            return Poll::Ready(this.last.take().map(Err));
        };
        let ended = match run.as_mut().poll(cx) {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                this.run = Some(run);
                return match this.slot.take() {
                    Some(item) => Poll::Ready(Some(Ok(item))),
                    None => Poll::Pending,
                };
            }
        };
        // The item that ended it, if one did, came before what the release found.
        match (this.slot.take(), ended.err()) {
            (Some(item), error) => {
                this.last = error;
                Poll::Ready(Some(Ok(item)))
            }
            (None, error) => Poll::Ready(error.map(Err)),
        }
    }
}

impl<Fut, T> fmt::Debug for Streamed<Fut, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("is_over", &self.run.is_none()).finish_non_exhaustive()
    }
}

/// Makes one error of two.
struct Flat<S>(S);

impl<S, T, E> Stream for Flat<S>
where
    S: Stream<Item = Result<Result<T, E>, Error>> + Unpin,
    E: From<Error>,
{
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(Pin::new(&mut self.0).poll_next(cx));
        Poll::Ready(item.map(|item| item.unwrap_or_else(|error| Err(error.into()))))
    }
}

/// Where an item lies between the work and the consumer: never more than one, and only within one
/// poll of the consumer.
struct Slot<T>(Arc<Locked<Option<T>>>);

impl<T> Slot<T> {
    /// The work of the `run`: polls the stream to its end, to a loss, or to an item that ends it.
    async fn fill<S: Stream<Item = T>>(
        self,
        stream: S,
        is_lost: impl Fn() -> bool,
        is_last: fn(&T) -> bool,
    ) {
        let mut stream = pin!(stream);
        while let Some(item) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            let is_last = is_last(&item);
            // What was made past the end was not made under the lock. The `run` tells the loss.
            if !is_last && is_lost() {
                return;
            }
            self.put(item);
            if is_last {
                return;
            }
            // The consumer takes it in this very poll, and its next one goes on here: nobody has to
            // be woken.
            poll_fn(|_| if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }).await;
        }
    }

    fn put(&self, item: T) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(item);
        debug_assert!(before.is_none(), "the consumer took the item before");
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/scoped.md")]
struct Guide;
