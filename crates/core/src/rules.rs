//! What each verb does to the records of its names: the one place where it is decided in Rust.
//!
//! [`LockTable`](crate::LockTable) applies these rules to a map, the embedded file to rows inside a
//! transaction. The scripts of the Redis store say the same in Lua, and differential tests compare
//! the two. All checks come before the first change, so a refused request changes nothing, except
//! that a lease which is over may have been handed to the first in line.
//!
//! Who waits, and how a lease goes from one to the next, stands in [`line`]; what is granted beside
//! others in [`crowd`], and what is done to the lease of one of several in [`hold`].

mod crowd;
mod hold;
mod line;

use core::time::Duration;

use crate::{
    AcquireRequest, Acquired, Binding, Busy, DowngradeRequest, Downgraded, ExchangeRequest,
    Exchanged, Fence, FenceLimit, FencingToken, ForceReleaseRequest, Forced, Foreign, Grant,
    HealRequest, Healed, InspectRequest, Inspection, Kind, Lines, NotHeld, Novelty,
    RaiseFenceRequest, Raised, Record, RecordState, Refusal, ReleaseRequest, Released,
    RenewRequest, Renewed, RevokeRequest, Revoked, ShortenRequest, Shortened, StoreNow, StoreTime,
    Token, Wakeup,
};

/// The rules of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How far ahead of the store's clock a proposed fencing token may be.
    pub fence_limit: FenceLimit,
    /// How many places the line of a name has.
    pub max_waiting: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { fence_limit: FenceLimit::default(), max_waiting: Self::MAX_WAITING }
    }
}

/// The records of a request's names, in the order of the names. Forgotten ones are `None`.
type Records = [Option<Record>];

impl Rules {
    /// How many places a line has by default: a name that more wait for is a queue of work, and
    /// wants another tool.
    pub const MAX_WAITING: u32 = 10_000;

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

    /// Prolongs a lease; never shortens it and never brings one back.
    pub fn renew(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        request: &RenewRequest,
        now: StoreNow,
    ) -> Renewed {
        if let Some(why) = not_held(records, request.token, now) {
            return Renewed::NotHeld(why);
        }
        let end = now.lease.saturating_add(request.ttl.as_duration());
        let mut remaining = Duration::MAX;
        let single = records.len() == 1;
        let (mut revoked, mut last_fence) = (false, None);
        for record in records.iter_mut().flatten() {
            if record.state == RecordState::Shared {
                let (left, asked) = hold::prolong(record, request, end, now);
                revoked |= asked;
                remaining = remaining.min(left);
                continue;
            }
            record.end = record.end.max(end);
            if single && record.fence_by_token && record.first_fence.is_some() {
                self.widen(record, request.reserve, now);
                last_fence =
                    record.fencing_token.filter(|_| record.fencing_token != record.first_fence);
            }
            let forget_at =
                Record::forget_time(record.end, record.fencing_token, request.retain, now);
            record.forget_at = record.forget_at.max(forget_at);
            record.listener = request.listener.or(record.listener);
            record.unattended = request.unattended;
            revoked |= record.revoked;
            remaining = remaining.min(record.end.saturating_since(now.lease));
        }
        Renewed::Extended { remaining, last_fence, waiting: longest(records, lines), revoked }
    }

    /// Adds fencing tokens at the end of a range, as far as they do not run ahead of the clock.
    fn widen(&self, record: &mut Record, reserve: u32, now: StoreNow) {
        let reserve = reserve.min(AcquireRequest::MAX_RESERVE);
        let wider = record.fencing_token.and_then(|last| last.plus(reserve));
        let wider = wider.filter(|&last| self.fence_limit.allows(last, now.wall));
        record.fencing_token = wider.or(record.fencing_token);
    }

    /// Brings the end of a lease nearer; never prolongs it.
    pub fn shorten(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        request: &ShortenRequest,
        now: StoreNow,
    ) -> Shortened {
        if let Some(why) = not_held(records, request.token, now) {
            return Shortened::NotHeld(why);
        }
        let end = now.lease.saturating_add(request.ttl.as_duration());
        let mut remaining = Duration::ZERO;
        for (index, record) in records.iter_mut().flatten().enumerate() {
            let left = if record.state == RecordState::Shared {
                hold::shorten(record, request.token, end, now)
            } else {
                record.end = record.end.min(end);
                record.forget_at =
                    Record::forget_time(record.end, record.fencing_token, request.retain, now);
                record.end.saturating_since(now.lease)
            };
            remaining = remaining.max(left);
            // Whoever waits has set its timer by the old end.
            line::announce(lines, index, left, now);
        }
        Shortened::Shortened { remaining }
    }

    /// Frees every name that is still ours and hands it to the next in line; gives up a place. A
    /// lease that had ended stays as it is: it is free for everybody already, and a re-sent release
    /// must hear `Expired` again, not `Held`.
    pub fn release(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        request: &ReleaseRequest,
        now: StoreNow,
    ) -> Released {
        let mut worst = None;
        let mut withdrawn = false;
        for (index, slot) in records.iter_mut().enumerate() {
            withdrawn |= lines.remove(index, request.token);
            let before = slot.as_ref().map(|record| record.end);
            let answer = match &mut *slot {
                Some(record) if record.is_reserved_for(request.token, now) => {
                    withdrawn = true;
                    record.end = now.lease;
                    None
                }
                Some(record) if record.crowd.is_some() => Some(hold::release(record, request, now)),
                Some(record) if record.token == Some(request.token) => match record.state {
                    RecordState::Held if record.is_live(now) => {
                        free(record, request.retain, now);
                        Some(Released::Held)
                    }
                    RecordState::Free => Some(Released::Held),
                    _ => Some(Released::Expired),
                },
                other => match Record::not_held(other.as_ref(), request.token) {
                    NotHeld::Taken | NotHeld::Foreign(_) => Some(Released::Taken),
                    _ => Some(Released::Expired),
                },
            };
            worst = worst.max(answer);
            self.pass_on(slot, lines, index, None, now);
            line::announce_nearer(slot, lines, index, before, now);
        }
        // A place is given up before any name was held, so nothing else can be said of the rest.
        if withdrawn { Released::Withdrawn } else { worst.unwrap_or(Released::Expired) }
    }

    /// Exchanges the token of a lease: a new grant with a larger fencing token.
    pub fn exchange_token(
        &self,
        records: &mut Records,
        request: &ExchangeRequest,
        now: StoreNow,
    ) -> Exchanged {
        if let Some(grant) = repeated(records, request.to, now) {
            return Exchanged::Granted(grant);
        }
        if let Some(refusal) = refusal(records, request.to, request.deadline, now) {
            return Exchanged::Refused(refusal);
        }
        if let Some(why) = not_held(records, request.from, now) {
            return Exchanged::NotHeld(why);
        }
        let Some(fence) = self.fence(records, request.floor, None, now) else {
            return Exchanged::Refused(Refusal::FenceAhead);
        };
        let end = now.lease.saturating_add(request.ttl.as_duration());
        let mut remaining = Duration::MAX;
        for record in records.iter_mut().flatten() {
            if record.state == RecordState::Shared {
                remaining = remaining.min(hold::exchange(record, request, fence, end, now));
                continue;
            }
            record.token = Some(request.to);
            record.fencing_token = fence.token();
            record.fence_by_token = true;
            record.first_fence = fence.token();
            record.listener = request.listener;
            record.unattended = false;
            record.end = record.end.max(end);
            record.forget_at =
                Record::forget_time(record.end, record.fencing_token, request.retain, now);
            record.metadata = request.metadata.clone();
            remaining = remaining.min(record.end.saturating_since(now.lease));
        }
        Exchanged::Granted(Grant::new(fence, remaining, Novelty::Fresh))
    }

    /// Writes a larger fencing token to a lease that we hold.
    pub fn raise_fence(
        &self,
        records: &mut Records,
        request: &RaiseFenceRequest,
        now: StoreNow,
    ) -> Raised {
        if let Some(why) = not_held(records, request.token, now) {
            return Raised::NotHeld(why);
        }
        if !self.fence_limit.allows(request.fencing_token, now.wall) {
            return Raised::Refused(Refusal::FenceAhead);
        }
        let new = Some(request.fencing_token);
        for record in records.iter().flatten() {
            let in_crowd = record.live_share(request.token, now);
            let by_token =
                in_crowd.map_or(record.fence_by_token, |share| share.fencing_token == new);
            let ours = record.fencing_token == new && by_token;
            let current = record.fencing_token.filter(|&current| Some(current) >= new);
            if let Some(current) = current.filter(|_| !ours) {
                return Raised::Behind(current);
            }
        }
        for record in records.iter_mut().flatten() {
            if record.state == RecordState::Shared {
                hold::raise(record, request);
                continue;
            }
            record.fencing_token = new;
            record.fence_by_token = true;
            record.first_fence = new;
            let fence_instant = StoreTime::from_micros(request.fencing_token.as_u64());
            record.forget_at = record.forget_at.max(fence_instant);
        }
        Raised::Raised
    }

    /// Takes a lease that is provably ours elsewhere, where nobody holds it here.
    pub fn heal(&self, records: &mut Records, request: &HealRequest, now: StoreNow) -> Healed {
        let deadline_passed = request.deadline.is_some_and(|deadline| now.lease > deadline);
        if deadline_passed {
            return Healed::Refused(Refusal::DeadlinePassed);
        }
        let released = |record: &Record| {
            let spent = record.crowd.as_ref().is_some_and(|c| c.spent.contains(&request.token));
            spent || record.state == RecordState::Free && record.token == Some(request.token)
        };
        if records.iter().flatten().any(released) {
            return Healed::Refused(Refusal::TokenRetired);
        }
        let other = |slot: &Option<Record>| {
            slot.as_ref().is_some_and(|r| {
                r.is_live(now)
                    && r.token != Some(request.token)
                    && !r.is_live_for(request.token, now)
            })
        };
        if let Some(index) = records.iter().position(other) {
            return Healed::Busy(busy(records, index, &request.names, now));
        }
        let ahead = |token: FencingToken| !self.fence_limit.allows(token, now.wall);
        if request.fencing_token.is_some_and(ahead) {
            return Healed::Refused(Refusal::FenceAhead);
        }
        for slot in records.iter_mut() {
            if slot.as_ref().is_some_and(|record| record.is_live_for(request.token, now)) {
                continue;
            }
            let previous = slot.as_ref().and_then(|record| record.fencing_token);
            let fencing_token = previous.max(request.fencing_token);
            let written_before = slot
                .as_ref()
                .is_some_and(|record| record.token == Some(request.token) && record.fence_by_token);
            let end = now.lease.saturating_add(request.ttl.as_duration());
            *slot = Some(Record {
                kind: Kind::Lock,
                state: RecordState::Held,
                token: Some(request.token),
                fencing_token,
                fence_by_token: request.fencing_token > previous || written_before,
                first_fence: fencing_token,
                listener: None,
                revoked: false,
                unattended: false,
                end,
                forget_at: Record::forget_time(end, fencing_token, request.retain, now),
                metadata: request.metadata.clone(),
                crowd: None,
            });
        }
        Healed::Healed
    }

    /// Makes a lease that is held alone a shared one, which readers in the line join at once.
    pub fn downgrade(
        &self,
        slot: &mut Option<Record>,
        lines: &mut dyn Lines,
        request: &DowngradeRequest,
        binding: &Binding,
        now: StoreNow,
    ) -> Downgraded {
        let why = |slot: &Option<Record>| Record::not_held(slot.as_ref(), request.token);
        // Whoever re-enters or has permits holds nothing that could become a reader's.
        let is_other = |record: &Record| {
            let owner = record.crowd.as_ref().and_then(|crowd| crowd.owner.as_ref());
            record.kind != Kind::Lock || owner.is_some()
        };
        let Some(record) = slot
            .as_mut()
            .filter(|record| record.is_live_for(request.token, now) && !is_other(record))
        else {
            return Downgraded::NotHeld(why(slot));
        };
        let is_alone = record.state == RecordState::Held;
        if is_alone {
            hold::share_alone(record, binding);
            record.refresh(now);
        }
        let share = record.live_share(request.token, now);
        let remaining = share.map_or(Duration::ZERO, |s| s.end.saturating_since(now.lease));
        if is_alone {
            self.pass_on(slot, lines, 0, None, now);
        }
        Downgraded::Shared { remaining }
    }

    /// Looks at one name.
    pub fn inspect(
        &self,
        record: Option<&Record>,
        waiting: u32,
        _: &InspectRequest,
        now: StoreNow,
    ) -> Inspection {
        match record {
            Some(record) if record.is_live(now) => {
                let mut holder = record.holder(now);
                holder.waiting = waiting;
                Inspection::Held(holder)
            }
            other => Inspection::Free { fencing_token: other.and_then(|r| r.fencing_token) },
        }
    }

    /// Frees a name whoever holds it: its lease ends now. The record stays, so that the old holder
    /// is told that it expired, and a late copy of its acquire can't take the lock again.
    pub fn force_release(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        request: &ForceReleaseRequest,
        now: StoreNow,
    ) -> Forced {
        let mut forced = Forced::WasFree;
        for (index, slot) in records.iter_mut().enumerate() {
            if let Some(record) = slot.as_mut().filter(|record| record.is_live(now)) {
                let mut holder = record.holder(now);
                holder.waiting = lines.len(index);
                let crowd = record.crowd.take();
                free(record, request.retain, now);
                match crowd {
                    None => record.state = RecordState::Held,
                    Some(crowd) => record.crowd = Some(hold::broken(crowd)),
                }
                forced = Forced::Removed(holder);
            }
            self.pass_on(slot, lines, index, None, now);
        }
        forced
    }

    /// Asks the holder of one name to give it back.
    pub fn revoke(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        _: &RevokeRequest,
        now: StoreNow,
    ) -> Revoked {
        let held = |record: &&mut Record| {
            matches!(record.state, RecordState::Held | RecordState::Shared) && record.is_live(now)
        };
        let Some(record) = records.iter_mut().flatten().find(held) else {
            return Revoked::WasFree;
        };
        let mut holder = record.holder(now);
        holder.waiting = lines.len(0);
        if holder.unattended {
            return Revoked::Unattended(holder);
        }
        holder.revoked = true;
        if record.state == RecordState::Shared {
            hold::revoke(record, lines, now);
            return Revoked::Requested(holder);
        }
        record.revoked = true;
        if let (Some(listener), Some(token)) = (record.listener, record.token) {
            lines.tell(listener, Wakeup::Revoked(token));
        }
        Revoked::Requested(holder)
    }

    /// Whether what a client says of fencing tokens is not too far ahead of the clock.
    fn allows(&self, named: [Option<FencingToken>; 2], now: StoreNow) -> bool {
        named.into_iter().flatten().all(|token| self.fence_limit.allows(token, now.wall))
    }

    /// The fencing token of a new grant; nothing when what the client proposes is too far ahead,
    /// or the range is used up.
    fn fence(
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
fn repeated(records: &Records, token: Token, now: StoreNow) -> Option<Grant> {
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
fn refusal(
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

/// Why the token does not hold all of the names; nothing when it does.
fn not_held(records: &Records, token: Token, now: StoreNow) -> Option<NotHeld> {
    records
        .iter()
        .find(|record| !record.as_ref().is_some_and(|record| record.is_live_for(token, now)))
        .map(|record| Record::not_held(record.as_ref(), token))
}

fn busy(records: &Records, index: usize, names: &crate::Names, now: StoreNow) -> Busy {
    let holder = records[index].as_ref().map(|record| record.holder_for_contender(now));
    let holder = holder.unwrap_or_else(|| crate::Holder::new(None));
    Busy::new(names.as_slice()[index].clone(), holder)
}

fn free(record: &mut Record, retain: crate::Retain, now: StoreNow) {
    record.state = RecordState::Free;
    record.end = now.lease;
    record.forget_at = Record::forget_time(now.lease, record.fencing_token, retain, now);
    record.metadata = crate::Metadata::default();
    record.crowd = None;
    record.first_fence = None;
    record.listener = None;
    record.revoked = false;
    record.unattended = false;
}

/// How many wait for the name that most wait for.
fn longest(records: &Records, lines: &mut dyn Lines) -> u32 {
    (0..records.len()).map(|index| lines.len(index)).max().unwrap_or(0)
}
