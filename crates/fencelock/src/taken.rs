//! Guards that become one grant, or go back: what sets across slots and composites are made of.
//!
//! ```text
//!   push, push, ... --all there--> whole --> release: all at once, the last taken is sent first
//!                   `--one is not--> roll_back: the same, and not for long; the rest is the keeper's
//! ```

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use fencelock_store::rt;

use crate::{Error, Guard, Released};

/// The parts that were taken, in the order of taking. Its drop gives them back, the last one first.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<Guard>);

impl Taken {
    /// How long whoever was refused waits for what was taken to be given back: a store that answers
    /// needs less, and a limit on a wait means all of it.
    const ROLL_BACK_LIMIT: Duration = Duration::from_millis(250);

    pub(crate) fn push(&mut self, guard: Guard) {
        // Nobody has it before all are there, so there is nothing to keep it for.
        guard.cell().terms.set_kept(false);
        self.0.push(guard);
    }

    pub(crate) fn guards(&self) -> &[Guard] {
        &self.0
    }

    /// Says that all are there, if all are still held.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(Guard::check_live)?;
        self.0.iter().for_each(|guard| guard.cell().terms.set_kept(true));
        Ok(())
    }

    /// Gives all back, at once, and says the worst that was found. The one that was taken last is
    /// sent first.
    pub(crate) async fn release(mut self) -> Released {
        let guards = std::mem::take(&mut self.0);
        let found = all(guards.into_iter().rev().map(Guard::release)).await;
        found.into_iter().fold(Released::Held, Released::or_worse)
    }

    /// Gives back what was taken before one could not be had; what takes long is left to the keeper.
    pub(crate) async fn roll_back(self) {
        rt::first(self.release(), rt::sleep(Self::ROLL_BACK_LIMIT)).await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        while let Some(guard) = self.0.pop() {
            drop(guard);
        }
    }
}

/// The first of several that is ready.
pub(crate) async fn first<F: Future>(futures: impl Iterator<Item = F>) -> F::Output {
    let mut all: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|cx| {
        for future in &mut all {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}

/// Several at once, begun in their order.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut outputs = Vec::with_capacity(running.len());
    poll_fn(|cx| {
        running.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Ready(output) => {
                outputs.push(output);
                false
            }
            Poll::Pending => true,
        });
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs
}
