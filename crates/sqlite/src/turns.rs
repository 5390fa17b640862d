//! First come, first served, within one runtime.
//!
//! Tasks of one runtime reach the file in the order in which they asked. Between runtimes there is
//! no order: a task that waits for its turn in a runtime which its user blocks must not hold up
//! the keeper, which has a runtime of its own.

use std::sync::{Arc, Mutex, PoisonError};

use fencelock_core::Moment;
use fencelock_store::{Clock, rt};

type Queue = Arc<rt::sync::Mutex<()>>;

/// One queue for each runtime.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queues: Mutex<Vec<(Option<rt::RuntimeId>, Queue)>>,
}

impl Turns {
    /// Waits for the caller's turn, which lasts until what this answers is dropped; nothing when
    /// `by` came first.
    pub(crate) async fn wait(&self, clock: &Clock, by: Moment) -> Option<impl Send> {
        let queue = self.queue();
        // It is fair: this succeeds only when nobody waits.
        if let Ok(turn) = Arc::clone(&queue).try_lock_owned() {
            return Some(turn);
        }
        clock.until(by, queue.lock_owned()).await
    }

    fn queue(&self) -> Queue {
        let runtime = rt::runtime_id();
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, queue)) = queues.iter().find(|(owner, _)| *owner == runtime) {
            return Arc::clone(queue);
        }
        // Runtimes come and go: what nobody waits in is made again when it is needed.
        queues.retain(|(_, queue)| Arc::strong_count(queue) > 1);
        let queue = Queue::default();
        queues.push((runtime, Arc::clone(&queue)));
        queue
    }
}
