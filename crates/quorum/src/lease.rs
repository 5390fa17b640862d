//! The verbs that change a lease which a majority has: each is done when a majority did it.

use std::sync::Arc;

use fencelock_core::{
    Moment, NotHeld, RaiseFenceRequest, Raised, Refusal, ShortenRequest, Shortened,
};
use fencelock_store::{Reply, StoreError, StoreResult};

use crate::{
    quorum::Quorum,
    renew::reason,
    round::Ignored,
    tally::{answers, count, majority, no_quorum, outcome},
};

/// Brings the end nearer: what a majority has ends by then, and what others have holds nobody up.
pub(crate) async fn shorten(
    quorum: &Arc<Quorum>,
    request: &ShortenRequest,
    by: Moment,
) -> StoreResult<Shortened> {
    quorum.begin(by)?;
    let late = Arc::new(Ignored);
    let mut round =
        quorum.ask(request.clone(), by, late, |store, request, by| store.shorten(request, by));
    let done = |answer: &Shortened| matches!(answer, Shortened::Shortened { .. });
    let enough = quorum.needed;
    round
        .until(|heard| count(heard, done) >= enough || count(heard, |a| !done(a)) > quorum.spare())
        .await;
    let heard = round.heard();
    if count(heard, done) >= enough {
        let spans = answers(heard).filter_map(|(_, answer)| match answer {
            Shortened::Shortened { remaining } => Some(*remaining),
            _ => None,
        });
        let remaining = majority(spans.collect(), enough);
        return Ok(Reply::new(Shortened::Shortened { remaining }));
    }
    let why = answers(heard).filter_map(|(_, answer)| match answer {
        Shortened::NotHeld(why) => Some(why),
        _ => None,
    });
    if why.clone().count() > quorum.spare() {
        return Ok(Reply::new(Shortened::NotHeld(reason(why))));
    }
    let say = |answer: &Shortened| if done(answer) { "shortened" } else { "not held" };
    Err(no_quorum(quorum, heard, outcome(heard), say))
}

/// Writes a larger fencing token to a majority.
pub(crate) async fn raise_fence(
    quorum: &Arc<Quorum>,
    request: &RaiseFenceRequest,
    by: Moment,
) -> StoreResult<Raised> {
    quorum.begin(by)?;
    if !quorum.can.fencing {
        return Err(StoreError::unsupported("not all nodes of the quorum have fencing tokens"));
    }
    let late = Arc::new(Ignored);
    let mut round =
        quorum.ask(request.clone(), by, late, |store, request, by| store.raise_fence(request, by));
    let raised = |answer: &Raised| *answer == Raised::Raised;
    round
        .until(|heard| {
            count(heard, raised) >= quorum.needed
                || count(heard, |answer| !raised(answer)) > quorum.spare()
        })
        .await;
    let heard = round.heard();
    if count(heard, raised) >= quorum.needed {
        return Ok(Reply::new(Raised::Raised));
    }
    if count(heard, |answer| !raised(answer)) <= quorum.spare() {
        let say = |answer: &Raised| if raised(answer) { "written" } else { "not written" };
        return Err(no_quorum(quorum, heard, outcome(heard), say));
    }
    let why = answers(heard).filter_map(|(_, answer)| match answer {
        Raised::NotHeld(why) => Some(why),
        _ => None,
    });
    if why.clone().count() > quorum.spare() {
        return Ok(Reply::new(Raised::NotHeld(reason(why))));
    }
    let behind = answers(heard).filter_map(|(_, answer)| match answer {
        Raised::Behind(highest) => Some(*highest),
        _ => None,
    });
    Ok(Reply::new(match behind.max() {
        Some(highest) => Raised::Behind(highest),
        None if count(heard, |answer| matches!(answer, Raised::Refused(_))) > 0 => {
            Raised::Refused(Refusal::FenceAhead)
        }
        None => Raised::NotHeld(NotHeld::Absent),
    }))
}
