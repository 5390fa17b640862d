//! A recipe, checked: what the verbs of a [`Mutex`](crate::Mutex) send.
//!
//! Everything that is wrong with a name, a ttl or another setting is found here, before anything is
//! sent.

use std::{sync::Arc, time::Duration};

use fencelock_core::{AcquireRequest, Mode, Names, Token, Ttl, min_validity};
use fencelock_store::{Capabilities, rt};

use crate::{
    Error, ErrorKind, Guard, Mutex, Order, Renew,
    cell::LeaseCell,
    context::Context,
    metadata,
    policy::{self, Policy},
};

/// One acquire, ready to be sent as often as needed: each attempt takes a fresh token.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    request: AcquireRequest,
    /// The one token of all attempts, where doing it twice must come to the same.
    token: Option<Token>,
    pub(crate) manner: Manner,
}

/// How a lease is kept once it is granted; the store does not hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) renewal: Renew,
    pub(crate) policy: Policy,
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
        let mode = mutex.mode.clone().map_err(Error::config)?;
        check_mode(&can, &mode, mutex)?;
        if !can.fencing && (mutex.require_fencing || mutex.floor.is_some()) {
            let what = format!("the {} dialect has no fencing tokens", can.dialect);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if !can.metadata && !mutex.metadata.is_empty() {
            let what = format!("the {} dialect keeps no metadata", can.dialect);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let policy = mutex.policy;
        check_hold(policy)?;
        let drift = context.settings.drift;
        let mut ttl = checked_ttl(context, mutex.ttl)?;
        if let Some(most) = policy.max_hold {
            ttl = checked_ttl(context, policy::cut(ttl, drift, most).as_duration())?;
        }
        let label = mutex.label.as_deref().or(context.settings.label.as_deref());
        let mut request = AcquireRequest::new(names, Token::from_bytes([0; Token::BYTES]), ttl);
        let own = metadata::with_permits(&context.own_metadata, &mode);
        request.metadata = metadata::write(&own, label, &mutex.metadata)?;
        request.retain = context.settings.retain;
        request.floor = mutex.floor;
        request.barging = mutex.order == Order::Barging;
        request.unattended = policy.unattended;
        request.mode = mode;
        // What is bound to this process can't be left behind by it.
        if can.binding && policy.min_hold.is_zero() {
            request.binding = mutex.binding.clone().unwrap_or_else(|| context.own_binding());
        }
        Ok(Self { request, token: None, manner: Manner { renewal: mutex.renewal, policy } })
    }

    /// The request with a token that no request ever had.
    ///
    /// Each attempt has its own, also after a plain busy answer, where the old one could be used
    /// again: one rule with nothing to weigh, for a hundred nanoseconds.
    pub(crate) fn fresh_request(&self) -> AcquireRequest {
        let mut request = self.request.clone();
        request.token = self.token.unwrap_or_else(rt::fresh_token);
        request
    }

    /// All attempts are one request, however often it is sent.
    pub(crate) fn with_token(self, token: Token) -> Self {
        Self { token: Some(token), ..self }
    }

    pub(crate) const fn mode(&self) -> &Mode {
        &self.request.mode
    }

    pub(crate) const fn ttl(&self) -> Ttl {
        self.request.ttl
    }

    pub(crate) const fn is_barging(&self) -> bool {
        self.request.barging
    }

    /// Whether a lease that this process has is what is wanted here, and may be passed on.
    pub(crate) fn fits(&self, cell: &LeaseCell) -> bool {
        let Self { request, manner, .. } = self;
        let fixed = &cell.fixed;
        request.ttl == cell.ttl()
            // One that nobody renews is granted whole: see `Place::whole`.
            && [manner.renewal, fixed.renewal] == [Renew::Auto; 2]
            // What is held at least or at most is one hold, not a lease that several have.
            && [manner.policy, fixed.policy] == [Policy::default(); 2]
            && request.retain == fixed.retain
            && request.metadata == fixed.metadata
            // Else the lease would end with processes that the next holder has nothing to do with.
            && request.binding == fixed.binding
            && request.floor <= cell.fencing_token()
    }

    /// A grant, if it is above the floor that was asked for. A store mints it so; but one more hold of
    /// an owner has the number of the first, and somebody may have written with a larger one since.
    pub(crate) fn above_floor(&self, guard: Guard) -> Result<Guard, Error> {
        let (Some(floor), Some(token)) = (self.request.floor, guard.fencing_token()) else {
            return Ok(guard);
        };
        // The owner's own writes are no others'.
        let is_own = matches!(self.mode(), Mode::Owned(_)) && token == floor;
        if token > floor || is_own {
            return Ok(guard);
        }
        let what = format!(
            "its fencing token is {token}, and the guarded resource has seen {floor}: somebody else \
             wrote since it was first held"
        );
        Err(Error::new(ErrorKind::FenceAhead, what)
            .with_names(self.names())
            .with_store(&guard.context().display))
    }

    /// Whether the place that another left in the line at the store does for this one too.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.request == other.request && self.manner == other.manner
    }

    pub(crate) fn names(&self) -> &Names {
        &self.request.names
    }
}

/// Checks that the store can hold a name in this way.
fn check_mode(can: &Capabilities, mode: &Mode, mutex: &Mutex) -> Result<(), Error> {
    if !can.modes.has(mode) || (mode.is_exclusive() && mutex.needs_sharing && !can.modes.shared) {
        return Err(Error::new(ErrorKind::Unsupported, why_not(can, mode)));
    }
    if matches!(mode, Mode::Meeting { .. }) && !can.queue {
        let what = "this store or dialect has no line, where the parties of a barrier wait";
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// Why a name is not held in this way.
fn why_not(can: &Capabilities, mode: &Mode) -> String {
    let dialect = can.dialect;
    if !can.modes.are_shared() {
        return format!(
            "no name is held by several together in this store (its dialect: {dialect}), so only \
             mutexes work"
        );
    }
    let kind = match mode {
        _ if can.modes.has(mode) => "read-write lock",
        Mode::Exclusive => "mutex",
        Mode::Shared => "read-write lock",
        Mode::Owned(_) => "re-entrant mutex",
        Mode::Permits { .. } => "semaphore",
        Mode::CountDown { .. } | Mode::Opening { .. } => "latch",
        Mode::Meeting { .. } => "barrier",
        _ => "lock of this kind",
    };
    format!("a {kind} is not what this store keeps in its dialect, {dialect}")
}

/// Checks how long a lock shall be held.
fn check_hold(policy: Policy) -> Result<(), Error> {
    let Policy { min_hold, max_hold, progress_within, .. } = policy;
    let what = match max_hold {
        _ if min_hold > Ttl::MAX.as_duration() => {
            format!("a min_hold is at most 24h, not {min_hold:?}")
        }
        Some(max_hold) if max_hold < Ttl::MIN.as_duration() => {
            format!("a max_hold is at least 10ms, not {max_hold:?}")
        }
        Some(max_hold) if max_hold < min_hold => {
            format!("a max_hold of {max_hold:?} is shorter than the min_hold of {min_hold:?}")
        }
        _ if progress_within.is_some_and(|within| within.is_zero()) => {
            "progress_within is longer than no time at all".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Error::config(what))
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
