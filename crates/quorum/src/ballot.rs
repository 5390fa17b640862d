//! One attempt to acquire: won, when a majority of all nodes granted it in time.
//!
//! ```text
//!   ask all ---> enough granted ------> won: agree on one fencing token ---> granted
//!           \--> too many did not ----> lost: release wherever it may be, behind the request and
//!                                       until answered ---> busy, refused, or no quorum
//! ```
//! A lost ballot is over for its caller: what it left is taken back here. What a *dropped* one
//! left is the caller's, as with each store; the calls go on, so that its release comes behind them.
//!
//! Only its places stay, where the caller wants to be told (see `ears`): they hold nothing, and say
//! where the lock may be free. The token is used up all the same, since a release of it may be on
//! its way to any node: the next ballot has another one, and the caller gives up the old places by
//! a release. Of a ballot that was won a place may stay where another still had the lock; it goes
//! with the lease, or lapses. To take it away any sooner would be a release that may arrive late,
//! when the node was healed and counts.

use std::{sync::Arc, time::Duration};

use fencelock_core::{
    AcquireRequest, Acquired, Binding, Busy, Fence, Grant, Moment, Novelty, Queued, Refusal,
    ReleaseRequest, StoreOffset, StoreTime,
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
    asked.reserve = 0;
    // A place that insists would be handed a piece of the lock.
    asked.place = request.place.filter(|_| request.barging);
    let ballot = Arc::new(Ballot::new(quorum, &asked, node_by));
    let mut round = ballot.ask(&asked, now, node_by);

    round.until(|heard| ballot.is_won(heard) || ballot.is_lost(heard)).await;
    if !ballot.is_won(round.heard()) {
        return ballot.lose(round).await.map(Reply::new);
    }
    if let Some(error) = quorum.twins() {
        ballot.take_back(&mut round, Places::Given).await;
        return Err(error);
    }
    match fence::agree(quorum, request, &proposal, round.heard(), by).await {
        Ok(fence) => Ok(Reply::new(Acquired::Granted(ballot.grant(fence, round.heard())))),
        Err(why) => {
            ballot.take_back(&mut round, Places::Given).await;
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
    /// The caller wants to be told when the lock may be free.
    waits: bool,
}

/// What becomes of the places of a ballot that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// They stay, for the caller to be told.
    Kept,
    /// They are given up.
    Given,
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
            waits: asked.place.is_some(),
        }
    }

    fn ask(self: &Arc<Self>, asked: &AcquireRequest, now: Moment, by: Moment) -> Round<Acquired> {
        let nodes = self.quorum.nodes.iter();
        let out: Vec<_> = nodes.clone().map(|node| node.quarantined(now)).collect();
        let calls = nodes.enumerate().map(|(index, node)| {
            let mut asked = asked.clone();
            asked.deadline = self.deadlines[index];
            asked.listener = self.quorum.ears.at(asked.listener, index);
            // One that is told nothing would be in the way of those that are.
            asked.place = asked.place.filter(|_| asked.listener.is_some());
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

    /// Takes back what was granted, and says why it was not enough.
    async fn lose(&self, mut round: Round<Acquired>) -> Result<Acquired, StoreError> {
        let places = if self.waits { Places::Kept } else { Places::Given };
        self.take_back(&mut round, places).await;
        round.until(|heard| self.is_explained(heard)).await;
        let explained = self.explain(round.heard());
        let is_told = matches!(explained, Ok(Acquired::Queued(_)));
        if !is_told && best_position(round.heard()).is_some() {
            self.take_back(&mut round, Places::Given).await;
        }
        explained
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
            return Ok(match best_position(heard) {
                Some(position) => Acquired::Queued(Queued::new(busy, position)),
                None => Acquired::Busy(busy),
            });
        }
        let refused =
            |kind: Refusal| answers(heard).any(|(_, answer)| *answer == Acquired::Refused(kind));
        let refusals = [
            Refusal::TokenRetired,
            Refusal::FenceAhead,
            Refusal::DeadlinePassed,
            Refusal::QueueFull,
        ];
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

    fn grant(&self, fence: Fence, heard: &[Option<Heard<Acquired>>]) -> Grant {
        let mut grant = Grant::new(fence, self.remaining(heard), self.novelty(heard));
        grant.waiting = grants(heard).map(|grant| grant.waiting).max().unwrap_or(0);
        grant
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
    async fn take_back(&self, round: &mut Round<Acquired>, places: Places) {
        let quorum = &self.quorum;
        quorum.opens.take_back(self.sweeping.request().token);
        // Where nobody granted it, those that are still to answer will hardly do: they may leave a
        // place, and should one of them grant it after all, it is swept.
        let leaves_pending = places == Places::Kept && count(round.heard(), is_granted) == 0;
        let suspects: Vec<_> = round
            .heard()
            .iter()
            .map(|heard| suspicion(heard, places))
            .map(|found| found.filter(|it| !(leaves_pending && *it == Suspicion::Pending)))
            .collect();
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
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    /// It said so.
    Granted,
    /// It has not the lease, but a place that nobody wants any more.
    Queued,
    /// It has not answered yet.
    Pending,
    /// It did not answer in time.
    Unknown,
}

fn suspicion(heard: &Option<Heard<Acquired>>, places: Places) -> Option<Suspicion> {
    match heard {
        None => Some(Suspicion::Pending),
        Some(Ok(reply)) => match &reply.answer {
            Acquired::Granted(_) => Some(Suspicion::Granted),
            Acquired::Queued(_) => (places == Places::Given).then_some(Suspicion::Queued),
            _ => None,
        },
        Some(Err(error)) => (error.outcome() == Outcome::Unknown).then_some(Suspicion::Unknown),
    }
}

/// The place in the line that is nearest to the head of any.
fn best_position(heard: &[Option<Heard<Acquired>>]) -> Option<u32> {
    let positions = answers(heard).filter_map(|(_, answer)| match answer {
        Acquired::Queued(queued) => Some(queued.position),
        _ => None,
    });
    positions.min()
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
