//! The loop of a candidate: campaign, work, resign, and again.
//!
//! ```text
//!   campaign --granted--> work --Continue--> resign --> campaign ...
//!      |  ^                |  +---Break-----> resign --> the end
//!      |  +---- lost: the work is dropped, then what the store may have is given back
//!      +--- may pass: pause, again;  anything else: the end
//! ```
//! It relies on [`run::run`] for the term: the work has ended, or is dropped, before anything is given
//! back.

use std::{
    future::Future,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencelock_core::RetryStrategy;
use fencelock_store::rt;

use super::{Election, Leading};
use crate::{Error, Guard, Mutex, RetryAdvice, run};

pub(super) async fn lead<F, Fut, T>(
    election: &Election,
    info: String,
    mut work: F,
) -> Result<T, Error>
where
    F: FnMut(Leading) -> Fut,
    Fut: Future<Output = ControlFlow<T>>,
{
    let info: Arc<str> = Arc::from(info);
    let campaigns = Campaigns::new(election, &info);
    loop {
        let guard = campaigns.won().await?;
        let broke = AtomicBool::new(false);
        let term = run::run(guard, |held| {
            let term = work(Leading::new(held, Arc::clone(&info)));
            async {
                let flow = term.await;
                broke.store(flow.is_break(), Ordering::Relaxed);
                flow
            }
        });
        match term.await {
            Ok(ControlFlow::Break(value)) => return Ok(value),
            Ok(ControlFlow::Continue(())) => {}
            // The work is over and was perhaps not alone: its caller decides, not another term.
            Err(error) if broke.load(Ordering::Relaxed) => return Err(error),
            Err(lost) => tracing::debug!(%lost, "campaigning again"),
        }
    }
}

/// The campaigns of one candidate, one after the other.
pub(crate) struct Campaigns {
    mutex: Mutex,
}

impl Campaigns {
    pub(crate) fn new(election: &Election, info: &str) -> Self {
        Self { mutex: election.mutex(info) }
    }

    /// Waits until it is elected, and waits out what may pass.
    pub(crate) async fn won(&self) -> Result<Guard, Error> {
        let context = self.mutex.context();
        let pauses = RetryStrategy::exponential(FIRST_PAUSE, LONGEST_PAUSE);
        let mut pace = pauses.start();
        loop {
            match self.mutex.lock().await {
                Ok(guard) => return Ok(guard),
                // A store that never answered has the wrong address, more likely than not.
                Err(error) if may_pass(&error) && context.was_reached() => {
                    let pause = pace.next_delay(rt::chance()).unwrap_or(LONGEST_PAUSE);
                    context.clock.sleep_until(context.clock.now().saturating_add(pause)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether another campaign may do what this one could not.
fn may_pass(error: &Error) -> bool {
    error.retry() == RetryAdvice::Later && !error.is_wait_expired()
}

/// Longer than a hiccup of a network.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A store that comes back is noticed soon, and not asked by all candidates all the time until then.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
