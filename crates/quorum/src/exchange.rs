//! A fresh token for a lease: a new grant, with a fencing token that a majority agrees on.
//!
//! The nodes mint one each; unless a majority has the same, the highest is raised by one.

use std::sync::Arc;

use fencelock_core::{
    Binding, ExchangeRequest, Exchanged, Fence, Grant, Moment, NotHeld, Novelty, Refusal,
    ReleaseRequest, StoreTime,
};
use fencelock_store::{Reply, StoreError, StoreResult};

use crate::{
    fence::{self, Disagreement},
    open::Open,
    quorum::Quorum,
    release::Sweeping,
    renew::reason,
    round::{Heard, Late},
    sweeper::After,
    tally::{answers, count, failed, majority, no_quorum, outcome},
};

/// Exchanges the token on a majority.
pub(crate) async fn exchange_token(
    quorum: &Arc<Quorum>,
    request: &ExchangeRequest,
    by: Moment,
) -> StoreResult<Exchanged> {
    let now = quorum.begin(by)?;
    quorum.check_ttl(request.ttl)?;
    if request.deadline.is_some() {
        return Err(StoreError::unsupported("a quorum has no time of its own for a deadline"));
    }
    if request.floor.is_some() && !quorum.can.fencing {
        return Err(StoreError::unsupported("not all nodes of the quorum have fencing tokens"));
    }
    // The old token is nobody's from here on: what it left is not healed any more.
    quorum.opens.take_back(request.from);
    let mut asked = request.clone();
    (asked.binding, asked.listener) = (Binding::Unbound, None);
    let lost = Arc::new(Lost::new(quorum, request, quorum.node_by(now, by)));
    let late = Arc::clone(&lost) as Arc<dyn Late<Exchanged>>;
    let mut round =
        quorum.ask(asked, by, late, |store, request, by| store.exchange_token(request, by));
    let spare = quorum.spare();
    let refused = |heard: &[_]| count(heard, |answer| !is_granted(answer));
    round
        .until(|heard| {
            count(heard, is_granted) >= quorum.needed || refused(heard) + failed(heard) > spare
        })
        .await;
    if count(round.heard(), is_granted) >= quorum.needed {
        let heard = round.heard();
        let spans = grants(heard).map(|grant| grant.remaining).collect();
        let repeated = grants(heard).filter(|grant| grant.novelty == Novelty::Repeated).count();
        let novelty = if repeated >= quorum.needed { Novelty::Repeated } else { Novelty::Fresh };
        let fence = fence_of(quorum, request, heard, by).await;
        return match fence {
            Ok(fence) => {
                let grant = Grant::new(fence, majority(spans, quorum.needed), novelty);
                Ok(Reply::new(Exchanged::Granted(grant)))
            }
            Err(why) => {
                lost.take_back(quorum).await;
                match why {
                    Disagreement::Refused(why) => Ok(Reply::new(Exchanged::Refused(why))),
                    Disagreement::Failed(error) => Err(error),
                }
            }
        };
    }
    round.until(|heard| refused(heard) > spare).await;
    let heard = round.heard();
    if refused(heard) <= spare {
        // A majority may have it: who asks again with the same token hears.
        let say = |answer: &Exchanged| if is_granted(answer) { "exchanged" } else { "not held" };
        return Err(no_quorum(quorum, heard, outcome(heard), say));
    }
    let answer = refusal(heard);
    round.tell();
    lost.take_back(quorum).await;
    Ok(Reply::new(answer))
}

/// Why a majority did not: mostly, that it does not have the lease.
fn refusal(heard: &[Option<Heard<Exchanged>>]) -> Exchanged {
    let why = answers(heard).filter_map(|(_, answer)| match answer {
        Exchanged::NotHeld(why) => Some(why),
        _ => None,
    });
    let refused = answers(heard).find_map(|(_, answer)| match answer {
        Exchanged::Refused(why) => Some(*why),
        _ => None,
    });
    match refused {
        Some(why) if why == Refusal::FenceAhead || reason_count(why, heard) => {
            Exchanged::Refused(why)
        }
        _ if why.clone().count() > 0 => Exchanged::NotHeld(reason(why)),
        Some(why) => Exchanged::Refused(why),
        None => Exchanged::NotHeld(NotHeld::Absent),
    }
}

/// Whether more nodes refused it for this than say that the lease is not held.
fn reason_count(why: Refusal, heard: &[Option<Heard<Exchanged>>]) -> bool {
    let not_held = count(heard, |answer| matches!(answer, Exchanged::NotHeld(_)));
    count(heard, |answer| *answer == Exchanged::Refused(why)) > not_held
}

async fn fence_of(
    quorum: &Arc<Quorum>,
    request: &ExchangeRequest,
    heard: &[Option<Heard<Exchanged>>],
    by: Moment,
) -> Result<Fence, Disagreement> {
    if !quorum.can.fencing {
        return Ok(Fence::None);
    }
    let fences = grants(heard).map(|grant| grant.fence);
    if let Some(agreed) = fence::agreed(quorum, fences.clone()) {
        return Ok(Fence::Token(agreed));
    }
    let highest = fences.filter_map(fence::number).max();
    let out = |node: usize| {
        let granted =
            |heard: &Heard<Exchanged>| heard.as_ref().is_ok_and(|reply| is_granted(&reply.answer));
        heard[node].as_ref().is_some_and(|heard| !granted(heard))
    };
    let start = StoreTime::from_micros(1);
    let names = &request.names;
    fence::raise(quorum, names, request.to, highest, start, by, out).await.map(Fence::Token)
}

fn is_granted(answer: &Exchanged) -> bool {
    matches!(answer, Exchanged::Granted(_))
}

fn grants(heard: &[Option<Heard<Exchanged>>]) -> impl Iterator<Item = &Grant> + Clone {
    let each = heard.iter().flatten().filter_map(|heard| heard.as_ref().ok());
    each.filter_map(|reply| match &reply.answer {
        Exchanged::Granted(grant) => Some(grant),
        _ => None,
    })
}

/// What an exchange that is no majority's left at some nodes.
struct Lost {
    open: Open,
    sweeping: Sweeping,
}

impl Lost {
    fn new(quorum: &Arc<Quorum>, request: &ExchangeRequest, node_by: Moment) -> Self {
        let mut release = ReleaseRequest::new(request.names.clone(), request.to);
        release.retain = request.retain;
        let after = vec![After::Anything; quorum.nodes.len()];
        // It never moves an end back, so the old lease may have run longer than the new ttl.
        let give_up = node_by.saturating_add(quorum.max_ttl.into());
        let sweeping = Sweeping::new(quorum, release, after, give_up);
        Self { open: quorum.opens.begin(request.to), sweeping }
    }

    async fn take_back(&self, quorum: &Arc<Quorum>) {
        let request = self.sweeping.request().clone();
        quorum.opens.take_back(request.token);
        let by = quorum.node_by(quorum.clock.now(), Moment::NEVER);
        let sweeping = Arc::new(self.sweeping.clone());
        quorum
            .ask(request, by, sweeping, |store, request, by| store.release(request, by))
            .send_off()
            .await;
    }
}

impl Late<Exchanged> for Lost {
    fn ended(&self, node: usize, heard: &Heard<Exchanged>) {
        let certain = heard.as_ref().is_ok_and(|reply| !is_granted(&reply.answer));
        if self.open.is_taken_back() && !certain {
            self.sweeping.sweep(node, After::Anything);
        }
    }
}
