//! Timers in order of their moments, in buckets: adding one, and taking the first, cost little,
//! however many there are.
//!
//! A timer that is not wanted any more stays until its moment comes; whoever takes it sees that it
//! stands for nothing ([`Timer::stamp`]).

use std::collections::BTreeMap;

use fencelock_core::Moment;

/// What is due: a slot as it was when the timer was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    pub(super) slot: u32,
    /// It counts only while the slot has the same one.
    pub(super) stamp: u32,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Never an empty one.
    buckets: BTreeMap<Moment, Vec<Timer>>,
    /// The bucket that was filled last, while it is not among the others: the leases of a batch
    /// mostly have the same moment.
    open: Vec<Timer>,
    open_due: Moment,
}

impl Timers {
    pub(super) fn insert(&mut self, due: Moment, timer: Timer) {
        if due != self.open_due {
            self.shut();
            self.open_due = due;
        }
        self.open.push(timer);
    }

    /// Puts the open bucket among the others.
    fn shut(&mut self) {
        if !self.open.is_empty() {
            self.buckets.entry(self.open_due).or_default().append(&mut self.open);
        }
    }

    /// Takes one of the first, and the moment at which it is due, if that is not later than `by`.
    pub(super) fn pop(&mut self, by: Moment) -> Option<(Moment, Timer)> {
        if !self.open.is_empty() && self.open_due <= by {
            self.shut();
        }
        let mut first = self.buckets.first_entry().filter(|first| *first.key() <= by)?;
        let due = *first.key();
        let timer = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        timer.map(|timer| (due, timer))
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Moment {
        let shut = self.buckets.first_key_value().map_or(Moment::NEVER, |(&due, _)| due);
        if self.open.is_empty() { shut } else { shut.min(self.open_due) }
    }

    pub(super) fn clear(&mut self) {
        self.buckets.clear();
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_come_first_and_none_before_its_moment() {
        let mut timers = Timers::default();
        assert_eq!(timers.first(), Moment::NEVER);
        for slot in [7u32, 3, 9, 3] {
            let due = Moment::from_nanos(u64::from(slot));
            timers.insert(due, Timer { slot, stamp: 0 });
        }
        assert_eq!(timers.first(), Moment::from_nanos(3));
        assert_eq!(timers.pop(Moment::from_nanos(2)), None);
        let mut slots = Vec::new();
        while let Some((_, timer)) = timers.pop(Moment::from_nanos(8)) {
            slots.push(timer.slot);
        }
        assert_eq!(slots, [3, 3, 7]);
        assert_eq!(timers.first(), Moment::from_nanos(9));
    }

    #[test]
    fn a_bucket_that_is_filled_in_turns_with_others_is_one() {
        let mut timers = Timers::default();
        for slot in 0..9u32 {
            timers.insert(Moment::from_nanos(u64::from(slot % 3)), Timer { slot, stamp: 0 });
        }
        assert_eq!(timers.first(), Moment::START);
        let mut slots = Vec::new();
        while let Some((due, timer)) = timers.pop(Moment::from_nanos(1)) {
            assert_eq!(due, Moment::from_nanos(u64::from(timer.slot % 3)));
            slots.push(timer.slot);
        }
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 3, 4, 6, 7]);
        timers.clear();
        assert_eq!(timers.first(), Moment::NEVER);
    }
}
