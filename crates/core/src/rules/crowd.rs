//! Grants beside others: readers, permits, holds of one owner, latches and barriers.
//!
//! ```text
//!   ask --- fits, and nobody waits before ---> a share of its own
//!     `---- else ---------------------------> a place in the line (line.rs); a lease that is
//!                                             given back goes to as many from its head as fit
//! ```
//! A holder of the same owner does not mind the line: who waits there waits for it.

use alloc::vec::Vec;

use crate::{
    AcquireRequest, Acquired, Crowd, Fence, FencingToken, ForeignKind, Grant, HandOff, Kind,
    LimitSet, Lines, Mode, Novelty, Place, Record, RecordState, Refusal, Retain, SetLimitRequest,
    Share, StoreNow, Wakeup,
};

use super::Rules;

/// The kind of the lock that a name is at the moment, if it is another one: of whoever holds it, or
/// else of whoever waits for it.
pub(super) fn other_kind(
    slot: &Option<Record>,
    lines: &mut dyn Lines,
    index: usize,
    kind: Kind,
    now: StoreNow,
) -> Option<ForeignKind> {
    let there = match slot {
        Some(record) if record.is_live(now) => Some(record.kind),
        _ => lines
            .first(index)
            .filter(|place| !place.is_lapsed(now.lease))
            .map(|place| place.mode.kind()),
    };
    there.filter(|&there| there != kind).map(|there| ForeignKind::Kind(there.as_str().into()))
}

/// Whether a lease of this mode has room beside what is held.
pub(super) fn fits(slot: &Option<Record>, mode: &Mode, now: StoreNow) -> bool {
    let live = slot.as_ref().filter(|record| record.is_live(now));
    let crowd = match live {
        Some(record) if record.state != RecordState::Shared => return false,
        // Behind a place that lapsed, one may wait that wants another kind of lock.
        Some(record) if record.kind != mode.kind() => return false,
        Some(record) => record.crowd.as_ref(),
        None => None,
    };
    match (mode, crowd) {
        (Mode::Opening { .. }, crowd) => crowd.is_some_and(Crowd::is_full),
        (Mode::Meeting { .. }, _) => false,
        (_, None) => true,
        (_, Some(crowd)) if crowd.shares.len() >= Crowd::MAX_SHARES => false,
        (Mode::Exclusive, Some(_)) => false,
        (Mode::Shared, Some(crowd)) => crowd.owner.is_none(),
        (Mode::Owned(owner), Some(crowd)) => crowd.owner.as_ref() == Some(owner),
        (Mode::Permits { permits, .. }, Some(crowd)) => {
            let limit = crowd.limit.unwrap_or(0);
            crowd.used().checked_add(*permits).is_some_and(|used| used <= limit)
        }
        (Mode::CountDown { .. }, Some(_)) => true,
    }
}

/// The limit that is kept, where it is another than what a mode says.
pub(super) fn other_limit(slot: &Option<Record>, mode: &Mode) -> Option<u32> {
    let record = slot.as_ref().filter(|record| record.kind == mode.kind())?;
    let kept = record.crowd.as_ref()?.limit?;
    (mode.limit() != Some(kept) || mode.weight() > kept).then_some(kept)
}

/// The crowd of a name, made where there is none; the record is one of this kind from then on.
fn crowd_of<'r>(slot: &'r mut Option<Record>, mode: &Mode, now: StoreNow) -> &'r mut Record {
    let record = slot.get_or_insert_with(|| Record {
        kind: mode.kind(),
        state: RecordState::Free,
        token: None,
        fencing_token: None,
        fence_by_token: false,
        first_fence: None,
        listener: None,
        revoked: false,
        unattended: false,
        end: now.lease,
        forget_at: now.wall,
        metadata: crate::Metadata::default(),
        crowd: None,
    });
    if record.kind != mode.kind() || record.crowd.is_none() {
        record.crowd = Some(Crowd { limit: mode.limit(), ..Crowd::default() });
    }
    record.kind = mode.kind();
    record.state = match record.state {
        RecordState::Shared => RecordState::Shared,
        // A lease that was held alone is over, or this would not be reached.
        _ => RecordState::Free,
    };
    record.token = None;
    record.fence_by_token = false;
    record.first_fence = None;
    record.listener = None;
    record.revoked = false;
    record.unattended = false;
    record.metadata = crate::Metadata::default();
    record
}

/// Adds a share.
pub(super) fn add(
    slot: &mut Option<Record>,
    mode: &Mode,
    share: Share,
    retain: Retain,
    now: StoreNow,
) {
    let record = crowd_of(slot, mode, now);
    let end = share.end;
    record.fencing_token = record.fencing_token.max(share.fencing_token);
    if let Some(crowd) = &mut record.crowd {
        if let Mode::Owned(owner) = mode {
            crowd.owner = Some(owner.clone());
        }
        if let Mode::CountDown { .. } = mode {
            // The steps of a latch are forgotten together.
            for step in &mut crowd.shares {
                step.end = step.end.max(share.end);
            }
        }
        // A token has one share, also one that got its lease by exchange while it waited.
        crowd.shares.retain(|other| other.token != share.token);
        crowd.shares.push(share);
    }
    record.refresh(now);
    let forget_at = Record::forget_time(end, record.fencing_token, retain, now);
    record.forget_at = record.forget_at.max(forget_at);
}

/// Adds the share of the caller.
fn admit(
    slot: &mut Option<Record>,
    lines: &mut dyn Lines,
    request: &AcquireRequest,
    fence: Fence,
    now: StoreNow,
) {
    lines.remove(0, request.token);
    let share = Share {
        token: request.token,
        fencing_token: fence.token(),
        weight: request.mode.weight(),
        end: now.lease.saturating_add(request.ttl.as_duration()),
        listener: request.listener,
        revoked: false,
        unattended: request.unattended,
        metadata: request.metadata.clone(),
        binding: request.binding.clone(),
    };
    add(slot, &request.mode, share, request.retain, now);
}

/// The share of a waiter whose turn has come.
pub(super) fn share_of(place: &Place, fence: Option<FencingToken>, now: StoreNow) -> Share {
    Share {
        token: place.token,
        fencing_token: fence,
        weight: place.mode.weight(),
        end: now.lease.saturating_add(place.claim.as_duration()),
        listener: place.listener,
        revoked: false,
        unattended: false,
        metadata: place.metadata.clone(),
        binding: place.binding.clone(),
    }
}

/// The fencing token that a new share of this mode gets where it gets none of its own: holds of one
/// owner have the same.
pub(super) fn shared_fence(slot: &Option<Record>, mode: &Mode) -> Option<FencingToken> {
    let crowd = slot.as_ref().and_then(|record| record.crowd.as_ref())?;
    match mode {
        Mode::Owned(_) => crowd.shares.iter().filter_map(|share| share.fencing_token).max(),
        _ => None,
    }
}

impl Rules {
    /// Takes one name beside others, or waits for it.
    pub(super) fn join(
        &self,
        slot: &mut Option<Record>,
        lines: &mut dyn Lines,
        request: &AcquireRequest,
        now: StoreNow,
    ) -> Acquired {
        if let Some(record) = slot {
            record.refresh(now);
        }
        if let Some(limit) = other_limit(slot, &request.mode) {
            return Acquired::Refused(Refusal::LimitDiffers { limit });
        }
        if !request.barging {
            self.pass_on(slot, lines, 0, Some(request.token), now);
        }
        let opened = slot.as_ref().is_some_and(|record| {
            record.is_live(now) && record.crowd.as_ref().is_some_and(Crowd::is_full)
        });
        match &request.mode {
            Mode::Opening { .. } | Mode::CountDown { .. } if opened => {
                lines.remove(0, request.token);
                let fence = slot.as_ref().and_then(|record| record.fencing_token);
                let fence = fence.map_or(Fence::None, Fence::Token);
                let ttl = request.ttl.as_duration();
                return Acquired::Granted(Grant::new(fence, ttl, Novelty::Fresh));
            }
            Mode::Meeting { parties } => {
                // Looked at before the others leave the line, so that nobody is sent away for it.
                let may = self.fence(alone(slot), request.floor, None, now).is_some();
                if may && let Some(others) = met(lines, request, *parties, now) {
                    return self.meet(slot, lines, request, others, now);
                }
            }
            _ => {}
        }
        let is_crowded = slot.as_ref().and_then(|record| record.crowd.as_ref());
        let is_crowded = is_crowded.is_some_and(|crowd| crowd.shares.len() >= Crowd::MAX_SHARES);
        if is_crowded && request.place.is_none() {
            return Acquired::Refused(Refusal::CrowdFull);
        }
        let reenters = shared_fence(slot, &request.mode).is_some()
            || matches!(request.mode, Mode::CountDown { .. });
        if !fits(slot, &request.mode, now) || !reenters && !is_next(lines, request, now) {
            if matches!(request.mode, Mode::Opening { .. } | Mode::Meeting { .. }) {
                // Nobody holds it yet: what waits here still makes the name what it is.
                let retain = request.retain;
                let record = crowd_of(slot, &request.mode, now);
                let forget_at = Record::forget_time(record.end, record.fencing_token, retain, now);
                record.forget_at = record.forget_at.max(forget_at);
            }
            return self.wait(alone(slot), lines, 0, request, now);
        }
        self.enter(slot, lines, request, now)
    }

    /// Grants a share to the caller.
    fn enter(
        &self,
        slot: &mut Option<Record>,
        lines: &mut dyn Lines,
        request: &AcquireRequest,
        now: StoreNow,
    ) -> Acquired {
        let fence = match shared_fence(slot, &request.mode) {
            Some(same) if fits(slot, &request.mode, now) => Some(Fence::Token(same)),
            _ => self.fence(alone(slot), request.floor, None, now),
        };
        let Some(fence) = fence else { return Acquired::Refused(Refusal::FenceAhead) };
        admit(slot, lines, request, fence, now);
        // Who was first may have kept others back that fit beside it; and a latch may be open now.
        self.pass_on(slot, lines, 0, None, now);
        let mut grant = Grant::new(fence, request.ttl.as_duration(), Novelty::Fresh);
        grant.waiting = lines.len(0);
        Acquired::Granted(grant)
    }

    /// The last party has come: all go on, and what they have is given back by each.
    fn meet(
        &self,
        slot: &mut Option<Record>,
        lines: &mut dyn Lines,
        request: &AcquireRequest,
        others: Vec<Place>,
        now: StoreNow,
    ) -> Acquired {
        let Some(fence) = self.fence(alone(slot), request.floor, None, now) else {
            return Acquired::Refused(Refusal::FenceAhead);
        };
        for place in others {
            let claim = place.claim.as_duration();
            let mut hand_off = HandOff::new(place.token, place.seen, now.lease, claim);
            hand_off.fencing_token = fence.token();
            // It has arrived, whether or not it hears of it.
            let _ = lines.offer(0, &place, Wakeup::Granted(hand_off));
            lines.remove(0, place.token);
            let share = share_of(&place, fence.token(), now);
            add(slot, &request.mode, share, place.retain, now);
        }
        admit(slot, lines, request, fence, now);
        Acquired::Granted(Grant::new(fence, request.ttl.as_duration(), Novelty::Fresh))
    }

    /// Changes the limit of a semaphore.
    pub fn set_limit(
        &self,
        slot: &mut Option<Record>,
        lines: &mut dyn Lines,
        request: &SetLimitRequest,
        now: StoreNow,
    ) -> LimitSet {
        if let Some(kind) = other_kind(slot, lines, 0, Kind::Semaphore, now) {
            return LimitSet::Foreign(kind);
        }
        let before = slot
            .as_ref()
            .filter(|record| record.kind == Kind::Semaphore)
            .and_then(|record| record.crowd.as_ref()?.limit);
        let mode = Mode::Permits { permits: 1, limit: request.limit };
        let record = crowd_of(slot, &mode, now);
        record.refresh(now);
        let mut used = 0;
        if let Some(crowd) = &mut record.crowd {
            crowd.limit = Some(request.limit);
            used = crowd.used();
        }
        let end = if record.is_live(now) { record.end } else { now.lease };
        let forget_at = Record::forget_time(end, record.fencing_token, request.retain, now);
        record.forget_at = record.forget_at.max(forget_at);
        self.pass_on(slot, lines, 0, None, now);
        LimitSet::Set { before, used }
    }
}

/// Whether nobody waits before the caller who insists on it.
fn is_next(lines: &mut dyn Lines, request: &AcquireRequest, now: StoreNow) -> bool {
    if request.barging {
        return true;
    }
    match lines.first(0) {
        None => true,
        Some(place) => place.token == request.token || place.barging || place.is_lapsed(now.lease),
    }
}

/// The places of the other parties, in their order, if they are enough with the caller.
fn met(
    lines: &mut dyn Lines,
    request: &AcquireRequest,
    parties: u32,
    now: StoreNow,
) -> Option<Vec<Place>> {
    let needed = usize::try_from(parties).unwrap_or(usize::MAX).saturating_sub(1);
    let known = lines.has(0, request.token);
    let there = lines.len(0).saturating_sub(u32::from(known));
    if usize::try_from(there).unwrap_or(0) < needed {
        return None;
    }
    // Who has lapsed is no party, and only a look finds out.
    let mut others = Vec::new();
    let mut mine = None;
    while let Some(place) = lines.first(0) {
        lines.remove(0, place.token);
        if place.token == request.token {
            mine = Some(place);
        } else if !place.is_lapsed(now.lease) {
            others.push(place);
        }
    }
    let enough = others.len() >= needed;
    let back = if enough { others.split_off(needed) } else { core::mem::take(&mut others) };
    for place in back {
        lines.put(0, place);
    }
    if let (false, Some(place)) = (enough, mine) {
        lines.put(0, place);
    }
    enough.then_some(others)
}

/// One record as the records of a request.
fn alone(slot: &mut Option<Record>) -> &mut [Option<Record>] {
    core::slice::from_mut(slot)
}
