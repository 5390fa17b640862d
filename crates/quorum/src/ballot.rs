//! One attempt to acquire: won, when a majority of all nodes granted it in time.
//!
//! ```text
//!   ask all ---> enough granted ------> won: agree on one fencing token ---> granted
//!           \--> too many did not ----> lost: release wherever it may be, behind the request and
//!                                       until answered ---> busy, refused, or no quorum
//! ```
//! A lost ballot is over for its caller: what it left is taken back here. What a *dropped* one
//! left is the caller's, as with each store; the calls go on, so that its release comes behind them.

use std::{sync::Arc, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, Binding, Busy, Grant, Moment, Novelty, Refusal, ReleaseRequest,
    StoreOffset, StoreTime,
};
use fencelock_store::{BoxFuture, Outcome, Reply, StoreError, StoreErrorKind, StoreResult};

use crate::{
    fence::{self, Disagreement},
    node::Node,
    open::Open,
    quorum::Quorum,
    release::Sweeping,
    round::{Heard, Late, Round},
    sweeper::After,
    tally::{answered, answers, count, failed, majority, most_common, no_quorum},
};

/// Takes one or several names on a majority.
pub(crate) async fn acquire(
    quorum: &Arc<Quorum>,
    request: &AcquireRequest,
    by: Moment,
) -> StoreResult<Acquired> {
    let now = quorum.begin(by)?;
    check(quorum, request)?;
    let Some(proposal) = fence::propose(quorum, request, now) else {
        return Ok(Reply::new(Acquired::Refused(Refusal::FenceAhead)));
    };
    // An answer that comes when the lease is over is worth nothing.
    let node_by = quorum.node_by(now, by).min(now.saturating_add(request.ttl.into()));
    let mut asked = request.clone();
    asked.proposed = proposal.token;
    asked.binding = Binding::Unbound;
    (asked.reserve, asked.listener, asked.place) = (0, None, None);
    let ballot = Arc::new(Ballot::new(quorum, &asked, node_by));
    let mut round = ballot.ask(&asked, now, node_by);

    round.until(|heard| ballot.is_won(heard) || ballot.is_lost(heard)).await;
    if !ballot.is_won(round.heard()) {
        ballot.take_back(&mut round).await;
        round.until(|heard| ballot.is_explained(heard)).await;
        return ballot.explain(round.heard()).map(Reply::new);
    }
    if let Some(error) = quorum.twins() {
        ballot.take_back(&mut round).await;
        return Err(error);
    }
    match fence::agree(quorum, request, &proposal, round.heard(), by).await {
        Ok(fence) => Ok(Reply::new(Acquired::Granted(Grant::new(
            fence,
            ballot.remaining(round.heard()),
            ballot.novelty(round.heard()),
        )))),
        Err(why) => {
            ballot.take_back(&mut round).await;
            match why {
                Disagreement::Refused(why) => Ok(Reply::new(Acquired::Refused(why))),
                Disagreement::Failed(error) => Err(error),
            }
        }
    }
}

fn check(quorum: &Quorum, request: &AcquireRequest) -> Result<(), StoreError> {
    quorum.check_ttl(request.ttl)?;
    if request.deadline.is_some() {
        return Err(StoreError::unsupported("a quorum has no time of its own for a deadline"));
    }
    if !quorum.can.fencing && (request.floor.is_some() || request.proposed.is_some()) {
        return Err(StoreError::unsupported("not all nodes of the quorum have fencing tokens"));
    }
    if request.names.len() > quorum.can.max_names {
        let most = quorum.can.max_names;
        return Err(StoreError::unsupported(format!(
            "the nodes take at most {most} names at once"
        )));
    }
    Ok(())
}

/// One attempt: what was asked, and how what it left is found again.
struct Ballot {
    quorum: Arc<Quorum>,
    open: Open,
    sweeping: Sweeping,
    /// After this instant of its clock a node refuses the request. By node.
    deadlines: Vec<Option<StoreTime>>,
    ttl: Duration,
    node_by: Moment,
}

impl Ballot {
    fn new(quorum: &Arc<Quorum>, asked: &AcquireRequest, node_by: Moment) -> Self {
        // The offset itself may be wrong by as much as is not taken for a step.
        let latest = node_by.saturating_add(StoreOffset::STEP);
        let deadlines = quorum.nodes.iter().map(|node| {
            let known = node.store.capabilities().store_time;
            node.latest_at(latest).filter(|_| known)
        });
        let mut release = ReleaseRequest::new(asked.names.clone(), asked.token);
        release.retain = asked.retain;
        let give_up = node_by.saturating_add(asked.ttl.into());
        let after = vec![After::Anything; quorum.nodes.len()];
        Self {
            quorum: Arc::clone(quorum),
            open: quorum.opens.begin(asked.token),
            sweeping: Sweeping::new(quorum, release, after, give_up),
            deadlines: deadlines.collect(),
            ttl: asked.ttl.into(),
            node_by,
        }
    }

    fn ask(self: &Arc<Self>, asked: &AcquireRequest, now: Moment, by: Moment) -> Round<Acquired> {
        let nodes = self.quorum.nodes.iter();
        let out: Vec<_> = nodes.clone().map(|node| node.quarantined(now)).collect();
        let calls = nodes.enumerate().map(|(index, node)| {
            let mut asked = asked.clone();
            asked.deadline = self.deadlines[index];
            let call = ask_one(Arc::clone(node), asked, by);
            out[index].is_none().then_some(Box::pin(call) as BoxFuture<'static, Heard<Acquired>>)
        });
        let mut round = Round::new(calls, Arc::clone(self) as Arc<dyn Late<Acquired>>);
        for (index, why) in out.into_iter().enumerate() {
            if let Some(why) = why {
                round.note(index, why);
            }
        }
        round
    }

    fn is_won(&self, heard: &[Option<Heard<Acquired>>]) -> bool {
        count(heard, is_granted) >= self.quorum.needed
    }

    fn is_lost(&self, heard: &[Option<Heard<Acquired>>]) -> bool {
        count(heard, |answer| !is_granted(answer)) + failed(heard) > self.quorum.spare()
    }

    /// Whether it is known why it was lost: an answer of a majority, or that there is none.
    fn is_explained(&self, heard: &[Option<Heard<Acquired>>]) -> bool {
        answered(heard) >= self.quorum.needed || failed(heard) > self.quorum.spare()
    }

    fn explain(&self, heard: &[Option<Heard<Acquired>>]) -> Result<Acquired, StoreError> {
        let quorum = &self.quorum;
        if answered(heard) < quorum.needed {
            // Nothing of it will be counted, and what there is is being given back.
            return Err(no_quorum(quorum, heard, Outcome::NotDone, say));
        }
        let foreign = answers(heard).find_map(|(_, answer)| match answer {
            Acquired::Foreign(foreign) => Some(Acquired::Foreign(foreign.clone())),
            _ => None,
        });
        let blocking = count(heard, |answer| matches!(answer, Acquired::Foreign(_)));
        if let Some(foreign) = foreign.clone().filter(|_| blocking > quorum.spare()) {
            return Ok(foreign);
        }
        if let Some(busy) = self.busy(heard) {
            return Ok(Acquired::Busy(busy));
        }
        let refused =
            |kind: Refusal| answers(heard).any(|(_, answer)| *answer == Acquired::Refused(kind));
        let refusals = [Refusal::TokenRetired, Refusal::FenceAhead, Refusal::DeadlinePassed];
        if let Some(why) = refusals.into_iter().find(|why| refused(*why)) {
            return Ok(Acquired::Refused(why));
        }
        foreign.ok_or_else(|| no_quorum(quorum, heard, Outcome::NotDone, say))
    }

    /// Who is in the way: whom most nodes name, and when enough of them may be free.
    fn busy(&self, heard: &[Option<Heard<Acquired>>]) -> Option<Busy> {
        let busy = answers(heard).filter_map(|(_, answer)| match answer {
            Acquired::Busy(busy) => Some(busy),
            Acquired::Queued(queued) => Some(&queued.busy),
            _ => None,
        });
        let same = |busy: &&Busy| (busy.name.clone(), busy.holder.fencing_token);
        let common = most_common(busy.clone().map(|busy| same(&busy)))?;
        let mut shown = busy.clone().find(|busy| same(busy) == common)?.clone();
        let mut ends: Vec<_> = busy.map(|busy| busy.holder.remaining).collect();
        // One without an end ends last.
        ends.sort_by_key(|end| end.unwrap_or(Duration::MAX));
        let missing = self.quorum.needed.saturating_sub(count(heard, is_granted)).max(1);
        shown.holder.remaining = ends.get(missing - 1).or(ends.last()).copied().flatten();
        shown.holder.waiting = 0;
        Some(shown)
    }

    fn remaining(&self, heard: &[Option<Heard<Acquired>>]) -> Duration {
        let spans = grants(heard).map(|grant| grant.remaining).collect();
        majority(spans, self.quorum.needed).min(self.quorum.max_ttl.into())
    }

    fn novelty(&self, heard: &[Option<Heard<Acquired>>]) -> Novelty {
        let repeated = grants(heard).filter(|grant| grant.novelty == Novelty::Repeated).count();
        if repeated >= self.quorum.needed { Novelty::Repeated } else { Novelty::Fresh }
    }

    /// Sends a release to each node that has the lease, or may have it; in the same runtime, so
    /// that it comes behind the request.
    async fn take_back(&self, round: &mut Round<Acquired>) {
        let quorum = &self.quorum;
        quorum.opens.take_back(self.sweeping.request().token);
        let suspects: Vec<_> = round.heard().iter().map(suspicion).collect();
        // Those that are still to answer come to `ended`.
        round.tell();
        let after = suspects.iter().enumerate().map(|(node, suspicion)| match suspicion {
            Some(Suspicion::Unknown) => After::Stray(self.deadlines[node]),
            _ => After::Anything,
        });
        let give_up = self.node_by.saturating_add(self.ttl);
        let request = self.sweeping.request().clone();
        let sweeping = Sweeping::new(quorum, request.clone(), after.collect(), give_up);
        let by = quorum.node_by(quorum.clock.now(), Moment::NEVER);
        let request = Arc::new(request);
        let asked = |node: usize| suspects[node].is_some();
        quorum
            .ask_some(
                &request,
                by,
                Arc::new(sweeping),
                |store, request, by| store.release(request, by),
                asked,
            )
            .send_off()
            .await;
    }
}

impl Late<Acquired> for Ballot {
    fn ended(&self, node: usize, heard: &Heard<Acquired>) {
        if !self.open.is_taken_back() {
            return;
        }
        // The release may have come before it.
        match heard {
            Ok(reply) if is_granted(&reply.answer) => self.sweeping.sweep(node, After::Anything),
            Err(error) if error.outcome() == Outcome::Unknown => {
                self.sweeping.sweep(node, After::Stray(self.deadlines[node]));
            }
            _ => {}
        }
    }
}

async fn ask_one(node: Arc<Node>, asked: AcquireRequest, by: Moment) -> Heard<Acquired> {
    let heard = node.ask(node.store.acquire(&asked, by)).await;
    let granted = heard.as_ref().is_ok_and(|reply| is_granted(&reply.answer));
    match node.quarantined(node.store.clock().now()) {
        // The very answer tells that the node was restarted: it is not counted.
        Some(why) if granted => {
            let kind = StoreErrorKind::Unavailable;
            Err(StoreError::new(kind, Outcome::Unknown, why.to_string()))
        }
        _ => heard,
    }
}

/// Why a node may have the lease of a lost ballot.
#[derive(Clone, Copy)]
enum Suspicion {
    /// It said so.
    Granted,
    /// It has not answered yet.
    Pending,
    /// It did not answer in time.
    Unknown,
}

fn suspicion(heard: &Option<Heard<Acquired>>) -> Option<Suspicion> {
    match heard {
        None => Some(Suspicion::Pending),
        Some(Ok(reply)) => is_granted(&reply.answer).then_some(Suspicion::Granted),
        Some(Err(error)) => (error.outcome() == Outcome::Unknown).then_some(Suspicion::Unknown),
    }
}

fn is_granted(answer: &Acquired) -> bool {
    matches!(answer, Acquired::Granted(_))
}

pub(crate) fn grants(heard: &[Option<Heard<Acquired>>]) -> impl Iterator<Item = &Grant> + Clone {
    answers(heard).filter_map(|(_, answer)| match answer {
        Acquired::Granted(grant) => Some(grant),
        _ => None,
    })
}

fn say(answer: &Acquired) -> &'static str {
    match answer {
        Acquired::Granted(_) => "granted, and given back",
        Acquired::Busy(_) | Acquired::Queued(_) => "busy",
        Acquired::Refused(_) => "refused",
        Acquired::Foreign(_) => "a foreign value",
        _ => "something else",
    }
}
