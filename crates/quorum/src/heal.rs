//! A lease on a node that has lost it, while a majority provably still has it.
//!
//! What the node is told (metadata, fencing token) is read from that majority. A heal is counted
//! nowhere; the node counts when it prolongs the lease at a later renewal. Once a release has begun
//! nothing is healed, and what was healed meanwhile is released again.

use std::sync::Arc;

use fencelock_core::{
    HealRequest, Healed, InspectRequest, Inspection, Moment, NotHeld, Proof, ReleaseRequest,
    RenewRequest,
};
use fencelock_store::{Outcome, Reply, StoreError, StoreResult, rt};

use crate::{
    look,
    open::Open,
    quorum::Quorum,
    release::Sweeping,
    round::{Heard, Late},
    sweeper::After,
    tally::{answers, count, failed, no_quorum, outcome},
};

/// Heals one node, in a task of this runtime.
pub(crate) fn begin(
    quorum: &Arc<Quorum>,
    node: usize,
    renewed: &RenewRequest,
    open: Arc<Open>,
    sent: Moment,
) {
    let healing =
        Healing { quorum: Arc::clone(quorum), node, renewed: renewed.clone(), open, sent };
    rt::try_spawn(healing.run());
}

struct Healing {
    quorum: Arc<Quorum>,
    node: usize,
    renewed: RenewRequest,
    open: Arc<Open>,
    /// When the renewal was sent that showed the majority.
    sent: Moment,
}

impl Healing {
    async fn run(self) {
        let (quorum, renewed) = (&self.quorum, &self.renewed);
        // Half of the time for which the majority stands: the other half is for clocks and delays.
        let stands = self.sent.saturating_add(renewed.ttl.as_duration() / 2);
        let by = quorum.node_by(quorum.clock.now(), stands);
        let Some(mut request) = self.request(by).await else { return };
        let node = &quorum.nodes[self.node];
        if node.store.capabilities().store_time {
            request.deadline = node.latest_at(stands);
        }
        if self.open.is_taken_back() || quorum.is_closed() {
            return;
        }
        let healed = node.ask(node.store.heal(&request, by)).await;
        match &healed {
            Ok(reply) if reply.answer == Healed::Healed => {
                tracing::info!(lock = %renewed.names, node = %node.at, "a node was healed");
            }
            Ok(reply) => {
                tracing::debug!(node = %node.at, answer = ?reply.answer, "a node was not healed");
            }
            Err(error) => tracing::debug!(node = %node.at, %error, "a node was not healed"),
        }
        if self.open.is_taken_back() {
            self.take_back(&healed);
        }
    }

    /// What the majority has of the lease.
    async fn request(&self, by: Moment) -> Option<HealRequest> {
        let (quorum, renewed) = (&self.quorum, &self.renewed);
        let first = renewed.names.iter().next()?;
        let look = InspectRequest::new(first.clone());
        let seen = look::inspect(quorum, &look, by).await.ok()?;
        let Inspection::Held(holder) = seen.answer else { return None };
        if holder.proof != Some(Proof::from(renewed.token)) {
            return None;
        }
        let mut request = HealRequest::new(renewed.names.clone(), renewed.token, renewed.ttl);
        request.retain = renewed.retain;
        request.metadata = holder.metadata;
        let highest = holder.last_fence.max(holder.fencing_token);
        request.fencing_token = highest.filter(|_| quorum.can.fencing);
        Some(request)
    }

    fn take_back(&self, healed: &Heard<Healed>) {
        let after = match healed {
            Ok(reply) if reply.answer == Healed::Healed => After::Anything,
            Err(error) if error.outcome() == Outcome::Unknown => After::Stray(None),
            _ => return,
        };
        let (quorum, renewed) = (&self.quorum, &self.renewed);
        let mut request = ReleaseRequest::new(renewed.names.clone(), renewed.token);
        request.retain = renewed.retain;
        let give_up = quorum.clock.now().saturating_add(renewed.ttl.into());
        let each = vec![after; quorum.nodes.len()];
        Sweeping::new(quorum, request, each, give_up).sweep(self.node, after);
    }
}

/// The verb itself: heals on all nodes; healed, when a majority has it then. A lease that a
/// majority can't have is given back where it was taken.
pub(crate) async fn heal(
    quorum: &Arc<Quorum>,
    request: &HealRequest,
    by: Moment,
) -> StoreResult<Healed> {
    let now = quorum.begin(by)?;
    quorum.check_ttl(request.ttl)?;
    if request.deadline.is_some() {
        return Err(StoreError::unsupported("a quorum has no time of its own for a deadline"));
    }
    if request.fencing_token.is_some() && !quorum.can.fencing {
        return Err(StoreError::unsupported("not all nodes of the quorum have fencing tokens"));
    }
    let mut release = ReleaseRequest::new(request.names.clone(), request.token);
    release.retain = request.retain;
    let give_up = quorum.node_by(now, by).saturating_add(request.ttl.into());
    let after = vec![After::Anything; quorum.nodes.len()];
    let late = Arc::new(Lost {
        open: quorum.opens.begin(request.token),
        sweeping: Sweeping::new(quorum, release.clone(), after.clone(), give_up),
    });
    let mut round =
        quorum.ask(request.clone(), by, late, |store, request, by| store.heal(request, by));
    let healed = |heard: &[_]| count(heard, |answer| *answer == Healed::Healed);
    let refused = |heard: &[_]| count(heard, |answer| *answer != Healed::Healed);
    round.until(|heard| healed(heard) >= quorum.needed || refused(heard) > quorum.spare()).await;
    if healed(round.heard()) >= quorum.needed {
        return Ok(Reply::new(Healed::Healed));
    }
    if refused(round.heard()) <= quorum.spare() {
        let heard = round.heard();
        debug_assert!(failed(heard) > 0, "everything was heard");
        return Err(no_quorum(quorum, heard, outcome(heard), |_| "answered"));
    }
    let why = answers(round.heard()).find_map(|(_, answer)| match answer {
        Healed::Healed => None,
        other => Some(other.clone()),
    });
    quorum.opens.take_back(request.token);
    let sweeping = Arc::new(Sweeping::new(quorum, release.clone(), after, give_up));
    round.tell();
    let by = quorum.node_by(quorum.clock.now(), Moment::NEVER);
    quorum
        .ask(release, by, sweeping, |store, request, by| store.release(request, by))
        .send_off()
        .await;
    why.map(Reply::new).ok_or_else(|| StoreError::unknown("no node said why"))
}

/// A heal that was not enough.
struct Lost {
    open: Open,
    sweeping: Sweeping,
}

impl Late<Healed> for Lost {
    fn ended(&self, node: usize, heard: &Heard<Healed>) {
        let certain = heard.as_ref().is_ok_and(|reply| reply.answer != Healed::Healed);
        if self.open.is_taken_back() && !certain {
            self.sweeping.sweep(node, After::Anything);
        }
    }
}

/// Whether a node without the lease says so for a reason that a heal could mend.
pub(crate) fn is_missing(why: &NotHeld) -> bool {
    matches!(why, NotHeld::Absent | NotHeld::Expired | NotHeld::Taken)
}
