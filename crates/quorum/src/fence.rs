//! One fencing token for a lease on many nodes, larger than all before it.
//!
//! Each node keeps the highest number that it accepted for a name. A number counts when a majority
//! accepted it, each because it was *above* its own and the lease was ours. Two such majorities
//! share a node, which accepted them one after the other: so no two are equal, and a later one is
//! larger, without any clock.
//!
//! The number is proposed with the request itself, as the nodes' time: mostly it is above what they
//! have, and no second round is needed.

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Fence, FencingToken, Moment, Names, RaiseFenceRequest, Raised, Refusal,
    StoreTime, Token,
};
use fencelock_store::{Clock, Outcome, StoreError, rt};

use crate::{
    quorum::Quorum,
    round::{Heard, Ignored},
    tally::{count, most_common, no_quorum},
};

/// The fencing token that a ballot goes out with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proposal {
    /// Nothing, where the nodes have no fencing tokens.
    pub(crate) token: Option<FencingToken>,
    /// The nodes' clocks were not known: it follows the clock of this machine.
    is_guess: bool,
}

/// Why there is no fencing token.
pub(crate) enum Disagreement {
    /// The nodes refused it.
    Refused(Refusal),
    /// They could not be asked.
    Failed(StoreError),
}

/// How often a number is raised: the answers tell by how much, so more than this means that
/// somebody raises against us.
const RAISES_MAX: u32 = 3;

/// What to propose; nothing when the range is used up.
pub(crate) fn propose(quorum: &Quorum, request: &AcquireRequest, now: Moment) -> Option<Proposal> {
    if !quorum.can.fencing {
        return Some(Proposal { token: None, is_guess: false });
    }
    if request.proposed.is_some() {
        return Some(Proposal { token: request.proposed, is_guess: false });
    }
    let time = time_of_nodes(quorum, now);
    let token = FencingToken::mint(None, request.floor, time.unwrap_or_else(rt::wall_now))?;
    Some(Proposal { token: Some(token), is_guess: time.is_none() })
}

/// What the clocks of the nodes show, as far as a majority is known: the middle, so that one wrong
/// clock says nothing.
fn time_of_nodes(quorum: &Quorum, now: Moment) -> Option<StoreTime> {
    match &quorum.clock {
        // They are on this machine, and have its wall clock.
        Clock::Monotonic => Some(rt::wall_now()),
        // A test's clock is the nodes' only one.
        Clock::Manual(clock) => Some(StoreTime::from_micros(clock.now().as_nanos() / 1_000)),
        _ => {
            let mut known: Vec<_> =
                quorum.nodes.iter().filter_map(|node| node.latest_at(now)).collect();
            known.sort_unstable();
            (known.len() >= quorum.needed).then(|| known[known.len() / 2])
        }
    }
}

/// The fencing token of a ballot that was won.
pub(crate) async fn agree(
    quorum: &Arc<Quorum>,
    request: &AcquireRequest,
    proposal: &Proposal,
    heard: &[Option<Heard<fencelock_core::Acquired>>],
    by: Moment,
) -> Result<Fence, Disagreement> {
    if !quorum.can.fencing {
        return Ok(Fence::None);
    }
    let fences = crate::ballot::grants(heard).map(|grant| grant.fence);
    let highest = fences.clone().filter_map(number).max();
    let agreed = agreed(quorum, fences);
    if request.proposed.is_some() {
        // The caller raises it, as it proposed it.
        return Ok(match (agreed, highest) {
            (Some(agreed), _) => Fence::Token(agreed),
            (None, Some(highest)) => Fence::Behind(highest),
            (None, None) => Fence::None,
        });
    }
    let time = time_of_nodes(quorum, quorum.clock.now()).filter(|_| proposal.is_guess);
    let too_low =
        |agreed: FencingToken| time.is_some_and(|time| agreed.as_u64() < time.as_micros());
    match agreed {
        Some(agreed) if !too_low(agreed) => Ok(Fence::Token(agreed)),
        // The clock of this machine is behind that of the nodes, which may have forgotten a higher
        // number than they answered.
        _ => {
            let out = |node: usize| {
                let no = heard[node].as_ref().is_some_and(|heard| {
                    !matches!(heard, Ok(reply) if matches!(reply.answer, fencelock_core::Acquired::Granted(_)))
                });
                no || quorum.nodes[node].quarantined(quorum.clock.now()).is_some()
            };
            let time = time.unwrap_or(StoreTime::from_micros(1));
            raise(quorum, &request.names, request.token, highest, time, by, out)
                .await
                .map(Fence::Token)
        }
    }
}

/// The number that a majority has.
pub(crate) fn agreed(
    quorum: &Quorum,
    fences: impl Iterator<Item = Fence> + Clone,
) -> Option<FencingToken> {
    let tokens = fences.filter_map(Fence::token);
    let common = most_common(tokens.clone())?;
    (tokens.filter(|token| *token == common).count() >= quorum.needed).then_some(common)
}

/// The number in an answer, accepted or not.
pub(crate) fn number(fence: Fence) -> Option<FencingToken> {
    match fence {
        Fence::Token(token) | Fence::Behind(token) => Some(token),
        _ => None,
    }
}

/// Writes a number above `highest` to a majority of the nodes where the lease is ours.
pub(crate) async fn raise(
    quorum: &Arc<Quorum>,
    names: &Names,
    token: Token,
    mut highest: Option<FencingToken>,
    time: StoreTime,
    by: Moment,
    out: impl Fn(usize) -> bool,
) -> Result<FencingToken, Disagreement> {
    let mut tries = 0;
    loop {
        tries += 1;
        quorum.begin(by).map_err(Disagreement::Failed)?;
        let ahead = Disagreement::Refused(Refusal::FenceAhead);
        let number = FencingToken::mint(highest, None, time).ok_or(ahead)?;
        let request = Arc::new(RaiseFenceRequest::new(names.clone(), token, number));
        let mut round = quorum.ask_some(
            &request,
            by,
            Arc::new(Ignored),
            |store, request, by| store.raise_fence(request, by),
            |node| !out(node),
        );
        let raised = |heard: &[_]| count(heard, |answer| *answer == Raised::Raised);
        round.until(|heard| raised(heard) >= quorum.needed).await;
        let heard = round.heard();
        if raised(heard) >= quorum.needed {
            return Ok(number);
        }
        let behind = crate::tally::answers(heard).filter_map(|(_, answer)| match answer {
            Raised::Behind(highest) => Some(*highest),
            _ => None,
        });
        let seen = behind.max();
        if count(heard, |answer| *answer == Raised::Refused(Refusal::FenceAhead)) > 0 {
            return Err(Disagreement::Refused(Refusal::FenceAhead));
        }
        if seen.is_none() || tries == RAISES_MAX {
            let say = |answer: &Raised| match answer {
                Raised::Raised => "the fencing token was written",
                Raised::NotHeld(_) => "the lease ended before its fencing token was written",
                _ => "the fencing token was not written",
            };
            let error = no_quorum(quorum, heard, Outcome::NotDone, say);
            return Err(Disagreement::Failed(error));
        }
        highest = highest.max(seen).max(Some(number));
    }
}
