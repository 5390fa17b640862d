//! The loop of the keeper's thread.
//!
//! It never waits for a store: each batch and each job is a task of its runtime.

use std::{future::Future, pin::Pin, sync::Arc};

use fencelock_core::LossReason;
use fencelock_store::rt;

use super::renewals;
use crate::context::Context;

pub(super) type Run = Pin<Box<dyn Future<Output = ()>>>;

pub(super) async fn run(context: Arc<Context>) {
    loop {
        let turn = context.keeper.turn(context.schedule(), context.clock.now());
        if turn.over {
            return;
        }
        for cell in turn.expired {
            context.lose(&cell, LossReason::Expired);
        }
        for job in turn.jobs {
            rt::try_spawn(job.run(Arc::clone(&context)));
        }
        for batch in renewals::batches(turn.due, context.schedule()) {
            rt::try_spawn(batch.run(Arc::clone(&context)));
        }
        let woken = context.keeper.wake.notified();
        rt::first(woken, context.clock.sleep_until(turn.next)).await;
    }
}
