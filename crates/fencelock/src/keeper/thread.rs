//! The loop of the keeper's thread.
//!
//! It never waits for a store: each batch and each job is a task of its runtime.

use std::{
    future::{Future, poll_fn},
    panic::{self, AssertUnwindSafe},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use fencelock_store::rt;

use super::renewals::Batch;
use crate::context::Context;

pub(super) type Run = Pin<Box<dyn Future<Output = ()>>>;

/// Goes on until nothing will ever come again. A fault in one turn must not end the renewal of all
/// leases: all that the turn was about are still in the keeper, and the next one looks at every one.
pub(super) async fn run(context: Arc<Context>) {
    loop {
        let mut turns = pin!(turns(&context));
        let ended = poll_fn(|cx| {
            let poll = AssertUnwindSafe(|| turns.as_mut().poll(cx));
            match panic::catch_unwind(poll) {
                Ok(poll) => poll.map(Ok),
                Err(_told_by_the_panic_hook) => Poll::Ready(Err(())),
            }
        });
        if ended.await.is_ok() {
            return;
        }
        rt::sleep(PAUSE_AFTER_FAULT).await;
        context.keeper.reschedule_all();
    }
}

/// Keeps a fault that comes back with every turn from taking a whole processor; short beside the
/// shortest lease.
const PAUSE_AFTER_FAULT: Duration = Duration::from_millis(1);

async fn turns(context: &Arc<Context>) {
    loop {
        let turn = context.keeper.turn(context.schedule(), context.clock.now());
        if turn.over {
            return;
        }
        for job in turn.jobs {
            rt::try_spawn(job.run(Arc::clone(context)));
        }
        for due in turn.due {
            if let Some(batch) = Batch::new(context, due) {
                rt::try_spawn(batch.run());
            }
        }
        let woken = context.keeper.wake.notified();
        rt::first(woken, context.clock.sleep_until(turn.next)).await;
    }
}
