//! Asking the holder of a lock to give it back. It never ends a lease by itself.

use std::{sync::Arc, time::Duration};

use fencelock_core::{InspectRequest, LockName, Moment, Names, RevokeRequest};

use crate::{Error, ErrorKind, HolderView, Inspection, context::Context};

/// What became of a request to give a lock back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revoked {
    /// The request stands at the store, and this holder has not given the lock back yet.
    Requested(HolderView),
    /// The lease it was about is over: given back, or ended.
    Released,
    /// Nobody held it: there was nobody to ask.
    WasFree,
    /// Nobody renews this lease, so the request would reach nobody: it was not stored.
    Unattended(HolderView),
}

/// Asks once.
pub(crate) async fn revoke(context: &Arc<Context>, name: LockName) -> Result<Revoked, Error> {
    context.check_open()?;
    let names = Names::one(name.clone());
    let named = |error: Error| error.with_names(&names).with_store(&context.display);
    let request = RevokeRequest::new(name);
    let by = context.call_limit(Moment::NEVER);
    let asked = context.ask(context.store.revoke(&request, by)).await;
    match asked.result.map_err(|error| named(Error::from_store(error)))?.answer {
        fencelock_core::Revoked::Requested(holder) => {
            Ok(Revoked::Requested(HolderView::of(&holder)))
        }
        fencelock_core::Revoked::WasFree => Ok(Revoked::WasFree),
        fencelock_core::Revoked::Unattended(holder) => {
            Ok(Revoked::Unattended(HolderView::of(&holder)))
        }
        fencelock_core::Revoked::Foreign(kind) => {
            let what = format!("{kind} sits at its key: nobody there can be asked");
            Err(named(Error::new(ErrorKind::Unsupported, what)))
        }
        _ => Err(named(Error::new(ErrorKind::Internal, "an answer of an unknown kind"))),
    }
}

/// Asks, and looks for at most so long whether the lease is over.
pub(crate) async fn revoke_within(
    context: &Arc<Context>,
    name: LockName,
    wait: Duration,
) -> Result<Revoked, Error> {
    let end = context.clock.now().saturating_add(wait);
    let mut holder = match revoke(context, name.clone()).await? {
        Revoked::Requested(holder) => holder,
        other => return Ok(other),
    };
    let names = Names::one(name.clone());
    let request = InspectRequest::new(name);
    let mut pause = FIRST_PAUSE;
    loop {
        let next = context.clock.now().saturating_add(pause).min(end);
        context.clock.sleep_until(next).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        context.check_open()?;
        // The last look is at the very end, and has its own time.
        let by = context.call_limit(Moment::NEVER);
        let asked = context.ask(context.store.inspect(&request, by)).await;
        let failure = match asked.result {
            Ok(reply) => match Inspection::of(reply.answer) {
                Some(Inspection::Held(seen)) if !is_over(&holder, &seen) => {
                    holder = seen;
                    None
                }
                _ => return Ok(Revoked::Released),
            },
            Err(error) if error.is_passing() => Some(error),
            Err(error) => return Err(context.store_error(error).with_names(&names)),
        };
        if context.clock.now() >= end {
            return match failure {
                None => Ok(Revoked::Requested(holder)),
                Some(error) => Err(context.store_error(error).with_names(&names)),
            };
        }
    }
}

/// Whether what was asked back was given back. Of several who hold a name together all who were
/// asked have to go; whoever came later was not asked.
fn is_over(asked: &HolderView, seen: &HolderView) -> bool {
    match &seen.sharing {
        Some(_) if asked.sharing.is_some() => !seen.revoked,
        Some(sharing) => {
            !sharing.others.iter().any(|other| is_same_lease(asked, other))
                && !is_same_lease(asked, seen)
        }
        None => !is_same_lease(asked, seen),
    }
}

/// A lease that is handed on inside its process, or over to another one by a ticket, is another
/// grant; the first is still the lease that was asked for.
fn is_same_lease(asked: &HolderView, seen: &HolderView) -> bool {
    match (&asked.token_hash, &seen.token_hash) {
        (Some(asked), Some(seen)) => asked == seen,
        _ => asked.fencing_token == seen.fencing_token,
    }
}

/// A holder that is told at once may give the lock back within a round trip.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Ten looks a second at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
