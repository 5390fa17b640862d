//! Where the leases are: registering and removing are an index.
//!
//! Each slot has a stamp that changes whenever its timer does, so that a timer that was replaced,
//! or whose lease is gone, is known for what it is when it is taken.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fencelock_core::Moment;

use super::timers::Timer;
use crate::cell::{LeaseCell, Look};

#[derive(Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots that were filled since the last turn, and have no timer yet. Some may be empty again.
    fresh: Vec<u32>,
    /// Timers that are still kept somewhere and stand for nothing.
    stale: usize,
}

#[derive(Default)]
pub(super) struct Slot {
    cell: Option<Arc<LeaseCell>>,
    /// What its cell said when the timer was set.
    end: Moment,
    term: Duration,
    keys: usize,
    stamp: u32,
    /// Whether a timer with its stamp is kept somewhere.
    timed: bool,
    /// Whether it is among the fresh ones.
    fresh: bool,
}

/// A lease that was taken out to be worked on.
pub(super) struct Kept {
    pub(super) timer: Timer,
    pub(super) cell: Arc<LeaseCell>,
}

impl Slab {
    /// Takes in a lease. It gets its timer at the next turn: most are gone by then.
    pub(super) fn insert(&mut self, cell: &Arc<LeaseCell>) {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot::default());
                index(self.slots.len() - 1)
            }
        };
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.cell.is_none(), "a free slot is empty");
        slot.cell = Some(Arc::clone(cell));
        if !slot.fresh {
            slot.fresh = true;
            self.fresh.push(index);
        }
        cell.slot.store(index as usize + 1, Ordering::Release);
    }

    /// Forgets a lease; what was kept of it is for the caller to drop.
    pub(super) fn remove(&mut self, cell: &LeaseCell) -> Option<Arc<LeaseCell>> {
        let index = cell.slot.swap(0, Ordering::AcqRel).checked_sub(1)?;
        let index = self::index(index);
        let kept = self.slots.get_mut(index as usize)?.cell.take();
        if kept.is_some() {
            self.free.push(index);
            self.restamp(index);
        }
        kept
    }

    /// The slot of a lease.
    pub(super) fn find(&self, cell: &LeaseCell) -> Option<u32> {
        cell.slot.load(Ordering::Acquire).checked_sub(1).map(index)
    }

    /// The slots that were filled since they were last asked for.
    pub(super) fn take_fresh(&mut self) -> Vec<u32> {
        let fresh = std::mem::take(&mut self.fresh);
        for &index in &fresh {
            self.slots[index as usize].fresh = false;
        }
        fresh
    }

    /// Gives back the room of what [`Slab::take_fresh`] gave.
    pub(super) fn reuse(&mut self, mut fresh: Vec<u32>) {
        fresh.clear();
        if self.fresh.is_empty() {
            self.fresh = fresh;
        }
    }

    /// Its lease, when it has one and no timer.
    pub(super) fn untimed(&self, index: u32) -> Option<&Arc<LeaseCell>> {
        let slot = &self.slots[index as usize];
        slot.cell.as_ref().filter(|_| !slot.timed)
    }

    /// A new timer for a slot; the one before it counts no more.
    pub(super) fn plan(&mut self, index: u32, look: &Look) -> Timer {
        self.restamp(index);
        let slot = &mut self.slots[index as usize];
        (slot.end, slot.term, slot.keys) = (look.end, look.term, look.keys);
        slot.timed = true;
        Timer { slot: index, stamp: slot.stamp }
    }

    /// Another timer in place of one that counted and was taken from where it was kept.
    pub(super) fn replace(&mut self, timer: Timer) -> Timer {
        let slot = &mut self.slots[timer.slot as usize];
        debug_assert!(slot.timed && slot.stamp == timer.stamp, "it counted");
        slot.stamp = slot.stamp.wrapping_add(1);
        Timer { stamp: slot.stamp, ..timer }
    }

    fn restamp(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.stamp = slot.stamp.wrapping_add(1);
        self.stale += usize::from(std::mem::take(&mut slot.timed));
    }

    /// What a timer stands for, when it counts.
    pub(super) fn at(&self, timer: Timer) -> Option<&Slot> {
        let slot = &self.slots[timer.slot as usize];
        (slot.stamp == timer.stamp).then_some(slot)
    }

    /// A timer that counts no more was taken from where it was kept.
    pub(super) fn dropped(&mut self) {
        debug_assert!(self.stale > 0, "it was counted");
        self.stale = self.stale.saturating_sub(1);
    }

    /// Whether most timers stand for nothing.
    pub(super) fn is_littered(&self) -> bool {
        /// Below this a sweep is not worth it.
        const STALE_MIN: usize = 4_096;
        self.stale > STALE_MIN.max(2 * self.len())
    }

    /// No timer counts any more, and all leases are fresh.
    pub(super) fn begin_anew(&mut self) {
        self.fresh.clear();
        for (index, slot) in (0u32..).zip(&mut self.slots) {
            slot.stamp = slot.stamp.wrapping_add(1);
            slot.timed = false;
            slot.fresh = slot.cell.is_some();
            if slot.fresh {
                self.fresh.push(index);
            }
        }
        self.stale = 0;
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Arc<LeaseCell>> {
        self.slots.iter().filter_map(|slot| slot.cell.as_ref())
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Slot {
    pub(super) fn end(&self) -> Moment {
        self.end
    }

    pub(super) fn term(&self) -> Duration {
        self.term
    }

    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    pub(super) fn cell(&self) -> Option<&Arc<LeaseCell>> {
        self.cell.as_ref()
    }
}

/// A slab of more leases than this would not fit into memory.
fn index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
