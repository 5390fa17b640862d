//! What each verb does to the records of its names: the one place where it is decided in Rust.
//!
//! [`LockTable`](crate::LockTable) applies these rules to a map, the embedded file to rows inside a
//! transaction. The scripts of the Redis store say the same in Lua, and differential tests compare
//! the two. All checks come before the first change, so a refused request changes nothing, except
//! that a lease which is over may have been handed to the first in line.
//!
//! Taking a name is in [`grant`], or in [`crowd`] where others hold it, too; what its holder does with
//! its lease in [`lease`], and in [`hold`] where it is one of several; who waits, and how a lease goes
//! from one to the next, in [`line`]. Here is how it is given back, and how it is looked at.

mod crowd;
mod grant;
mod hold;
mod lease;
mod line;

use core::time::Duration;

use crate::{
    Binding, Busy, DowngradeRequest, Downgraded, FenceLimit, ForceReleaseRequest, Forced,
    InspectRequest, Inspection, Kind, Lines, NotHeld, Record, RecordState, ReleaseRequest,
    Released, RevokeRequest, Revoked, StoreNow, Token, Wakeup,
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
        // Mostly a place is given up before any name was held, and nothing else can be said of the
        // rest. A lease may have been healed beside it (quorum): then what counts is that it was held.
        match worst {
            Some(Released::Held) => Released::Held,
            _ if withdrawn => Released::Withdrawn,
            other => other.unwrap_or(Released::Expired),
        }
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
