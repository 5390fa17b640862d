//! Giving back: on all nodes, until each has answered.

use std::sync::Arc;

use fencelock_core::{Moment, ReleaseRequest, Released};
use fencelock_store::{Outcome, Reply, StoreErrorKind, StoreResult};

use crate::{
    quorum::Quorum,
    round::{Heard, Late},
    sweeper::{After, Sweep},
    tally::{answered, count, failed, no_quorum},
};

/// Releases whose answers decide nothing any more; who does not answer is asked again.
#[derive(Clone)]
pub(crate) struct Sweeping {
    quorum: Arc<Quorum>,
    request: ReleaseRequest,
    /// By node.
    after: Vec<After>,
    give_up: Moment,
}

impl Sweeping {
    pub(crate) fn new(
        quorum: &Arc<Quorum>,
        request: ReleaseRequest,
        after: Vec<After>,
        give_up: Moment,
    ) -> Self {
        debug_assert_eq!(after.len(), quorum.nodes.len(), "one for each node");
        Self { quorum: Arc::clone(quorum), request, after, give_up }
    }

    /// What is sent.
    pub(crate) const fn request(&self) -> &ReleaseRequest {
        &self.request
    }

    /// Asks one node again, until it has answered.
    pub(crate) fn sweep(&self, index: usize, after: After) {
        if self.quorum.is_closed() {
            return;
        }
        self.quorum.sweeper.push(Sweep {
            index,
            node: Arc::clone(&self.quorum.nodes[index]),
            request: self.request.clone(),
            after,
            give_up: self.give_up,
        });
    }
}

impl Late<Released> for Sweeping {
    fn ended(&self, node: usize, heard: &Heard<Released>) {
        let after = self.after[node];
        match heard {
            Ok(reply) if after.is_over(reply) => {}
            Err(error) if error.kind() == StoreErrorKind::Closed => {}
            _ => self.sweep(node, after),
        }
    }
}

/// Gives a lease back: held, when a majority held it until now.
pub(crate) async fn release(
    quorum: &Arc<Quorum>,
    request: &ReleaseRequest,
    by: Moment,
) -> StoreResult<Released> {
    let now = quorum.begin(by)?;
    // First, so that what is late at some node is seen by whoever sent it.
    quorum.opens.take_back(request.token);
    // No lease is longer than `max_ttl`, whoever asked for it.
    let give_up = now.saturating_add(quorum.max_ttl.into());
    let after = vec![After::Anything; quorum.nodes.len()];
    let sweeping = Arc::new(Sweeping::new(quorum, request.clone(), after, give_up));
    let mut round =
        quorum.ask(request.clone(), by, sweeping, |store, request, by| store.release(request, by));
    round.tell();
    round.until(|heard| verdict(quorum, heard).is_some()).await;
    match verdict(quorum, round.heard()) {
        Some(answer) => Ok(Reply::new(answer)),
        None => {
            let heard = round.heard();
            let say = |answer: &Released| match answer {
                Released::Held => "released",
                Released::Taken => "held by somebody else",
                _ => "not held",
            };
            // Whoever did not answer is swept meanwhile: so it will be carried out, whatever is known.
            Err(no_quorum(quorum, heard, Outcome::Unknown, say))
        }
    }
}

fn verdict(quorum: &Quorum, heard: &[Option<Heard<Released>>]) -> Option<Released> {
    let of = |kind: Released| count(heard, |answer| *answer == kind);
    let (held, taken) = (of(Released::Held), of(Released::Taken));
    let silent = quorum.nodes.len() - answered(heard);
    if held >= quorum.needed {
        return Some(Released::Held);
    }
    // As long as those who say nothing could make it a majority, nobody knows.
    if held + silent >= quorum.needed {
        return None;
    }
    // While answers are still to come, they may tell that it was taken.
    let all_said = silent == failed(heard);
    if taken >= quorum.needed || (all_said && taken > 0 && taken + silent >= quorum.needed) {
        return Some(Released::Taken);
    }
    if !all_said {
        return None;
    }
    let withdrawn = of(Released::Withdrawn) >= quorum.needed;
    Some(if withdrawn { Released::Withdrawn } else { Released::Expired })
}
