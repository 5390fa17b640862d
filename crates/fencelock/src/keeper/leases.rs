//! All leases of a keeper, and what of them is due: a turn touches nothing else.

use std::{collections::BTreeMap, sync::Arc};

use fencelock_core::{Moment, RenewalSchedule};

use super::{
    class::{Class, class_of},
    slab::{Kept, Slab},
    timers::Timer,
};
use crate::cell::{LeaseCell, Look};

#[derive(Default)]
pub(super) struct Leases {
    slab: Slab,
    /// Some thirty at most: one for each power of two, in ms, from the shortest lease to the
    /// longest.
    classes: BTreeMap<u32, Class>,
}

/// Leases to look at, and to renew where they are due.
pub(super) struct Due {
    pub(super) leases: Vec<Kept>,
    /// The class in which it has a place until it is finished; nothing for leases that seem to have
    /// ended.
    pub(super) place: Option<u32>,
}

impl Leases {
    pub(super) fn insert(&mut self, cell: &Arc<LeaseCell>) {
        self.slab.insert(cell);
    }

    pub(super) fn remove(&mut self, cell: &LeaseCell) -> Option<Arc<LeaseCell>> {
        self.slab.remove(cell)
    }

    /// The lease changed. When it is due.
    pub(super) fn reschedule(&mut self, cell: &LeaseCell, schedule: RenewalSchedule) -> Moment {
        match self.slab.find(cell) {
            // Before the present moment, which is not known here, nothing is gained by precision.
            Some(slot) => self.plan(slot, &cell.look(schedule), Moment::START),
            None => Moment::NEVER,
        }
    }

    /// A lease of a batch was looked at or renewed, unless it was planned anew meanwhile.
    pub(super) fn settle(&mut self, timer: Timer, look: &Look, now: Moment) -> Moment {
        match self.slab.at(timer) {
            Some(_) => self.plan(timer.slot, look, now),
            None => Moment::NEVER,
        }
    }

    fn plan(&mut self, slot: u32, look: &Look, now: Moment) -> Moment {
        let timer = self.slab.plan(slot, look);
        let class = class_of(look.term);
        self.classes.entry(class).or_default().wait(class, look.due, look.end, now, timer)
    }

    /// What is due at `now`, as far as there are places.
    pub(super) fn take(&mut self, schedule: RenewalSchedule, now: Moment, chance: u32) -> Vec<Due> {
        if self.slab.is_littered() {
            self.begin_anew();
        }
        self.plan_fresh(schedule, now);
        let mut all = Vec::new();
        let slab = &mut self.slab;
        for (&id, class) in &mut self.classes {
            class.ripen(id, slab, now);
            let ended = class.ended(id, slab, now);
            if !ended.is_empty() {
                all.push(Due { leases: ended, place: None });
            }
            while let Some(leases) = class.start(id, slab, now, chance) {
                all.push(Due { leases, place: Some(id) });
            }
        }
        all
    }

    fn plan_fresh(&mut self, schedule: RenewalSchedule, now: Moment) {
        let fresh = self.slab.take_fresh();
        for &slot in &fresh {
            if let Some(cell) = self.slab.untimed(slot) {
                let look = cell.look(schedule);
                self.plan(slot, &look, now);
            }
        }
        self.slab.reuse(fresh);
    }

    /// A batch has ended. True when others may have waited for its place.
    pub(super) fn finished(&mut self, place: u32) -> bool {
        self.classes.get_mut(&place).is_some_and(Class::finished)
    }

    /// When [`Leases::take`] is worth a call. Says nothing of leases that came after the last one.
    pub(super) fn next(&self) -> Moment {
        let leases = self.slab.len();
        let each = self.classes.iter().map(|(&id, class)| class.next(id, leases));
        each.min().unwrap_or(Moment::NEVER)
    }

    /// Looks at every lease in the next turn: they changed, or it is not certain what was planned.
    pub(super) fn begin_anew(&mut self) {
        self.classes.values_mut().for_each(Class::clear);
        self.slab.begin_anew();
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Arc<LeaseCell>> {
        self.slab.cells()
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
