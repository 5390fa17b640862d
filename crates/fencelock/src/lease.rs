//! A lease that was acquired elsewhere and is known by its token.

use std::{sync::Arc, time::Duration};

use fencelock_core::{
    InspectRequest, Inspection, LockName, Moment, Names, Proof, ReleaseRequest, RenewRequest,
    Renewed, Token,
};
use fencelock_store::{Outcome, StoreErrorKind, rt};

use crate::{
    Error, ErrorKind, Guard, Released, Renew, Ticket,
    context::{Context, loss_reason},
    holder, leave,
    plan::checked_ttl,
    release,
};

/// A lease without a guard: nothing renews it, and dropping this does nothing.
#[derive(Clone, Debug)]
pub struct TokenLease {
    context: Arc<Context>,
    names: Names,
    token: Token,
}

/// A renewal is tried for so long when the store does not answer.
const RENEW_LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

impl TokenLease {
    pub(crate) fn new(context: Arc<Context>, names: Names, token: Token) -> Self {
        Self { context, names, token }
    }

    /// Prolongs the lease: it runs for at least `ttl` from now. Says how long the store keeps it,
    /// which is not how long its holder may count on it.
    ///
    /// # Errors
    /// `Lost` when the token does not hold the lock (any more); nothing was changed then. `Config`
    /// for a ttl out of range. Otherwise that the store did not answer.
    ///
    /// # Cancel safety
    /// Safe; a renewal that was sent may be carried out.
    pub async fn renew(&self, ttl: Duration) -> Result<Duration, Error> {
        let named = |error: Error| error.with_names(&self.names).with_store(&self.context.display);
        self.context.check_open()?;
        let ttl = checked_ttl(&self.context, ttl).map_err(named)?;
        let mut request = RenewRequest::new(self.names.clone(), self.token, ttl);
        request.retain = self.context.settings.retain;
        // Nothing keeps this lease but calls like this one: a request to give it back reaches nobody.
        request.unattended = true;
        let batch = [request];
        let end = self.context.clock.now().saturating_add(RENEW_LIMIT);
        loop {
            let by = self.context.call_limit(end);
            let asked = self.context.ask(self.context.store.renew(&batch, by)).await;
            let next = self.context.clock.now().saturating_add(PAUSE);
            match asked.result.map(|reply| reply.answer.into_iter().next()) {
                Ok(Some(Renewed::Extended { remaining, .. })) => return Ok(remaining),
                Ok(Some(Renewed::NotHeld(why))) => {
                    return Err(named(Error::lost(loss_reason(&why), None)));
                }
                // A renewal is harmless twice, so it may be asked again whatever became of it.
                Err(error) if error.is_passing() && next < end => {
                    // An address that never answered would only make a caller wait for nothing.
                    if error.outcome() == Outcome::NotDone && !self.context.was_reached() {
                        return Err(named(Error::from_store(error)));
                    }
                }
                Err(error) => return Err(named(Error::from_store(error))),
                Ok(_) if next < end => {}
                Ok(_) => {
                    let what = "the store could not say whether the lease was renewed";
                    return Err(named(Error::new(ErrorKind::Unknown, what)));
                }
            }
            self.context.clock.sleep_until(next.min(Moment::NEVER)).await;
            rt::yield_now().await;
        }
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// When the client is closed, and `Denied` where a right is missing: the lease runs on. A store that
    /// does not answer is [`Released::Unknown`].
    ///
    /// # Cancel safety
    /// A release that was sent may be carried out; the same call again is harmless.
    pub async fn release(&self) -> Result<Released, Error> {
        self.context.check_open()?;
        let mut request = ReleaseRequest::new(self.names.clone(), self.token);
        request.retain = self.context.settings.retain;
        match release::try_send(&self.context, &request, Moment::START).await {
            Err(error) if error.kind() == StoreErrorKind::Denied => {
                let error = Error::from_store(error);
                Err(error.with_names(&self.names).with_store(&self.context.display))
            }
            sent => Ok(sent.unwrap_or(Released::Unknown)),
        }
    }

    /// The secret that proves the hold.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Takes the lease over: a new grant with a fresh token and metadata of this process, which runs for
    /// at least `ttl` and is renewed. The old token is worth nothing from then on. So a lease comes from
    /// another library, too: in the dialect `redislock` from a Go service that passes its token on
    /// ([`Token::from_base64url`]).
    ///
    /// # Errors
    /// As [`Client::adopt`](crate::Client::adopt); `Unsupported` for one of several who hold together (a
    /// reader, a permit, a hold of an owner), since a guard is of one who is alone.
    ///
    /// # Cancel safety
    /// As [`Client::adopt`](crate::Client::adopt).
    pub async fn adopt(&self, ttl: Duration) -> Result<Guard, Error> {
        let named = |error: Error| error.with_names(&self.names).with_store(&self.context.display);
        let ttl = checked_ttl(&self.context, ttl).map_err(named)?;
        self.context.check_open()?;
        for name in &self.names {
            if self.is_shared(name).await.map_err(named)? {
                let what = "it is held by several together, and a guard is of one who is alone";
                return Err(named(Error::new(ErrorKind::Unsupported, what)));
            }
        }
        let ticket = Ticket::new(self.names.clone(), self.token, ttl, None);
        leave::adopt(&self.context, &ticket, Renew::Auto).await
    }

    /// Whether a name is held by several together. Who is alone can become one of several only by its
    /// own doing, and nobody the other way round.
    async fn is_shared(&self, name: &LockName) -> Result<bool, Error> {
        let request = InspectRequest::new(name.clone());
        let by = self.context.call_limit(Moment::NEVER);
        let asked = self.context.ask(self.context.store.inspect(&request, by)).await;
        let seen = asked.result.map_err(Error::from_store)?.answer;
        Ok(matches!(seen, Inspection::Held(holder) if holder.sharing.is_some()))
    }

    /// A hash of the token, as an inspection shows it.
    #[must_use]
    pub fn token_hash(&self) -> String {
        holder::hash(Proof::from(self.token).reveal())
    }

    /// The names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }
}
