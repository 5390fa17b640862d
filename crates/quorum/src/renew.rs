//! Renewals: a lease goes on when a majority prolonged what it still had.
//!
//! A node that has lost it is healed afterwards and counts from the next renewal on. A lease that
//! a majority has not any more is lost, and what others still have of it is given back.

use std::sync::{Arc, OnceLock};

use fencelock_core::{Moment, NotHeld, ReleaseRequest, RenewRequest, Renewed};
use fencelock_store::{Reply, StoreError, StoreResult};

use crate::{
    heal,
    open::Open,
    quorum::Quorum,
    release::Sweeping,
    round::{Heard, Late},
    sweeper::After,
    tally::{answered, answers, majority, most_common, no_quorum, outcome},
};

/// A batch on its way.
struct Renewal {
    quorum: Arc<Quorum>,
    batch: Vec<RenewRequest>,
    /// In the order of the batch: a release of a lease stops its healing.
    opens: Vec<Arc<Open>>,
    sent: Moment,
    /// Which leases go on; set with the verdict.
    standing: OnceLock<Vec<bool>>,
}

/// Prolongs leases on a majority: one answer for each, in the order of the batch. One that asks for
/// more than the quorum allows is not asked for, and spoils none of the others.
///
/// # Errors
/// All of them ask for more.
pub(crate) async fn renew(
    quorum: &Arc<Quorum>,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    quorum.begin(by)?;
    if batch.len() > RenewRequest::MAX_BATCH {
        return Err(StoreError::unsupported("a batch of too many leases"));
    }
    let is_bearable = |request: &RenewRequest| request.ttl <= quorum.max_ttl;
    let bearable: Vec<_> = batch.iter().filter(|request| is_bearable(request)).cloned().collect();
    if let (true, Some(refused)) = (bearable.is_empty(), batch.first()) {
        quorum.check_ttl(refused.ttl)?;
    }
    let is_whole = bearable.len() == batch.len();
    let reply = ask(quorum, bearable, by).await?;
    if is_whole {
        return Ok(reply);
    }
    Ok(reply.map(|answers| {
        let mut answers = answers.into_iter();
        let mut answer = |request: &RenewRequest| {
            let asked = is_bearable(request).then(|| answers.next()).flatten();
            asked.unwrap_or(Renewed::Unknown)
        };
        batch.iter().map(&mut answer).collect()
    }))
}

async fn ask(
    quorum: &Arc<Quorum>,
    mut batch: Vec<RenewRequest>,
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let sent = quorum.begin(by)?;
    for request in &mut batch {
        (request.listener, request.reserve) = (None, 0);
    }
    let opens = batch.iter().map(|request| Arc::new(quorum.opens.begin(request.token)));
    let renewal = Arc::new(Renewal {
        quorum: Arc::clone(quorum),
        opens: opens.collect(),
        batch: batch.clone(),
        sent,
        standing: OnceLock::new(),
    });
    let late = Arc::clone(&renewal) as Arc<dyn Late<Vec<Renewed>>>;
    let mut round = quorum.ask(batch, by, late, |store, batch, by| store.renew(batch, by));
    let count = renewal.batch.len();
    round
        .until(|heard| {
            answered(heard) >= quorum.needed
                && (0..count).all(|lease| verdict(quorum, heard, lease) != Renewed::Unknown)
        })
        .await;
    let heard = round.heard();
    if answered(heard) < quorum.needed {
        let say = |_: &Vec<Renewed>| "answered";
        return Err(no_quorum(quorum, heard, outcome(heard), say));
    }
    let verdicts: Vec<_> = (0..count).map(|lease| verdict(quorum, heard, lease)).collect();
    // A verdict that came too late says nothing of what stands now.
    let in_time = quorum.clock.now() < by;
    let stands = |verdict: &Renewed| in_time && matches!(verdict, Renewed::Extended { .. });
    let _first = renewal.standing.set(verdicts.iter().map(stands).collect());
    for (lease, verdict) in verdicts.iter().enumerate() {
        if matches!(verdict, Renewed::NotHeld(_)) {
            renewal.give_back(lease, heard).await;
        }
    }
    for (node, heard) in heard.iter().enumerate() {
        if let Some(heard) = heard {
            renewal.ended(node, heard);
        }
    }
    Ok(Reply::new(verdicts))
}

fn verdict(quorum: &Quorum, heard: &[Option<Heard<Vec<Renewed>>>], lease: usize) -> Renewed {
    let said = || answers(heard).filter_map(|(_, answers)| answers.get(lease));
    let spans: Vec<_> = said().filter_map(Renewed::remaining).collect();
    if spans.len() >= quorum.needed {
        let remaining = majority(spans, quorum.needed);
        let mut extended = Renewed::extended(remaining);
        if let Renewed::Extended { revoked, .. } = &mut extended {
            *revoked = said().any(|said| matches!(said, Renewed::Extended { revoked: true, .. }));
        }
        return extended;
    }
    let not_held = said().filter_map(|said| match said {
        Renewed::NotHeld(why) => Some(why),
        _ => None,
    });
    if not_held.clone().count() > quorum.spare() {
        return Renewed::NotHeld(reason(not_held));
    }
    Renewed::Unknown
}

/// Why a lease is gone, as most nodes say.
pub(crate) fn reason<'a>(said: impl Iterator<Item = &'a NotHeld> + Clone) -> NotHeld {
    most_common(said).cloned().unwrap_or(NotHeld::Absent)
}

impl Renewal {
    /// Gives back what is left of a lost lease.
    async fn give_back(&self, lease: usize, heard: &[Option<Heard<Vec<Renewed>>>]) {
        let (quorum, renewed) = (&self.quorum, &self.batch[lease]);
        quorum.opens.take_back(renewed.token);
        let suspect = |node: usize| match &heard[node] {
            Some(Ok(reply)) => !matches!(reply.answer.get(lease), Some(Renewed::NotHeld(_))),
            Some(Err(_)) | None => true,
        };
        let mut request = ReleaseRequest::new(renewed.names.clone(), renewed.token);
        request.retain = renewed.retain;
        let give_up = self.sent.saturating_add(quorum.max_ttl.into());
        let after = vec![After::Anything; quorum.nodes.len()];
        let sweeping = Arc::new(Sweeping::new(quorum, request.clone(), after, give_up));
        let by = quorum.node_by(quorum.clock.now(), Moment::NEVER);
        let request = Arc::new(request);
        let round = quorum.ask_some(
            &request,
            by,
            sweeping,
            |s, request, by| s.release(request, by),
            suspect,
        );
        round.send_off().await;
    }
}

impl Late<Vec<Renewed>> for Renewal {
    /// Heals the leases that stand and that this node has not.
    fn ended(&self, node: usize, heard: &Heard<Vec<Renewed>>) {
        let (Ok(reply), Some(standing)) = (heard, self.standing.get()) else { return };
        for (lease, answer) in reply.answer.iter().enumerate() {
            let missing = matches!(answer, Renewed::NotHeld(why) if heal::is_missing(why));
            if missing && standing.get(lease) == Some(&true) {
                let open = Arc::clone(&self.opens[lease]);
                heal::begin(&self.quorum, node, &self.batch[lease], open, self.sent);
            }
        }
    }
}
