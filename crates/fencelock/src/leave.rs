//! Ending a guard without ending its lease, and taking such a lease over.
//!
//! Both exchange tokens where they must, and an exchange is armed like an acquire: whatever happens
//! to the future, what it may have granted is given back.

use std::sync::Arc;

use fencelock_core::{
    Binding, ExchangeRequest, Exchanged, Grant, LeaseState, LossReason, Mode, Moment,
    ReleaseRequest, RenewRequest, Renewed, StoreTime, Token, min_validity,
};
use fencelock_store::{Outcome, StoreError, rt};

use crate::{
    Error, ErrorKind, Guard, Renew, Ticket,
    attempt::take_back,
    cell::{Fixed, Granted, LeaseCell, Renewal},
    context::{Context, loss_reason},
    keeper::Copies,
    plan::checked_ttl,
    policy::Policy,
};

/// Makes a lease last for its whole ttl and independent of this process, and lets go of it.
///
/// Until the end the guard is in charge: on an error its drop gives the lock back.
pub(crate) async fn leave(context: &Arc<Context>, cell: &Arc<LeaseCell>) -> Result<Ticket, Error> {
    let named = |error: Error| error.with_names(&cell.fixed.names).with_store(&context.display);
    let lost = |reason| named(Error::lost(reason, Some(cell.age())));
    if let LeaseState::Lost(reason) = cell.state() {
        return Err(lost(reason));
    }
    let ttl = cell.cut(cell.ttl());
    // Whatever comes of this, the store may do it: then the lease is not ours to be passed on.
    cell.shared.set_private();
    // From here on a renewal would only be told that the old token is worth nothing.
    context.keeper.remove(cell);
    let ticket = if cell.fixed.binding != Binding::Unbound {
        // A token that is bound to this process can't outlive it.
        let mut request = exchange_request(context, &cell.fixed.names, cell.fixed.token, ttl)?;
        request.metadata = cell.fixed.metadata.clone();
        let (to, mut exchange) = (request.to, Exchange::new(context, request));
        let limit = context.call_limit(cell.deadline());
        let (grant, _) = exchange.run(limit).await.map_err(|why| match why {
            Failure::NotHeld(reason) => {
                context.lose(cell, reason);
                lost(reason)
            }
            Failure::Other(error) => error,
        })?;
        // Best effort: without it the lease is asked back in vain, and ends with its ttl all the same.
        say_unattended(context, &cell.fixed.names, to, ttl, cell.fixed.retain).await;
        exchange.disarm();
        Ticket::new(cell.fixed.names.clone(), to, ttl, grant.fence.token())
    } else {
        renew_once(context, cell).await?;
        Ticket::new(cell.fixed.names.clone(), cell.fixed.token, ttl, cell.fencing_token())
    };
    // Not a release: nothing is sent. The guard's drop finds that it is over.
    let _ending = cell.releasing();
    Ok(ticket)
}

/// Has the store say that nobody renews the lease.
async fn say_unattended(
    context: &Context,
    names: &fencelock_core::Names,
    token: Token,
    ttl: fencelock_core::Ttl,
    retain: fencelock_core::Retain,
) {
    let mut last = RenewRequest::new(names.clone(), token, ttl);
    last.retain = retain;
    last.unattended = true;
    let batch = [last];
    let by = context.call_limit(Moment::NEVER);
    if let Err(error) = context.ask(context.store.renew(&batch, by)).await.result {
        tracing::debug!(lock = %names, store = %context.display, %error, "a lease was left unmarked");
    }
}

/// The whole ttl, from here on.
async fn renew_once(context: &Arc<Context>, cell: &Arc<LeaseCell>) -> Result<(), Error> {
    let named = |error: Error| error.with_names(&cell.fixed.names).with_store(&context.display);
    let mut last = cell.renew_request();
    last.unattended = true;
    let batch = [last];
    let by = context.call_limit(cell.deadline());
    if !cell.renewal_sent(cell.ttl(), by) {
        // It was lost since the caller looked.
        return Err(named(Error::lost(cell.loss(), Some(cell.age()))));
    }
    let asked = context.ask(context.store.renew(&batch, by)).await;
    let answer = asked.result.map_err(|error| named(Error::from_store(error)))?.answer;
    let reason = match answer.into_iter().next() {
        Some(Renewed::Extended { remaining, .. }) => {
            match cell.renewed(remaining, asked.sent, context.clock.now()) {
                Renewal::Done => return Ok(()),
                Renewal::Late | Renewal::Over => LossReason::Expired,
            }
        }
        Some(Renewed::NotHeld(why)) => loss_reason(&why),
        _ => {
            let what = "the store could not say whether the lease was renewed";
            return Err(named(Error::new(ErrorKind::Unknown, what)));
        }
    };
    context.lose(cell, reason);
    // Somebody else may have ended it before, for another reason.
    Err(named(Error::lost(cell.loss(), Some(cell.age()))))
}

/// Takes over the lease of a ticket: a new grant, with a token of its own.
pub(crate) async fn adopt(
    context: &Arc<Context>,
    ticket: &Ticket,
    renewal: Renew,
) -> Result<Guard, Error> {
    context.check_open()?;
    context.keeper.start()?;
    let named = |error: Error| error.with_names(ticket.names()).with_store(&context.display);
    let ttl = checked_ttl(context, ticket.ttl().as_duration()).map_err(named)?;
    let mut request = exchange_request(context, ticket.names(), ticket.token(), ttl)?;
    request.floor = ticket.fencing_token();
    let (to, own_metadata) = (request.to, request.metadata.clone());
    let mut exchange = Exchange::new(context, request);
    let limit = context.call_limit(Moment::NEVER);
    let (grant, sent) = exchange.run(limit).await.map_err(|why| match why {
        Failure::NotHeld(reason) => named(Error::lost(reason, None)),
        Failure::Other(error) => error,
    })?;
    let drift = context.settings.drift;
    let now = context.clock.now();
    if now.saturating_add(min_validity(ttl)) >= drift.deadline(grant.remaining, sent) {
        let what = "it was adopted, but the answer came too late";
        return Err(named(Error::new(ErrorKind::TooLate, what)));
    }
    let fixed = Fixed {
        names: ticket.names().clone(),
        token: to,
        retain: context.settings.retain,
        renewal,
        binding: Binding::Unbound,
        process: context.process,
        metadata: own_metadata,
        stray: None,
        policy: Policy::default(),
        mode: Mode::Exclusive,
    };
    let granted = Granted {
        ttl,
        left: grant.remaining,
        sent,
        answered: now,
        claim: None,
        fencing_token: grant.fence.token(),
        last_fence: None,
        waited_for: false,
    };
    let cell = Arc::new(LeaseCell::new(fixed, granted, drift, context.clock.clone()));
    let guard = Guard::new(Arc::clone(context), cell)?;
    exchange.disarm();
    Ok(guard)
}

fn exchange_request(
    context: &Context,
    names: &fencelock_core::Names,
    from: Token,
    ttl: fencelock_core::Ttl,
) -> Result<ExchangeRequest, Error> {
    let mut request = ExchangeRequest::new(names.clone(), from, rt::fresh_token(), ttl);
    request.retain = context.settings.retain;
    let label = context.settings.label.as_deref();
    let none = std::collections::BTreeMap::new();
    request.metadata = crate::metadata::write(&context.own_metadata, label, &none)?;
    Ok(request)
}

enum Failure {
    /// The store says that the old token does not hold the lock.
    NotHeld(LossReason),
    Other(Error),
}

/// An exchange on its way; dropped before it is disarmed, it gives back what it may have got.
struct Exchange<'a> {
    context: &'a Arc<Context>,
    request: ExchangeRequest,
    copies: u32,
    deadline: Option<StoreTime>,
    unlimited: bool,
    last_by: Moment,
}

impl<'a> Exchange<'a> {
    fn new(context: &'a Arc<Context>, request: ExchangeRequest) -> Self {
        Self {
            context,
            request,
            copies: 0,
            deadline: None,
            unlimited: false,
            last_by: Moment::START,
        }
    }

    fn disarm(&mut self) {
        self.copies = 0;
    }

    /// Sends it, again while the outcome is not known.
    async fn run(&mut self, limit: Moment) -> Result<(Grant, Moment), Failure> {
        let context = self.context;
        loop {
            let by = context.call_limit(limit);
            self.request.deadline = context.store_deadline(by);
            self.unlimited |= self.request.deadline.is_none();
            self.deadline = self.deadline.max(self.request.deadline);
            self.last_by = self.last_by.max(by);
            self.copies += 1;
            let asked = context.ask(context.store.exchange_token(&self.request, by)).await;
            let what = match asked.result {
                Ok(reply) => match reply.answer {
                    Exchanged::Granted(grant) => return Ok((grant, asked.sent)),
                    Exchanged::NotHeld(why) => {
                        self.copies -= 1;
                        return Err(Failure::NotHeld(loss_reason(&why)));
                    }
                    Exchanged::Refused(refusal) => refusal.to_string(),
                    _ => "an answer of an unknown kind".to_owned(),
                },
                Err(error) => {
                    let again = error.is_passing() && error.outcome() == Outcome::Unknown;
                    let next = context.clock.now().saturating_add(PAUSE);
                    if again && next < limit {
                        context.clock.sleep_until(next).await;
                        continue;
                    }
                    return Err(Failure::Other(self.failed(error)));
                }
            };
            self.copies -= 1;
            let error = Error::new(ErrorKind::TooLate, what).with_names(&self.request.names);
            return Err(Failure::Other(error.with_store(&context.display)));
        }
    }

    fn failed(&mut self, error: StoreError) -> Error {
        if error.outcome() == Outcome::NotDone {
            self.copies -= 1;
        }
        self.context.store_error(error).with_names(&self.request.names)
    }
}

/// Between copies of one exchange, while the connection is being restored.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if self.copies == 0 || self.context.is_forked() {
            return;
        }
        let mut release = ReleaseRequest::new(self.request.names.clone(), self.request.to);
        release.retain = self.request.retain;
        let deadline = if self.unlimited { None } else { self.deadline };
        let copies = Copies::Some { count: self.copies, deadline };
        take_back(self.context, release, copies, self.last_by, self.request.ttl.into());
    }
}
