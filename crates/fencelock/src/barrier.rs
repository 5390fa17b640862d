//! A barrier: nobody goes on until all parties are there.
//!
//! ```text
//!   line at the store   P1 | P2         P3 of 3 comes: in that step all three pass, with one number
//!   next meeting        P4 | ...        does not mind who has not left yet
//! ```
//! The parties wait in the line of the name. A party that is dropped gives up its place; one whose
//! process died is not counted any more once its place has lapsed (half a minute at most).

use std::{fmt, time::Duration};

use fencelock_core::Mode;

use crate::{Error, Mutex, latch::Latch, plan::Plan, possible, recipe::options};

/// The recipe for a barrier. It does no I/O; its verb does.
///
/// It can be used again and again: the next parties make the next meeting.
///
/// # What is not promised
/// A party whose process died is counted until its place has lapsed, so a meeting may take place
/// without it; and a party may die right after it was let go. A barrier says that all *came*. A party
/// that hears nothing of its meeting for half the [`ttl`](Barrier::ttl) is told so (`TooLate`), or
/// counts as a party of the next one.
///
/// # Examples
/// ```
/// # async fn example() -> Result<(), fencelock::Error> {
/// let locks = fencelock::connect("memory:").await?;
/// let step = locks.barrier("step", 2);
/// let (one, other) = tokio::join!(step.wait(), step.wait());
/// let (one, other) = (one?, other?);
/// assert!(one.is_leader() != other.is_leader());
/// assert_eq!(one.number(), other.number());
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "a recipe does nothing until its verb is called"]
pub struct Barrier {
    base: Mutex,
    parties: u32,
}

options!(Barrier: asking, wait_limit);

impl Barrier {
    /// The most parties: as many as can hold one name together.
    pub const MAX_PARTIES: u32 = Latch::MAX_COUNT;

    /// Twice as long as a place in the line outlives the last word of its waiter. A shorter ttl is
    /// raised to this: a party that was not told of its meeting must find it when it asks next.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(60);

    pub(crate) fn new(base: Mutex, parties: u32) -> Self {
        Self { base: base.ttl(Self::DEFAULT_TTL), parties }
    }

    /// Waits until all parties are there. The last to come is the leader.
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `WaitExpired` when not all came in time: this one is not counted any more.
    /// `Config` for fewer than 1 or too many parties, or another number than the store keeps;
    /// `Unsupported` where the store has no barriers; `TooLate`: see above.
    ///
    /// # Cancel safety
    /// Dropping the future gives its place up. When all came at that moment, it has been counted.
    pub async fn wait(&self) -> Result<BarrierPass, Error> {
        let recipe = self.recipe();
        let plan = Plan::of(&recipe)?;
        let guard = recipe.granted(&plan).await?;
        // Those who waited were handed a lease for half the ttl, and the one that came last
        // asked for the whole: the store says so again, should its first answer be lost.
        let granted = guard.cell().remaining_at_grant();
        let is_leader = granted > plan.ttl().as_duration() / 2;
        Ok(BarrierPass { number: guard.fencing_token().map(u64::from), is_leader })
    }

    /// How many parties there are, as this recipe says.
    #[must_use]
    pub fn parties(&self) -> u32 {
        self.parties
    }

    fn recipe(&self) -> Mutex {
        let mode = possible::checked(Mode::Meeting { parties: self.parties });
        self.base.clone().ttl(self.base.ttl.max(Self::DEFAULT_TTL)).in_mode(mode)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("base", &self.base).field("parties", &self.parties).finish()
    }
}

/// All parties were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierPass {
    number: Option<u64>,
    is_leader: bool,
}

impl BarrierPass {
    /// Whether this party came last: one of each meeting, and none where that one died or heard
    /// nothing of it.
    #[must_use]
    pub const fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// The number of the meeting: the same for all its parties, and larger for each later one.
    /// Nothing where the dialect has none.
    #[must_use]
    pub const fn number(&self) -> Option<u64> {
        self.number
    }
}
