//! Renewals: many leases in one call, one answer for each.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fencelock_core::{LossReason, RenewRequest, RenewalSchedule, Renewed};

use crate::{
    cell::{LeaseCell, Renewal},
    context::{Context, loss_reason},
};

/// Leases that are renewed in one call.
pub(super) struct Batch {
    cells: Vec<Arc<LeaseCell>>,
    request_timeout: Duration,
}

/// Splits what is due into batches. Leases with short ttl, whose calls must be short, do not share
/// one with leases whose calls may take long.
pub(super) fn batches(due: Vec<Arc<LeaseCell>>, schedule: RenewalSchedule) -> Vec<Batch> {
    let mut groups: BTreeMap<Duration, Vec<Arc<LeaseCell>>> = BTreeMap::new();
    for cell in due {
        groups.entry(cell.renewal_timeout(schedule)).or_default().push(cell);
    }
    let mut batches = Vec::new();
    for (request_timeout, cells) in groups {
        for cells in cells.chunks(RenewRequest::MAX_BATCH) {
            batches.push(Batch { cells: cells.to_vec(), request_timeout });
        }
    }
    batches
}

impl Batch {
    pub(super) async fn run(mut self, context: Arc<Context>) {
        let by = context.clock.now().saturating_add(self.request_timeout);
        let mut requests = Vec::with_capacity(self.cells.len());
        self.cells.retain(|cell| {
            let request = cell.renew_request();
            // What was released meanwhile needs no renewal.
            let goes_on = cell.is_valid() && cell.renewal_sent(request.ttl, by);
            if goes_on {
                requests.push(request);
            }
            goes_on
        });
        if requests.is_empty() {
            return;
        }
        context.keeper.count_renewals(requests.len());
        let asked = context.ask(context.store.renew(&requests, by)).await;
        let answers = match asked.result {
            Ok(reply) => reply.answer,
            Err(error) => {
                tracing::debug!(store = %context.display, %error, "a renewal failed");
                Vec::new()
            }
        };
        // An answer that is missing says nothing: that lease keeps what it has.
        let answers = answers.into_iter().chain(std::iter::repeat(Renewed::Unknown));
        for (cell, answer) in self.cells.iter().zip(answers) {
            match answer {
                Renewed::Extended { remaining, waiting, revoked, .. } => {
                    cell.learn(waiting, revoked);
                    let renewal = cell.renewed(remaining, asked.sent, context.clock.now());
                    if renewal == Renewal::Late {
                        // Lost is final; what the store has now is given back.
                        context.lose(cell, LossReason::Expired);
                    }
                }
                Renewed::NotHeld(why) => context.lose(cell, loss_reason(&why)),
                _ => cell.renewal_failed(context.clock.now()),
            }
        }
    }
}
