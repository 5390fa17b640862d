//! What scoped work sees of its lock.

use std::{sync::Arc, time::Duration};

use fencelock_core::{FencingToken, LeaseState, LossReason, Moment, Names};

use crate::{cell::LeaseCell, shared::Tenure};

/// A lock that is held for the time of a [`run`](crate::Mutex::run): what of it the work may see.
/// Clones see the same; none of them keeps the lock.
#[derive(Clone, Debug)]
pub struct Held {
    cell: Arc<LeaseCell>,
    tenure: Tenure,
}

impl Held {
    pub(crate) fn new(cell: Arc<LeaseCell>, tenure: Tenure) -> Self {
        Self { cell, tenure }
    }

    /// Whether the lease went on to another holder of this process, which is a release.
    fn is_passed_on(&self) -> bool {
        !self.cell.is_current(&self.tenure)
    }

    /// All names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.cell.fixed.names
    }

    /// The number that grows with each grant of the name, for the guarded resource to check.
    /// Nothing where the dialect has none.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.tenure.fencing_token
    }

    /// Whether the work may go on. Work that blocks or was spawned elsewhere must look at this
    /// itself: only a future that is polled can be dropped.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.cell.is_valid() && !self.is_passed_on()
    }

    /// How long the work may still act, unless the lease is renewed.
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        if self.is_passed_on() { Duration::ZERO } else { self.cell.validity_left() }
    }

    /// When validity ends; [`Moment::START`] once it has.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        if self.is_passed_on() { Moment::START } else { self.cell.deadline() }
    }

    /// Where the lease stands.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        if self.is_passed_on() { LeaseState::Released } else { self.cell.state() }
    }

    /// Waits until the lock is lost; for ever, when it is released instead.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        let reason = self.cell.lost().await;
        if self.is_passed_on() {
            // It was given back in time: this hold is never lost.
            std::future::pending::<()>().await;
        }
        reason
    }
}
