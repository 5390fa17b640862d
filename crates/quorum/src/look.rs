//! Looking, and what is done to whoever holds a name: inspect, list, force, revoke.
//!
//! A name is held by whom a majority of all nodes names. As long as nodes that say nothing could
//! make one, it is shown as held: nobody who looks should think it free.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fencelock_core::{
    Cursor, ForceReleaseRequest, Forced, ForeignKind, Holder, InspectRequest, Inspection,
    ListRequest, Moment, Page, RevokeRequest, Revoked,
};
use fencelock_store::{Reply, StoreError, StoreResult};

use crate::{
    quorum::Quorum,
    round::{Heard, Ignored},
    tally::{answered, answers, count, failed, most_common, no_quorum, outcome},
};

/// Looks at one name on all nodes.
pub(crate) async fn inspect(
    quorum: &Arc<Quorum>,
    request: &InspectRequest,
    by: Moment,
) -> StoreResult<Inspection> {
    quorum.begin(by)?;
    let late = Arc::new(Ignored);
    let mut round =
        quorum.ask(request.clone(), by, late, |store, request, by| store.inspect(request, by));
    round.until(|heard| is_certain(quorum, heard)).await;
    let heard = round.heard();
    if answered(heard) < quorum.needed {
        let say = |answer: &Inspection| match answer {
            Inspection::Held(_) => "held",
            Inspection::Free { .. } => "free",
            _ => "a foreign value",
        };
        return Err(no_quorum(quorum, heard, fencelock_store::Outcome::NotDone, say));
    }
    Ok(Reply::new(merge(quorum, heard)))
}

fn held(heard: &[Option<Heard<Inspection>>]) -> impl Iterator<Item = &Holder> + Clone {
    let each = heard.iter().flatten().filter_map(|heard| heard.as_ref().ok());
    each.filter_map(|reply| match &reply.answer {
        Inspection::Held(holder) => Some(holder),
        _ => None,
    })
}

/// Who most nodes say holds it, as each of them tells it.
fn leading(heard: &[Option<Heard<Inspection>>]) -> Vec<&Holder> {
    let proof = most_common(held(heard).map(|holder| &holder.proof));
    held(heard).filter(|holder| Some(&holder.proof) == proof).collect()
}

/// Whether what is still to come changes nothing.
fn is_certain(quorum: &Quorum, heard: &[Option<Heard<Inspection>>]) -> bool {
    let silent = quorum.nodes.len() - answered(heard);
    let most = leading(heard).len();
    let foreign = count(heard, |answer| matches!(answer, Inspection::Foreign(_)));
    let answered = answered(heard) >= quorum.needed;
    most >= quorum.needed
        || foreign > quorum.spare()
        || (answered && most + silent < quorum.needed && foreign + silent <= quorum.spare())
        || failed(heard) > quorum.spare()
}

fn merge(quorum: &Quorum, heard: &[Option<Heard<Inspection>>]) -> Inspection {
    let foreign = answers(heard).filter_map(|(_, answer)| match answer {
        Inspection::Foreign(kind) => Some(kind),
        _ => None,
    });
    let foreign: Vec<&ForeignKind> = foreign.collect();
    if foreign.len() > quorum.spare() {
        return Inspection::Foreign(foreign[0].clone());
    }
    let silent = quorum.nodes.len() - answered(heard);
    let holders = leading(heard);
    if !holders.is_empty() && holders.len() + silent >= quorum.needed {
        return Inspection::Held(one(quorum, &holders));
    }
    let free = answers(heard).filter_map(|(_, answer)| match answer {
        Inspection::Free { fencing_token } => *fencing_token,
        Inspection::Held(holder) => holder.last_fence.max(holder.fencing_token),
        _ => None,
    });
    Inspection::Free { fencing_token: free.max() }
}

/// One holder out of what several nodes say of it.
fn one(quorum: &Quorum, seen: &[&Holder]) -> Holder {
    let mut holder = seen.first().map_or_else(|| Holder::new(None), |first| (*first).clone());
    let fence = most_common(seen.iter().map(|holder| holder.fencing_token));
    holder.fencing_token = fence.flatten();
    // The highest that any of them has: a node that is healed must not have less.
    holder.last_fence =
        seen.iter().map(|holder| holder.last_fence.max(holder.fencing_token)).max().flatten();
    let mut ends: Vec<_> = seen.iter().map(|holder| holder.remaining).collect();
    // The lease is over when the last node that the majority needs has ended it.
    ends.sort_by_key(|end| std::cmp::Reverse(end.unwrap_or(Duration::MAX)));
    holder.remaining = ends.get(quorum.needed - 1).or(ends.last()).copied().flatten();
    holder.waiting = 0;
    holder.revoked = seen.iter().any(|holder| holder.revoked);
    holder.unattended = seen.iter().all(|holder| holder.unattended);
    holder
}

/// Lists what a majority holds. One node after the other is listed, and each name that appears is
/// looked at everywhere: a name appears as often as nodes have it.
pub(crate) async fn list(
    quorum: &Arc<Quorum>,
    request: &ListRequest,
    by: Moment,
) -> StoreResult<Page> {
    quorum.begin(by)?;
    let mut at = Place::read(request.cursor.as_ref())?;
    let Some(node) = quorum.nodes.get(at.node) else { return Ok(Reply::new(Page::default())) };
    let mut asked = request.clone();
    asked.cursor = at.cursor.take();
    let node_by = quorum.node_by(quorum.clock.now(), by);
    let page = match node.ask(node.store.list(&asked, node_by)).await {
        Ok(reply) => reply.answer,
        // What a majority holds is on more nodes than may be missing.
        Err(error) if at.missing >= quorum.spare() => {
            return Err(too_few(quorum, request, error, by).await);
        }
        Err(_) => {
            at.missing += 1;
            Page::default()
        }
    };
    let mut locks = BTreeMap::new();
    for (name, _) in page.locks {
        let look = InspectRequest::new(name.clone());
        let seen = inspect(quorum, &look, by).await?.answer;
        if !matches!(seen, Inspection::Free { .. }) {
            locks.insert(name, seen);
        }
    }
    let next = match page.next {
        Some(cursor) => Some(Place { cursor: Some(cursor), ..at }),
        // A majority is on one of the first so many that can be asked.
        None if at.node + 1 > quorum.spare() + at.missing => None,
        None => Some(Place { node: at.node + 1, ..at }),
    };
    Ok(Reply::new(Page::new(locks.into_iter().collect(), next.map(|next| next.write()))))
}

/// Why a listing failed: what each node says, where too few of them say anything.
async fn too_few(
    quorum: &Arc<Quorum>,
    request: &ListRequest,
    last: StoreError,
    by: Moment,
) -> StoreError {
    let mut asked = request.clone();
    asked.cursor = None;
    let late = Arc::new(Ignored);
    let mut round = quorum.ask(asked, by, late, |store, request, by| store.list(request, by));
    round.until(|_| false).await;
    let heard = round.heard();
    if answered(heard) >= quorum.needed {
        return last;
    }
    no_quorum(quorum, heard, fencelock_store::Outcome::NotDone, |_: &Page| "listed")
}

/// Where a listing is: which node, where there, and how many nodes could not be asked.
#[derive(Default)]
struct Place {
    node: usize,
    missing: usize,
    cursor: Option<Cursor>,
}

impl Place {
    fn write(&self) -> Cursor {
        let small = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        let mut bytes = vec![small(self.node), small(self.missing)];
        if let Some(cursor) = &self.cursor {
            bytes.push(1);
            bytes.extend_from_slice(cursor.as_bytes());
        }
        Cursor::new(bytes)
    }

    fn read(cursor: Option<&Cursor>) -> Result<Self, StoreError> {
        let Some(cursor) = cursor else { return Ok(Self::default()) };
        match cursor.as_bytes() {
            [node, missing] => {
                Ok(Self { node: (*node).into(), missing: (*missing).into(), cursor: None })
            }
            [node, missing, 1, rest @ ..] => Ok(Self {
                node: (*node).into(),
                missing: (*missing).into(),
                cursor: Some(Cursor::new(rest)),
            }),
            _ => Err(StoreError::unsupported("the cursor is none of this store's")),
        }
    }
}

/// Frees a name on all nodes; done, when a majority has done it.
pub(crate) async fn force_release(
    quorum: &Arc<Quorum>,
    request: &ForceReleaseRequest,
    by: Moment,
) -> StoreResult<Forced> {
    quorum.begin(by)?;
    let late = Arc::new(Ignored);
    let mut round =
        quorum.ask(request.clone(), by, late, |s, request, by| s.force_release(request, by));
    // All of them, as far as they answer: what is left on a few holds the next one up.
    round.until(|heard| failed(heard) > quorum.spare()).await;
    let heard = round.heard();
    if answered(heard) < quorum.needed {
        return Err(no_quorum(quorum, heard, outcome(heard), |_| "done"));
    }
    let seen = answers(heard).map(|(_, answer)| match answer {
        Forced::Removed(holder) => Inspection::Held(holder.clone()),
        Forced::Foreign(kind) => Inspection::Foreign(kind.clone()),
        _ => Inspection::Free { fencing_token: None },
    });
    Ok(Reply::new(match merge_said(quorum, seen) {
        Inspection::Held(holder) => Forced::Removed(holder),
        Inspection::Foreign(kind) => Forced::Foreign(kind),
        Inspection::Free { .. } | _ => Forced::WasFree,
    }))
}

fn merge_said(quorum: &Quorum, seen: impl Iterator<Item = Inspection>) -> Inspection {
    let mut heard: Vec<_> = seen.map(|seen| Some(Ok(Reply::new(seen)))).collect();
    heard.resize_with(quorum.nodes.len(), || None);
    merge(quorum, &heard)
}

/// Asks the holder on all nodes: it hears it from each that it renews its lease on.
pub(crate) async fn revoke(
    quorum: &Arc<Quorum>,
    request: &RevokeRequest,
    by: Moment,
) -> StoreResult<Revoked> {
    quorum.begin(by)?;
    if !quorum.can.revoke {
        return Err(StoreError::unsupported(
            "not all nodes of the quorum can ask for a lease back",
        ));
    }
    let late = Arc::new(Ignored);
    let mut round =
        quorum.ask(request.clone(), by, late, |store, request, by| store.revoke(request, by));
    let requested = |heard: &[_]| count(heard, |said| matches!(said, Revoked::Requested(_)));
    round.until(|heard| requested(heard) >= quorum.needed || failed(heard) > quorum.spare()).await;
    let heard = round.heard();
    if answered(heard) < quorum.needed {
        return Err(no_quorum(quorum, heard, outcome(heard), |_| "answered"));
    }
    let unattended = count(heard, |said| matches!(said, Revoked::Unattended(_)));
    let seen = answers(heard).map(|(_, answer)| match answer {
        Revoked::Requested(holder) | Revoked::Unattended(holder) => {
            Inspection::Held(holder.clone())
        }
        Revoked::Foreign(kind) => Inspection::Foreign(kind.clone()),
        _ => Inspection::Free { fencing_token: None },
    });
    Ok(Reply::new(match merge_said(quorum, seen) {
        Inspection::Held(holder) if unattended > requested(heard) => Revoked::Unattended(holder),
        Inspection::Held(holder) => Revoked::Requested(holder),
        Inspection::Foreign(kind) => Revoked::Foreign(kind),
        Inspection::Free { .. } | _ => Revoked::WasFree,
    }))
}
