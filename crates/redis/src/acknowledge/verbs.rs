//! The verbs that grant something, each followed by its acknowledgement.
//!
//! A release is not acknowledged: one that is lost in a fail-over leaves the lock held until its
//! lease ends, which harms nobody's exclusion.

use std::sync::Arc;

use fencelock_core::{
    AcquireRequest, Acquired, DowngradeRequest, Downgraded, ExchangeRequest, Exchanged,
    HealRequest, Healed, LockName, Moment, RaiseFenceRequest, Raised, ReleaseRequest, RenewRequest,
    Renewed, Wakeup,
};
use fencelock_store::{Outcome, Reply, Store, StoreError, StoreResult, WakeupSink};

use super::Acknowledgement;
use crate::{RedisStore, wire::Wire};

/// A store as it is, and how its grants are acknowledged.
pub(crate) struct Confirmed<'a> {
    pub(crate) store: &'a RedisStore,
    pub(crate) wire: &'a Wire,
    pub(crate) by: &'a Acknowledgement,
}

impl Confirmed<'_> {
    /// A grant that is not acknowledged is taken back.
    pub(crate) async fn acquire(
        self,
        request: &AcquireRequest,
        by: Moment,
    ) -> StoreResult<Acquired> {
        let reply = self.store.acquire(request, by).await?;
        if !matches!(reply.answer, Acquired::Granted(_)) {
            return Ok(reply);
        }
        let Err(error) = self.confirm(&reply, request.names.first(), by).await else {
            return Ok(reply);
        };
        let mut release = ReleaseRequest::new(request.names.clone(), request.token);
        release.retain = request.retain;
        // Whatever it answers: the token holds nothing any more, and never will.
        let (outcome, what) = match self.store.release(&release, by).await {
            Ok(_) => (Outcome::NotDone, "it was given back"),
            Err(_) => (Outcome::Unknown, "whether it was given back is not known"),
        };
        Err(StoreError::new(error.kind(), outcome, format!("{error}; {what}")).with_source(error))
    }

    /// Renewals that are not acknowledged are unknown: each lease keeps the end that it had. One
    /// write behind all of them is enough.
    pub(crate) async fn renew(
        self,
        batch: &[RenewRequest],
        by: Moment,
    ) -> StoreResult<Vec<Renewed>> {
        let mut reply = self.store.renew(batch, by).await?;
        let extended = |answer: &Renewed| matches!(answer, Renewed::Extended { .. });
        let renewed = batch.iter().zip(&reply.answer).find(|(_, answer)| extended(answer));
        let Some((request, _)) = renewed else { return Ok(reply) };
        let Err(error) = self.confirm(&reply, request.names.first(), by).await else {
            return Ok(reply);
        };
        if reply.answer.iter().all(extended) {
            return Err(unknown(error));
        }
        // What is lost, is lost without acknowledgement.
        for answer in reply.answer.iter_mut().filter(|answer| extended(answer)) {
            *answer = Renewed::Unknown;
        }
        Ok(reply)
    }

    /// An exchange can't be undone: the new token holds the lease, and a copy is acknowledged anew.
    pub(crate) async fn exchange_token(
        self,
        request: &ExchangeRequest,
        by: Moment,
    ) -> StoreResult<Exchanged> {
        let reply = self.store.exchange_token(request, by).await?;
        if matches!(reply.answer, Exchanged::Granted(_)) {
            self.confirm(&reply, request.names.first(), by).await.map_err(unknown)?;
        }
        Ok(reply)
    }

    /// A downgrade that is lost leaves the lease held alone, as long as before.
    pub(crate) async fn downgrade(
        self,
        request: &DowngradeRequest,
        by: Moment,
    ) -> StoreResult<Downgraded> {
        let reply = self.store.downgrade(request, by).await?;
        if matches!(reply.answer, Downgraded::Shared { .. }) {
            self.confirm(&reply, &request.name, by).await.map_err(unknown)?;
        }
        Ok(reply)
    }

    pub(crate) async fn raise_fence(
        self,
        request: &RaiseFenceRequest,
        by: Moment,
    ) -> StoreResult<Raised> {
        let reply = self.store.raise_fence(request, by).await?;
        if matches!(reply.answer, Raised::Raised) {
            self.confirm(&reply, request.names.first(), by).await.map_err(unknown)?;
        }
        Ok(reply)
    }

    pub(crate) async fn heal(self, request: &HealRequest, by: Moment) -> StoreResult<Healed> {
        let reply = self.store.heal(request, by).await?;
        if matches!(reply.answer, Healed::Healed) {
            self.confirm(&reply, request.names.first(), by).await.map_err(unknown)?;
        }
        Ok(reply)
    }

    async fn confirm<A>(
        &self,
        reply: &Reply<A>,
        name: &LockName,
        by: Moment,
    ) -> Result<(), StoreError> {
        self.by.confirm(self.wire, name, reply.incarnation.as_ref(), by).await
    }
}

/// It was done, and may not last.
fn unknown(error: StoreError) -> StoreError {
    StoreError::new(error.kind(), Outcome::Unknown, error.to_string()).with_source(error)
}

/// Hears for a waiter that must not start on a message: nobody has acknowledged what it says. Its
/// own question is, so it is told to ask.
pub(crate) struct Asking(pub(crate) Arc<dyn WakeupSink>);

impl WakeupSink for Asking {
    fn wake(&self, wakeup: Wakeup) {
        self.0.wake(match wakeup {
            Wakeup::Granted(hand_off) => Wakeup::Turn(hand_off.token),
            other => other,
        });
    }

    fn broken(&self) {
        self.0.broken();
    }
}
