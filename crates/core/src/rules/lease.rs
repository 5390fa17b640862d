//! What the holder of a lease does with it: longer, shorter, another token, a larger number; and a
//! lease that is provably its own elsewhere.

use core::time::Duration;

use super::{Records, Rules, busy, grant, hold, line, longest, not_held};
use crate::{
    AcquireRequest, ExchangeRequest, Exchanged, FencingToken, Grant, HealRequest, Healed, Kind,
    Lines, Novelty, RaiseFenceRequest, Raised, Record, RecordState, Refusal, RenewRequest, Renewed,
    ShortenRequest, Shortened, StoreNow, StoreTime,
};

impl Rules {
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

    /// Exchanges the token of a lease: a new grant with a larger fencing token.
    pub fn exchange_token(
        &self,
        records: &mut Records,
        request: &ExchangeRequest,
        now: StoreNow,
    ) -> Exchanged {
        if let Some(grant) = grant::repeated(records, request.to, now) {
            return Exchanged::Granted(grant);
        }
        if let Some(refusal) = grant::refusal(records, request.to, request.deadline, now) {
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
}
