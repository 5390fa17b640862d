//! A recipe, checked: what the verbs of a [`Mutex`](crate::Mutex) send.
//!
//! Everything that is wrong with a name, a ttl or another setting is found here, before anything is
//! sent.

use std::{sync::Arc, time::Duration};

use fencelock_core::{AcquireRequest, Names, Token, Ttl, min_validity};
use fencelock_store::rt;

use crate::{Error, ErrorKind, Mutex, Renew, context::Context, metadata};

/// One acquire, ready to be sent as often as needed: each attempt takes a fresh token.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    request: AcquireRequest,
    pub(crate) renewal: Renew,
}

impl Plan {
    pub(crate) fn of(mutex: &Mutex) -> Result<Self, Error> {
        let context = mutex.context();
        context.check_open()?;
        Self::checked(mutex).map_err(|error| {
            let error = error.with_store(&context.display);
            match &mutex.names {
                Ok(names) => error.with_names(names),
                Err(_) => error,
            }
        })
    }

    fn checked(mutex: &Mutex) -> Result<Self, Error> {
        let context = mutex.context();
        let names = mutex.names.clone().map_err(Error::config)?;
        let can = context.store.capabilities();
        if names.len() > can.max_names {
            let what = format!("{} takes at most {} names at once", can.dialect, can.max_names);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if !can.fencing && (mutex.require_fencing || mutex.floor.is_some()) {
            let what = format!("the {} dialect has no fencing tokens", can.dialect);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if !can.metadata && !mutex.metadata.is_empty() {
            let what = format!("the {} dialect keeps no metadata", can.dialect);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let ttl = checked_ttl(context, mutex.ttl)?;
        let label = mutex.label.as_deref().or(context.settings.label.as_deref());
        let mut request = AcquireRequest::new(names, Token::from_bytes([0; Token::BYTES]), ttl);
        request.metadata = metadata::write(&context.own_metadata, label, &mutex.metadata)?;
        request.retain = context.settings.retain;
        request.floor = mutex.floor;
        if can.binding {
            request.binding = mutex.binding.clone().unwrap_or_else(|| context.own_binding());
        }
        Ok(Self { request, renewal: mutex.renewal })
    }

    /// The request with a token that no request ever had.
    ///
    /// Each attempt has its own, also after a plain busy answer, where the old one could be used
    /// again: one rule with nothing to weigh, for a hundred nanoseconds.
    pub(crate) fn fresh_request(&self) -> AcquireRequest {
        let mut request = self.request.clone();
        request.token = rt::fresh_token();
        request
    }

    pub(crate) fn names(&self) -> &Names {
        &self.request.names
    }
}

/// Checks a ttl against its own limits and the drift.
pub(crate) fn checked_ttl(context: &Arc<Context>, span: Duration) -> Result<Ttl, Error> {
    let ttl = Ttl::new(span).map_err(|error| Error::config(error.to_string()))?;
    let validity = context.settings.drift.validity(ttl.as_duration());
    if validity <= min_validity(ttl) {
        let what = format!(
            "the drift leaves {validity:?} of a ttl of {ttl}, too little to act in; \
             use a longer ttl or a smaller drift"
        );
        return Err(Error::config(what));
    }
    Ok(ttl)
}
