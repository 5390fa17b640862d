//! The grant of several locks as one.

use std::{sync::Arc, time::Duration};

use fencelock_core::{LeaseState, LossReason};

use super::part::HeldPart;
use crate::{
    Error, Guard, Held, Released,
    run::Around,
    stream::Loss,
    taken::{Taken, first},
};

/// Several locks that are held as one. Dropping it gives all of them back, the last one first.
///
/// It is valid while every part is, and lost as soon as one is.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
#[clippy::has_significant_drop]
pub struct CompositeGuard {
    taken: Taken,
}

impl CompositeGuard {
    /// One grant, if all are still held.
    pub(super) fn of(taken: Taken) -> Result<Self, Error> {
        taken.check_whole()?;
        Ok(Self { taken })
    }

    /// The parts, in the order in which they were taken: one for each name.
    pub fn parts(&self) -> impl Iterator<Item = HeldPart<'_>> {
        self.guards().iter().map(HeldPart)
    }

    /// Whether the holder may act now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guards().iter().all(Guard::is_valid)
    }

    /// How long the holder may still act, unless the leases are renewed; zero when one is lost.
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.guards().iter().map(Guard::validity_left).min().unwrap_or_default()
    }

    /// Waits until the first part is lost, and says why.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        first(self.guards().iter().map(Guard::lost)).await
    }

    /// Prolongs all leases: see [`Guard::renew`].
    ///
    /// # Errors
    /// As [`Guard::renew`], the first of the parts that has one.
    ///
    /// # Cancel safety
    /// As [`Guard::renew`].
    pub async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        for guard in self.guards() {
            guard.renew(ttl).await?;
        }
        Ok(())
    }

    /// Whether somebody [asked](crate::Client::revoke) for one of the parts back.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.guards().iter().any(Guard::is_revoked)
    }

    /// Waits until somebody [asks](crate::Client::revoke) for one of the parts back.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn revoked(&self) {
        first(self.guards().iter().map(Guard::revoked)).await;
    }

    /// Says that the work gets on: see [`Guard::report_progress`].
    pub fn report_progress(&self) {
        self.guards().iter().for_each(Guard::report_progress);
    }

    /// Gives all parts back at once, the last one first, and says the worst that was found. A store
    /// that does not answer is asked again for up to two seconds.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the keeper finishes the release.
    pub async fn release(self) -> Released {
        self.taken.release().await
    }

    fn guards(&self) -> &[Guard] {
        self.taken.guards()
    }

    pub(crate) fn held(&self) -> CompositeHeld {
        CompositeHeld { parts: self.guards().iter().map(Guard::held).collect() }
    }

    pub(crate) fn around(&self) -> Vec<Around> {
        let around =
            |guard: &Guard| Around::of(guard.context(), guard.names(), &guard.cell().fixed.mode);
        self.guards().iter().map(around).collect()
    }

    pub(crate) fn check_live(&self) -> Result<(), Error> {
        self.guards().iter().try_for_each(Guard::check_live)
    }

    /// Gives all parts back after the work.
    pub(crate) async fn finish<T>(self, output: T) -> Result<T, Error> {
        self.check_live()?;
        let lost = |reason| self.error(reason);
        let (taken, expired) = (lost(LossReason::Taken), lost(LossReason::ExpiredAtStore));
        match self.release().await {
            Released::Taken => Err(taken),
            Released::Expired => Err(expired),
            Released::Held | Released::Unknown => Ok(output),
        }
    }

    /// The error of a loss: of the part that is lost, or else of the first.
    pub(super) fn error(&self, reason: LossReason) -> Error {
        let is_lost = |guard: &&Guard| matches!(guard.state(), LeaseState::Lost(_));
        let lost = self.guards().iter().find(is_lost).or(self.guards().first());
        match lost {
            Some(guard) => Error::lost(reason, Some(guard.age()))
                .with_names(guard.names())
                .with_store(&guard.context().display),
            None => Error::lost(reason, None),
        }
    }
}

/// What the work of a [`run`](super::Composite::run) sees of its locks. Clones see the same; none of
/// them keeps the locks.
#[derive(Clone, Debug)]
pub struct CompositeHeld {
    parts: Arc<[Held]>,
}

impl CompositeHeld {
    /// Whether the work may go on: see [`Held::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.parts.iter().all(Held::is_valid)
    }

    /// How long the work may still act, unless the leases are renewed.
    #[must_use]
    pub fn validity_left(&self) -> Duration {
        self.parts.iter().map(Held::validity_left).min().unwrap_or_default()
    }

    /// Says that the work gets on: see [`Held::report_progress`].
    pub fn report_progress(&self) {
        self.parts.iter().for_each(Held::report_progress);
    }

    /// Waits until the first part is lost; for ever, when all are released instead.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LossReason {
        first(self.parts.iter().map(Held::lost)).await
    }

    pub(super) fn loss(&self) -> Option<LossReason> {
        self.parts.iter().find_map(|part| match part.state() {
            LeaseState::Lost(reason) => Some(reason),
            _ => None,
        })
    }
}

impl Loss for CompositeHeld {
    fn is_lost(&self) -> bool {
        self.loss().is_some()
    }
}
