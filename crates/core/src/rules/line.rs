//! The line of a name: who waits for it, and how a lease goes from one to the next.
//!
//! A lease that is over is passed on by whatever step of the store comes next at its name: the
//! release itself, in the common case; the question of any waiter, when a holder died. The
//! fencing token of the grant is minted in that step, so its order is the order of the line.

use core::time::Duration;

use crate::{
    AcquireRequest, Acquired, Crowd, FencingToken, HandOff, Kind, Lines, Mode, Place, Queued,
    Record, RecordState, Refusal, StoreNow, StoreTime, Token, Told, Wakeup,
};

use super::{
    Records, Rules, busy,
    crowd::{self, claim_of, fits, other_limit, share_of, shared_fence},
};

/// How many places whose waiters are gone one step passes over; the next step goes on. A step of
/// the store must stay short.
const MAX_PASSED_OVER: u32 = 1_000;

impl Rules {
    /// Hands a name that nobody holds to the first in its line, unless that is `keep`, the caller,
    /// who is about to be granted it anyway.
    pub(super) fn pass_on(
        &self,
        slot: &mut Option<Record>,
        lines: &mut dyn Lines,
        index: usize,
        keep: Option<Token>,
        now: StoreNow,
    ) {
        if let Some(record) = slot {
            record.refresh(now);
        }
        let mut joined = false;
        for _ in 0..MAX_PASSED_OVER {
            if is_held_alone(slot, now) {
                return;
            }
            let Some(place) = lines.first(index) else { return };
            if place.is_lapsed(now.lease) {
                lines.remove(index, place.token);
                continue;
            }
            if keep == Some(place.token) {
                return;
            }
            let is_over =
                matches!(place.mode, Mode::Opening { .. }) && fits(slot, &place.mode, now);
            if is_over || other_limit(slot, &place.mode).is_some() {
                // It is to ask: the latch is open, or what it waits for is not to be had any more.
                let _ = lines.offer(index, &place, Wakeup::Turn(place.token));
                lines.remove(index, place.token);
                continue;
            }
            if !fits(slot, &place.mode, now) {
                if joined {
                    announce(lines, index, left_for(slot, &place.mode, now), now);
                }
                return;
            }
            if place.barging {
                // It does not insist: the lock stays free for whoever asks first.
                if lines.offer(index, &place, Wakeup::Turn(place.token)) == Told::Perhaps {
                    return;
                }
                lines.remove(index, place.token);
                continue;
            }
            if !place.mode.is_exclusive() {
                match hand_share(slot, lines, index, &place, now) {
                    Handed::Over => joined = true,
                    Handed::ToNobody => {}
                    Handed::NoNumber => return,
                }
            } else if hand_alone(slot, lines, index, place, now) {
                return;
            }
        }
    }

    /// A name is busy: leaves or refreshes a place in its line, if that is wanted.
    pub(super) fn wait(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        index: usize,
        request: &AcquireRequest,
        now: StoreNow,
    ) -> Acquired {
        let mut busy = busy(records, index, &request.names, now);
        // Where nobody holds it (a latch that nobody counted down yet), nothing ends by itself.
        let live = records[index].as_ref().is_some_and(|record| record.is_live(now));
        busy.holder.remaining = live.then(|| left_for(&records[index], &request.mode, now));
        let Some(wish) = request.place else {
            busy.holder.waiting = lines.len(index);
            return Acquired::Busy(busy);
        };
        if !self.allows([request.floor, None], now) {
            return Acquired::Refused(Refusal::FenceAhead);
        }
        let known = lines.has(index, request.token);
        let length = lines.len(index);
        if !known && length >= self.max_waiting {
            return Acquired::Refused(Refusal::QueueFull);
        }
        if records.len() > 1 {
            self.leave_other_lines(records, lines, index, request.token, now);
        }
        let place = Place {
            token: request.token,
            is_set: records.len() > 1,
            listener: request.listener,
            seen: now.lease,
            live: wish.live,
            claim: wish.claim.min(request.ttl),
            retain: request.retain,
            metadata: request.metadata.clone(),
            binding: request.binding.clone(),
            floor: request.floor,
            reserve: if records.len() > 1 { 0 } else { request.reserve },
            barging: request.barging,
            mode: request.mode.clone(),
        };
        let position = lines.put(index, place);
        // The holder may be passing the lease around in its own process, since nobody waited.
        if length == 0
            && let Some(record) = &records[index]
            && let (Some(listener), Some(token)) = (record.listener, record.token)
        {
            lines.tell(listener, Wakeup::Waiting(token));
        }
        busy.holder.waiting = lines.len(index);
        Acquired::Queued(Queued::new(busy, position))
    }

    /// A set that moves on to the line of another name holds nothing and waits nowhere else.
    fn leave_other_lines(
        &self,
        records: &mut Records,
        lines: &mut dyn Lines,
        index: usize,
        token: Token,
        now: StoreNow,
    ) {
        for (other, slot) in records.iter_mut().enumerate() {
            if other == index {
                continue;
            }
            let mut left = lines.remove(other, token);
            if let Some(record) = slot.as_mut().filter(|r| r.is_reserved_for(token, now)) {
                // Free, and last used by nobody: the set will ask with the same token again.
                record.state = RecordState::Free;
                record.token = Some(Token::from_bytes([0; Token::BYTES]));
                left = true;
            }
            if left {
                // It may have been the first in line of a name whose lease is over.
                self.pass_on(slot, lines, other, None, now);
            }
        }
    }
}

/// Whether somebody holds the name whom nobody can join.
fn is_held_alone(slot: &Option<Record>, now: StoreNow) -> bool {
    slot.as_ref().is_some_and(|record| record.is_live(now) && record.state != RecordState::Shared)
}

/// How long it takes at most until somebody who waits in this mode has reason to look: alone, until
/// the last lease is over; else until any is.
fn left_for(slot: &Option<Record>, mode: &Mode, now: StoreNow) -> Duration {
    let Some(record) = slot else { return Duration::ZERO };
    let first = record.crowd.as_ref().and_then(Crowd::first_end);
    let end = first.filter(|_| !mode.is_exclusive()).unwrap_or(record.end);
    end.saturating_since(now.lease)
}

/// Hands the name to the first in line alone. Whether that is the end of it: it has it now, or the
/// range of fencing tokens is used up.
fn hand_alone(
    slot: &mut Option<Record>,
    lines: &mut dyn Lines,
    index: usize,
    place: Place,
    now: StoreNow,
) -> bool {
    let previous = slot.as_ref().and_then(|record| record.fencing_token);
    let Some((first, last)) = range(&place, previous, now) else { return true };
    let mut hand_off = HandOff::new(place.token, place.seen, now.lease, place.claim.as_duration());
    hand_off.fencing_token = first;
    hand_off.last_fence = last.filter(|_| last != first);
    hand_off.waiting = lines.len(index).saturating_sub(1);
    let wakeup = if place.is_set { Wakeup::Turn(place.token) } else { Wakeup::Granted(hand_off) };
    let told = lines.offer(index, &place, wakeup);
    lines.remove(index, place.token);
    if told == Told::Nobody {
        return false;
    }
    let left = place.claim.as_duration();
    *slot = Some(handed(place, previous, first, last, now));
    announce(lines, index, left, now);
    true
}

/// Hands a share to the first in line, beside those who have one.
fn hand_share(
    slot: &mut Option<Record>,
    lines: &mut dyn Lines,
    index: usize,
    place: &Place,
    now: StoreNow,
) -> Handed {
    let previous = slot.as_ref().and_then(|record| record.fencing_token);
    let same = shared_fence(slot, &place.mode);
    let fence = same.or_else(|| FencingToken::mint(previous, place.floor, now.wall));
    if fence.is_none() {
        return Handed::NoNumber;
    }
    let mut hand_off = HandOff::new(place.token, place.seen, now.lease, claim_of(place));
    hand_off.fencing_token = fence;
    hand_off.waiting = lines.len(index).saturating_sub(1);
    let told = lines.offer(index, place, Wakeup::Granted(hand_off));
    lines.remove(index, place.token);
    if told == Told::Nobody {
        return Handed::ToNobody;
    }
    let share = share_of(place, fence, now);
    crowd::add(slot, &place.mode, share, place.retain, now);
    Handed::Over
}

/// What came of handing a share to a place.
enum Handed {
    /// Its waiter has it.
    Over,
    /// Nobody hears it: it was passed over.
    ToNobody,
    /// There are no more fencing tokens.
    NoNumber,
}

/// Tells the first in line when the lease before it ends, so that it looks then.
pub(super) fn announce(lines: &mut dyn Lines, index: usize, left: Duration, now: StoreNow) {
    if let Some(next) = lines.first(index).filter(|place| !place.is_lapsed(now.lease))
        && let Some(listener) = next.listener
    {
        lines.tell(listener, Wakeup::Next(next.token, left));
    }
}

/// Tells the first in line when those before it are over sooner than they were: one of several gave
/// its lease back, and those of the others end before.
pub(super) fn announce_nearer(
    slot: &Option<Record>,
    lines: &mut dyn Lines,
    index: usize,
    before: Option<StoreTime>,
    now: StoreNow,
) {
    let Some(record) = slot.as_ref().filter(|record| record.state == RecordState::Shared) else {
        return;
    };
    if before > Some(record.end)
        && let Some(first) = lines.first(index)
        && first.mode.is_exclusive()
    {
        announce(lines, index, record.end.saturating_since(now.lease), now);
    }
}

/// The fencing tokens of a lease that is handed to a place: none for a set, which is granted later.
/// Nothing when the range is used up.
fn range(
    place: &Place,
    previous: Option<FencingToken>,
    now: StoreNow,
) -> Option<(Option<FencingToken>, Option<FencingToken>)> {
    if place.is_set {
        return Some((None, previous));
    }
    let first = FencingToken::mint(previous, place.floor, now.wall)?;
    let last = first.plus(place.reserve.min(AcquireRequest::MAX_RESERVE))?;
    Some((Some(first), Some(last)))
}

fn handed(
    place: Place,
    previous: Option<FencingToken>,
    first: Option<FencingToken>,
    last: Option<FencingToken>,
    now: StoreNow,
) -> Record {
    let end = now.lease.saturating_add(place.claim.as_duration());
    let fencing_token = last.or(previous);
    Record {
        kind: Kind::Lock,
        state: if place.is_set { RecordState::Reserved } else { RecordState::Held },
        token: Some(place.token),
        fencing_token,
        fence_by_token: first.is_some(),
        first_fence: first,
        listener: place.listener,
        revoked: false,
        unattended: false,
        end,
        forget_at: Record::forget_time(end, fencing_token, place.retain, now),
        metadata: place.metadata,
        crowd: None,
    }
}
