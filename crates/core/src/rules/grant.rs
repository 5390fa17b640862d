//! Taking names: a new grant for one or several, or the grant that a copy of the request had made.

use super::{Records, Rules, crowd, longest};
use crate::{
    AcquireRequest, Acquired, Fence, FencingToken, Foreign, Grant, Kind, Lines, Novelty, Record,
    RecordState, Refusal, StoreNow, StoreTime, Token,
};

impl Rules {
    /// Takes all names or none; leaves a place in the line of the first busy one, if asked to.
    pub fn acquire(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        request: &AcquireRequest,
        now: StoreNow,
    ) -> Acquired {
        if let Some(mut grant) = repeated(records, request.token, now) {
            grant.waiting = longest(records, lines);
            return Acquired::Granted(grant);
        }
        for (index, slot) in records.iter_mut().enumerate() {
            if let Some(kind) = crowd::other_kind(slot, lines, index, request.mode.kind(), now) {
                let name = request.names.as_slice()[index].clone();
                return Acquired::Foreign(Foreign::new(name, kind));
            }
        }
        if let Some(refusal) = refusal(records, request.token, request.deadline, now) {
            return Acquired::Refused(refusal);
        }
        if !request.mode.is_exclusive() {
            return match records {
                [slot] => self.join(slot, lines, request, now),
                _ => Acquired::Refused(Refusal::CrowdFull),
            };
        }
        if !request.barging {
            for (index, slot) in records.iter_mut().enumerate() {
                self.pass_on(slot, lines, index, Some(request.token), now);
            }
        }
        let other = |slot: &Option<Record>| {
            slot.as_ref().is_some_and(|r| r.is_live(now) && !r.is_reserved_for(request.token, now))
        };
        if let Some(index) = records.iter().position(other) {
            return self.wait(records, lines, index, request, now);
        }
        let Some(fence) = self.fence(records, request.floor, request.proposed, now) else {
            return Acquired::Refused(Refusal::FenceAhead);
        };
        let reserve = if records.len() == 1 { request.reserve } else { 0 };
        let last =
            fence.token().and_then(|token| token.plus(reserve.min(AcquireRequest::MAX_RESERVE)));
        if fence.token().is_some() && last.is_none() {
            return Acquired::Refused(Refusal::FenceAhead);
        }
        let end = now.lease.saturating_add(request.ttl.as_duration());
        for (index, slot) in records.iter_mut().enumerate() {
            lines.remove(index, request.token);
            let previous = slot.as_ref().and_then(|record| record.fencing_token);
            let fencing_token = match fence {
                Fence::Token(_) => last,
                // The floor is kept too: a copy of this request must hear the same number.
                Fence::Behind(_) | Fence::None => previous.max(request.floor),
            };
            *slot = Some(Record {
                kind: Kind::Lock,
                state: RecordState::Held,
                token: Some(request.token),
                fencing_token,
                fence_by_token: matches!(fence, Fence::Token(_)),
                first_fence: fence.token(),
                listener: request.listener,
                revoked: false,
                unattended: request.unattended,
                end,
                forget_at: Record::forget_time(end, fencing_token, request.retain, now),
                metadata: request.metadata.clone(),
                crowd: None,
            });
        }
        let mut grant = Grant::new(fence, request.ttl.as_duration(), Novelty::Fresh);
        grant.last_fence = last.filter(|_| last != fence.token());
        grant.waiting = longest(records, lines);
        Acquired::Granted(grant)
    }

    /// Whether what a client says of fencing tokens is not too far ahead of the clock.
    pub(super) fn allows(&self, named: [Option<FencingToken>; 2], now: StoreNow) -> bool {
        named.into_iter().flatten().all(|token| self.fence_limit.allows(token, now.wall))
    }

    /// The fencing token of a new grant; nothing when what the client proposes is too far ahead,
    /// or the range is used up.
    pub(super) fn fence(
        &self,
        records: &Records,
        floor: Option<FencingToken>,
        proposed: Option<FencingToken>,
        now: StoreNow,
    ) -> Option<Fence> {
        let previous = records.iter().flatten().filter_map(|record| record.fencing_token).max();
        if !self.allows([floor, proposed], now) {
            return None;
        }
        match proposed {
            None => FencingToken::mint(previous, floor, now.wall).map(Fence::Token),
            Some(proposed) => match previous.max(floor) {
                Some(highest) if proposed <= highest => Some(Fence::Behind(highest)),
                _ => Some(Fence::Token(proposed)),
            },
        }
    }
}

/// The grant that an earlier copy of this request made, if it still runs on all names.
///
/// Its fencing token counts only where every name has it, written by this token: names that were
/// raised or healed apart from each other need a larger one first.
pub(super) fn repeated(records: &Records, token: Token, now: StoreNow) -> Option<Grant> {
    let ours = |slot: &Option<Record>| slot.as_ref().is_some_and(|r| r.is_live_for(token, now));
    if !records.iter().all(ours) {
        return None;
    }
    if let [Some(record)] = records
        && let Some(share) = record.live_share(token, now)
    {
        let fence = share.fencing_token.map_or(Fence::None, Fence::Token);
        return Some(Grant::new(fence, share.end.saturating_since(now.lease), Novelty::Repeated));
    }
    let held = || records.iter().flatten();
    let remaining = held().map(|record| record.end.saturating_since(now.lease)).min()?;
    let highest = held().filter_map(|record| record.fencing_token).max();
    let written = held().all(|record| record.fence_by_token && record.fencing_token == highest);
    let own = held().find_map(Record::own_fence);
    let fence = match (highest, own) {
        (Some(_), Some(own)) if written => Fence::Token(own),
        (Some(highest), _) => Fence::Behind(highest),
        (None, _) => Fence::None,
    };
    let mut grant = Grant::new(fence, remaining, Novelty::Repeated);
    grant.last_fence = highest.filter(|_| written && highest != own);
    Some(grant)
}

/// Why a request for a new grant must not be carried out at all.
pub(super) fn refusal(
    records: &Records,
    token: Token,
    deadline: Option<StoreTime>,
    now: StoreNow,
) -> Option<Refusal> {
    // A token that is known here and does not hold all names has lost or released some of them:
    // this can only be a late copy of its request.
    let known = |r: &Record| {
        // One whose lease ended is forgotten with its share, however soon anybody looks.
        let spent = r.crowd.as_ref().is_some_and(|crowd| crowd.spent.contains(&token));
        spent
            || r.live_share(token, now).is_some()
            || r.token == Some(token) && !r.is_reserved_for(token, now)
    };
    if records.iter().flatten().any(known) {
        return Some(Refusal::TokenRetired);
    }
    deadline.filter(|&deadline| now.lease > deadline).map(|_| Refusal::DeadlinePassed)
}
