//! What is checked of each peer. A check that does not hold panics.

mod contention;
mod ending;
mod holding;
mod waking;

use std::time::Duration;

use crate::stage::Stage;

/// One column of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// They hold: we are refused, and see how long their lease runs.
    TheyHold,
    /// We hold: they are refused.
    WeHold,
    /// Our waiter gets the lock when they release it.
    WokenByThem,
    /// Their waiter gets the lock when we release it, before its own wait is over.
    WokenByUs,
    /// A release that comes too late, of either, does not touch the other's lock.
    LateRelease,
    /// Rounds in which both ask at once, with a witness.
    Rounds,
    /// The holder dies: the other has the lock when the lease is over, and not before.
    Death,
}

/// What a check gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Holds,
    /// It holds, and this was the median from the release to the grant.
    Woken(Duration),
    /// It is not checked, and why.
    NotApplicable(&'static str),
}

/// How much of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Rounds of contention.
    pub rounds: usize,
    /// Wake-ups, of which the median counts.
    pub wakes: usize,
}

impl Check {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::TheyHold,
        Self::WeHold,
        Self::WokenByThem,
        Self::WokenByUs,
        Self::LateRelease,
        Self::Rounds,
        Self::Death,
    ];

    /// The head of its column.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::TheyHold => "they hold",
            Self::WeHold => "we hold",
            Self::WokenByThem => "their release wakes us",
            Self::WokenByUs => "ours wakes them",
            Self::LateRelease => "late release",
            Self::Rounds => "rounds",
            Self::Death => "death",
        }
    }

    /// Makes it.
    ///
    /// # Panics
    /// When it does not hold.
    #[must_use]
    pub fn make(self, stage: &Stage, extent: Extent) -> Outcome {
        if let Some(why) = stage.peer.why_not(self) {
            return Outcome::NotApplicable(why);
        }
        match self {
            Self::TheyHold => holding::they_hold(stage),
            Self::WeHold => holding::we_hold(stage),
            Self::WokenByThem => return waking::by_them(stage, extent.wakes),
            Self::WokenByUs => return waking::by_us(stage, extent.wakes),
            Self::LateRelease => ending::late_release(stage),
            Self::Rounds => contention::rounds(stage, extent.rounds),
            Self::Death => ending::death(stage),
        }
        Outcome::Holds
    }
}

impl Extent {
    /// What every change must pass.
    pub const SMALL: Self = Self { rounds: 40, wakes: 3 };
    /// What is done nightly and for the README.
    pub const WHOLE: Self = Self { rounds: 200, wakes: 11 };
}
