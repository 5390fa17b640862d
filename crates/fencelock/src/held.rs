//! What scoped work sees of its lock.

use std::{fmt, sync::Arc, time::Duration};

use fencelock_core::{FencingToken, LeaseState, LossReason, Moment, Names};

use crate::{cell::LeaseCell, context::Context, listening, shared::Tenure};

/// A lock that is held for the time of a [`run`](crate::Mutex::run): what of it the work may see.
/// Clones see the same; none of them keeps the lock.
#[derive(Clone)]
pub struct Held {
    context: Arc<Context>,
    cell: Arc<LeaseCell>,
    tenure: Tenure,
}

impl Held {
    pub(crate) fn new(context: Arc<Context>, cell: Arc<LeaseCell>, tenure: Tenure) -> Self {
        Self { context, cell, tenure }
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

    /// Says that the work gets on, for [`Mutex::progress_within`](crate::Mutex::progress_within).
    /// Cheap: it asks the clock and not the store.
    pub fn report_progress(&self) {
        if self.cell.report_progress() {
            self.context.keeper.reschedule(&self.cell);
        }
    }

    /// Whether somebody [asked](crate::Client::revoke) for the lock back. It stays held until the
    /// work ends.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.cell.shared.is_revoked()
    }

    /// Waits until somebody [asks](crate::Client::revoke) for the lock back; for ever, when nobody
    /// does. Work that can stop early waits for this beside what it does.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn revoked(&self) {
        listening::revoked(&self.context, &self.cell).await;
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

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("lease", &self.cell).finish_non_exhaustive()
    }
}
