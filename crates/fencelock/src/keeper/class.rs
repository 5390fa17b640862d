//! Leases of about the same length: from a power of two, in ms, to twice that.
//!
//! ```text
//!   waiting, by the moment they are due ---> ready, by the end of the lease ---> a batch
//!       |                                                                          ^
//!       +--------------- due within a 30th of the ttl: fills the batch ------------+
//! ```
//! Where the store is slow, `ready` is what has to wait for a place, and the lease that ends first
//! goes first. Short leases never wait for the calls of long ones.

use std::{sync::Arc, time::Duration};

use fencelock_core::{Moment, RenewRequest, RenewalSchedule};

use super::{
    slab::{Kept, Slab},
    timers::{Timer, Timers},
};

#[derive(Default)]
pub(super) struct Class {
    waiting: Timers,
    ready: Timers,
    /// Batches that are on their way.
    running: usize,
    /// When the next batch may start, were there no bursts.
    pace: Moment,
}

/// Which class a lease of this length is in.
pub(super) fn class_of(term: Duration) -> u32 {
    u32::try_from(term.as_millis()).unwrap_or(u32::MAX).max(1).ilog2()
}

/// The shortest of its leases.
fn shortest(class: u32) -> Duration {
    Duration::from_millis(1 << class)
}

/// A moment that is shared with those just after it, unless that has come already.
///
/// A thousandth of the ttl: that much too early costs nothing, and two million leases have no more
/// than some thousand different moments.
fn coarse(class: u32, moment: Moment, now: Moment) -> Moment {
    let grain = (1_000_000 << class) >> 10;
    let nanos = moment.as_nanos();
    let earlier = Moment::from_nanos(nanos - nanos % grain);
    if earlier > now { earlier } else { moment }
}

impl Class {
    /// Enough to keep a connection busy; more at once would only queue up at a slow store.
    pub(super) const RUNNING_MAX: usize = 4;
    /// Renewals that are due within this part of the ttl go along with one that is due now.
    const SLACK_DIVISOR: u32 = 30;

    /// Sets a timer for what is due then, of a lease that ends at `end`.
    pub(super) fn wait(
        &mut self,
        class: u32,
        due: Moment,
        end: Moment,
        now: Moment,
        timer: Timer,
    ) -> Moment {
        // The end itself is told on time.
        let at = if due < end { coarse(class, due, now) } else { end };
        self.waiting.insert(at, timer);
        at
    }

    /// Puts what is due in the order of the ends.
    pub(super) fn ripen(&mut self, class: u32, slab: &mut Slab, now: Moment) {
        while let Some((_, timer)) = self.waiting.pop(now) {
            match slab.at(timer) {
                Some(slot) => self.ready.insert(coarse(class, slot.end(), now), timer),
                None => slab.dropped(),
            }
        }
    }

    /// Those whose end has come, in whatever number, or about to.
    pub(super) fn ended(&mut self, class: u32, slab: &mut Slab, now: Moment) -> Vec<Kept> {
        let mut ended = Vec::new();
        // Whoever looks at them ends them, or plans them anew.
        let again = now.saturating_add(shortest(class) / 10);
        while let Some((_, timer)) = self.ready.pop(now) {
            let Some(cell) = slab.at(timer).and_then(|slot| slot.cell().map(Arc::clone)) else {
                slab.dropped();
                continue;
            };
            let timer = slab.replace(timer);
            self.waiting.insert(again, timer);
            ended.push(Kept { timer, cell });
        }
        ended
    }

    /// The next batch, when one is due and may start: it has a place until [`Class::finished`].
    pub(super) fn start(
        &mut self,
        class: u32,
        slab: &mut Slab,
        now: Moment,
        chance: u32,
    ) -> Option<Vec<Kept>> {
        let gap = gap(class, slab.len());
        if self.running >= Self::RUNNING_MAX || self.next_start(gap) > now {
            return None;
        }
        let mut batch = Vec::new();
        let mut room = RenewRequest::MAX_BATCH;
        gather(&mut self.ready, Moment::NEVER, slab, &mut room, &mut batch);
        if batch.is_empty() {
            return None;
        }
        let soon = now.saturating_add(shortest(class) / Self::SLACK_DIVISOR);
        gather(&mut self.waiting, soon, slab, &mut room, &mut batch);
        for kept in &mut batch {
            // Should no answer come: the next try, the same for all of them.
            let Some(slot) = slab.at(kept.timer) else { continue };
            let end = slot.end();
            let again = now.saturating_add(RenewalSchedule::pause(slot.term(), chance)).min(end);
            kept.timer = slab.replace(kept.timer);
            self.wait(class, again, end, now, kept.timer);
        }
        self.running += 1;
        self.pace = self.pace.max(now).saturating_add(gap);
        Some(batch)
    }

    /// A batch that was started has ended. True when others may have waited for its place.
    pub(super) fn finished(&mut self) -> bool {
        debug_assert!(self.running > 0, "only what was started ends");
        self.running = self.running.saturating_sub(1);
        self.ready.first() < Moment::NEVER
    }

    /// When there is something to do.
    pub(super) fn next(&self, class: u32, leases: usize) -> Moment {
        let end = self.ready.first();
        let start = if end == Moment::NEVER || self.running >= Self::RUNNING_MAX {
            end
        } else {
            self.next_start(gap(class, leases)).min(end)
        };
        self.waiting.first().min(start)
    }

    /// As many as have places may start at once after a pause.
    fn next_start(&self, gap: Duration) -> Moment {
        let burst = u32::try_from(Self::RUNNING_MAX).unwrap_or(1) - 1;
        self.pace.saturating_sub(gap * burst)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.ready.clear();
    }
}

/// Takes leases until the batch is full.
fn gather(
    timers: &mut Timers,
    by: Moment,
    slab: &mut Slab,
    room: &mut usize,
    batch: &mut Vec<Kept>,
) {
    while *room > 0
        && let Some((at, timer)) = timers.pop(by)
    {
        let Some(slot) = slab.at(timer) else {
            slab.dropped();
            continue;
        };
        let (keys, cell) = (slot.keys(), slot.cell().map(Arc::clone));
        if keys > *room && !batch.is_empty() {
            // A set of names that does not fit any more: it goes first next time.
            timers.insert(at, timer);
            return;
        }
        *room = room.saturating_sub(keys);
        batch.extend(cell.map(|cell| Kept { timer, cell }));
    }
}

/// How far apart batches start when there are very many: all of them in a quarter of the time that
/// they have, and no pause where it would be long.
fn gap(class: u32, leases: usize) -> Duration {
    const LONGEST: Duration = Duration::from_millis(10);
    let batches = u32::try_from(leases / RenewRequest::MAX_BATCH).unwrap_or(u32::MAX);
    (shortest(class) / 12 / batches.saturating_add(1)).min(LONGEST)
}
