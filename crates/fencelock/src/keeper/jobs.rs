//! The releases that the keeper has to do, and how many of them run at once.
//!
//! ```text
//!   push ---> waiting --- due, and a place is free ---> running (a task) ---> done
//!                ^                                         |
//!                +------------- again, later --------------+
//! ```
//! A store that is away may leave any number of them behind: each is a small value here, and only
//! [`Jobs::RUNNING_MAX`] are tasks with a request on its way.

use std::collections::BTreeMap;

use fencelock_core::Moment;

use super::job::Job;

#[derive(Default)]
pub(super) struct Jobs {
    /// By the moment they are due, and among equals in the order in which they came.
    waiting: BTreeMap<(Moment, u64), Job>,
    running: usize,
    pushed: u64,
    /// When it was last looked what is due.
    looked: Moment,
}

impl Jobs {
    /// Enough to keep a connection busy: more requests at once only queue up in it, where their
    /// time limits run.
    pub(super) const RUNNING_MAX: usize = 128;

    /// Takes a job that is due now, behind all that were due before.
    pub(super) fn push(&mut self, job: Job) {
        self.push_later(self.looked, job);
    }

    /// Takes a job that is due at a moment.
    pub(super) fn push_later(&mut self, due: Moment, job: Job) {
        self.pushed += 1;
        self.waiting.insert((due, self.pushed), job);
    }

    /// Those that are due at `now`, the longest due first, as far as there are places; each has
    /// one until [`Jobs::ended`].
    pub(super) fn start(&mut self, now: Moment) -> Vec<Job> {
        self.looked = now;
        let mut started = Vec::new();
        while self.running < Self::RUNNING_MAX
            && let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            started.push(first.remove());
            self.running += 1;
        }
        started
    }

    /// One that was started has ended. True when others may have waited for its place.
    pub(super) fn ended(&mut self) -> bool {
        debug_assert!(self.running > 0, "only what was started ends");
        let was_full = self.running == Self::RUNNING_MAX;
        self.running = self.running.saturating_sub(1);
        was_full && !self.waiting.is_empty()
    }

    /// When [`Jobs::start`] is worth a call; never, while all places are taken.
    pub(super) fn next(&self) -> Moment {
        match self.waiting.first_key_value() {
            Some((&(due, _), _)) if self.running < Self::RUNNING_MAX => due,
            _ => Moment::NEVER,
        }
    }

    /// How many are not done.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.running
    }

    /// Whether all are done.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
