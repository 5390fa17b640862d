//! The grants of a read-write lock.

use std::{sync::Arc, time::Duration};

use fencelock_core::{DowngradeRequest, Downgraded, FencingToken, Token};

use super::SharedToken;
use crate::{
    Error, ErrorKind, Guard, Ticket,
    context::{Context, loss_reason},
    recipe::{guard_verbs, leak_beside_others},
};

/// A reader, beside others. Dropping it gives its lease back.
///
/// While [`ReadGuard::is_valid`] nobody writes, under the same assumptions as for a
/// [`Guard`](crate::Guard).
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct ReadGuard {
    guard: Guard,
}

guard_verbs!(ReadGuard);
leak_beside_others!(ReadGuard);

impl ReadGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    /// The number of this reader's grant, to be shown to a resource that checks reads; of a writer
    /// that [downgraded](WriteGuard::downgrade), the number it wrote with. Nothing where the dialect
    /// has none.
    #[must_use]
    pub fn shared_token(&self) -> Option<SharedToken> {
        self.guard.fencing_token().map(SharedToken::new)
    }

    /// The token of this lease: a secret, with which anybody can renew and release it.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard.token()
    }
}

/// The writer, alone. Dropping it gives the lock back.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct WriteGuard {
    guard: Guard,
}

guard_verbs!(WriteGuard);

impl WriteGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    /// The number that grows with each grant of the name, for the guarded resource to check. Nothing
    /// where the dialect has none.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.guard.fencing_token()
    }

    /// The token of this lease: a secret, with which anybody can renew and release it.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// Becomes a reader, without letting any writer in between; readers at the head of the line come
    /// in at once. The lease goes on under the same token and number, and is not prolonged.
    ///
    /// The right to write ends when this is called. A fencing token that was taken out of the guard
    /// before is still the highest at the resource: writes that are under way with it are not
    /// refused until another writer came. So whatever writes has to be done before.
    ///
    /// # Errors
    /// `Lost` when the lock is not held any more; otherwise that the store did not answer before
    /// validity ended, or what it said. The lock is given back then.
    ///
    /// # Cancel safety
    /// Dropping the future gives the lock back.
    pub async fn downgrade(self) -> Result<ReadGuard, Error> {
        downgrade(&self.guard).await?;
        Ok(ReadGuard::new(self.guard))
    }

    /// Leaves the lock held for its ttl: see [`Guard::leak`].
    ///
    /// # Errors
    /// As [`Guard::leak`].
    ///
    /// # Cancel safety
    /// As [`Guard::leak`].
    pub async fn leak(self) -> Result<Ticket, Error> {
        self.guard.leak().await
    }

    /// Ends this guard so that another process can adopt the lease, as a [`Guard`]: see
    /// [`Guard::detach`].
    ///
    /// # Errors
    /// As [`Guard::detach`].
    ///
    /// # Cancel safety
    /// As [`Guard::detach`].
    pub async fn detach(self) -> Result<Ticket, Error> {
        self.guard.detach().await
    }
}

/// Between questions to a store that does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Makes the lease of a guard a shared one. Asking twice does no harm.
async fn downgrade(guard: &Guard) -> Result<(), Error> {
    let context: &Arc<Context> = guard.context();
    let named = |error: Error| error.with_names(guard.names()).with_store(&context.display);
    let request = DowngradeRequest::new(guard.name().clone(), guard.cell().fixed.token);
    let mut pause = FIRST_PAUSE;
    loop {
        guard.check_live()?;
        let by = context.call_limit(guard.deadline());
        let asked = context.ask(context.store.downgrade(&request, by)).await;
        match asked.result.map(|reply| reply.answer) {
            // The store may still have it when validity here is over.
            Ok(Downgraded::Shared { .. }) => return guard.check_live(),
            Ok(Downgraded::NotHeld(why)) => {
                context.lose(guard.cell(), loss_reason(&why));
                guard.check_live()?;
                return Err(named(Error::lost(loss_reason(&why), None)));
            }
            Ok(_) => {
                let what = "an answer of an unknown kind";
                return Err(named(Error::new(ErrorKind::Internal, what)));
            }
            Err(error) if error.is_passing() => {
                let next = context.clock.now().saturating_add(pause);
                if next >= guard.deadline() {
                    return Err(named(Error::from_store(error)));
                }
                context.clock.sleep_until(next).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
            Err(error) => return Err(named(Error::from_store(error))),
        }
    }
}
