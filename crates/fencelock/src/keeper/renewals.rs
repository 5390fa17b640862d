//! Renewals: many leases in one call, one answer for each.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fencelock_core::{LossReason, Moment, RenewRequest, Renewed};

use super::{leases::Due, slab::Kept, timers::Timer};
use crate::{
    cell::{LeaseCell, Look, Renewal, Step},
    context::{Context, loss_reason},
};

/// Leases that are renewed in one call.
pub(super) struct Batch {
    leases: Vec<Kept>,
    /// In the order of the leases.
    requests: Vec<RenewRequest>,
    by: Moment,
    ending: Ending,
}

/// Tells the keeper that the batch has ended, however that comes about.
struct Ending {
    context: Arc<Context>,
    place: Option<u32>,
    looks: Vec<(Timer, Look)>,
}

impl Batch {
    /// Looks at what is due, ends what is over, and makes a batch of what has to be renewed, when
    /// there is any.
    pub(super) fn new(context: &Arc<Context>, due: Due) -> Option<Self> {
        let (schedule, now) = (context.schedule(), context.clock.now());
        let looks = Vec::new();
        let mut ending = Ending { context: Arc::clone(context), place: due.place, looks };
        let mut leases = due.leases;
        let mut requests = Vec::with_capacity(leases.len());
        let mut timeout = Duration::MAX;
        leases.retain(|kept| {
            match kept.cell.step(schedule, now) {
                Step::Renew(request, longest) => {
                    timeout = timeout.min(longest);
                    requests.push(request);
                    return true;
                }
                Step::Wait(look) => ending.looks.push((kept.timer, look)),
                Step::Expired => context.lose(&kept.cell, LossReason::Expired),
                // Whoever ended it removes it.
                Step::Over => {}
            }
            false
        });
        if requests.is_empty() {
            return None;
        }
        let by = now.saturating_add(timeout);
        Some(Self { leases, requests, by, ending })
    }

    pub(super) async fn run(mut self) {
        let context = Arc::clone(&self.ending.context);
        let schedule = context.schedule();
        context.keeper.count_renewals(self.requests.len());
        let asked = context.ask(context.store.renew(&self.requests, self.by)).await;
        let answers = match asked.result {
            Ok(reply) => reply.answer,
            Err(error) => {
                tracing::debug!(store = %context.display, %error, "a renewal failed");
                Vec::new()
            }
        };
        // An answer that is missing says nothing: that lease keeps what it has.
        let answers = answers.into_iter().chain(std::iter::repeat(Renewed::Unknown));
        for (kept, answer) in self.leases.iter().zip(answers) {
            let cell = &kept.cell;
            match answer {
                Renewed::Extended { remaining, waiting, revoked, .. } => {
                    cell.learn(waiting, revoked);
                    match cell.renewed(remaining, asked.sent, context.clock.now()) {
                        Renewal::Done => {
                            self.ending.looks.push((kept.timer, cell.look(schedule)));
                        }
                        // Lost is final; what the store has now is given back.
                        Renewal::Late => lose(&context, cell, LossReason::Expired),
                        Renewal::Over => {}
                    }
                }
                Renewed::NotHeld(why) => lose(&context, cell, loss_reason(&why)),
                // It is tried again, by the timer that was set when it was sent.
                _ => cell.renewal_failed(context.clock.now()),
            }
        }
    }
}

/// Ends a lease, unless somebody else took charge of it while the renewal was on its way: whoever
/// exchanges its token makes the old one worth nothing, and that is no loss.
fn lose(context: &Arc<Context>, cell: &Arc<LeaseCell>, reason: LossReason) {
    if cell.slot.load(Ordering::Acquire) != 0 {
        context.lose(cell, reason);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let now = self.context.clock.now();
        self.context.keeper.finished(self.place, &self.looks, now);
    }
}
