//! Answers of all verbs as one type, and what of them a store can tell.

use std::time::Duration;

use fencelock_core::{
    Acquired, Downgraded, Exchanged, Fence, Forced, Grant, Healed, Holder, Inspection, LimitSet,
    Metadata, Raised, Released, Renewed, Revoked, Shortened,
};

use crate::{Capabilities, StoreErrorKind};

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Acquired(Acquired),
    Renewed(Vec<Renewed>),
    Shortened(Shortened),
    Released(Released),
    Exchanged(Exchanged),
    Downgraded(Downgraded),
    LimitSet(LimitSet),
    Raised(Raised),
    Healed(Healed),
    Inspected(Inspection),
    Forced(Forced),
    Revoked(Revoked),
    Failed(StoreErrorKind),
}

impl Answer {
    /// The answer without what the store has no capability for.
    pub(super) fn seen_by(mut self, can: &Capabilities) -> Self {
        match &mut self {
            Self::Acquired(Acquired::Granted(grant))
            | Self::Exchanged(Exchanged::Granted(grant)) => trim_grant(grant, can),
            Self::Acquired(Acquired::Busy(busy)) | Self::Healed(Healed::Busy(busy)) => {
                trim_holder(&mut busy.holder, can);
            }
            Self::Acquired(Acquired::Queued(queued)) => {
                trim_holder(&mut queued.busy.holder, can);
            }
            Self::Renewed(answers) => {
                for answer in answers {
                    if let Renewed::Extended { remaining, .. } = answer {
                        trim_span(remaining, can);
                    }
                }
            }
            Self::Shortened(Shortened::Shortened { remaining })
            | Self::Downgraded(Downgraded::Shared { remaining }) => trim_span(remaining, can),
            Self::Inspected(seen) => trim_inspection(seen, can),
            Self::Forced(Forced::Removed(holder))
            | Self::Revoked(Revoked::Requested(holder) | Revoked::Unattended(holder)) => {
                trim_holder(holder, can);
            }
            _ => {}
        }
        self
    }
}

fn trim_grant(grant: &mut Grant, can: &Capabilities) {
    if !can.fencing {
        grant.fence = Fence::None;
    }
    trim_span(&mut grant.remaining, can);
}

fn trim_inspection(seen: &mut Inspection, can: &Capabilities) {
    match seen {
        Inspection::Held(holder) => trim_holder(holder, can),
        Inspection::Free { fencing_token } if !can.fencing => *fencing_token = None,
        _ => {}
    }
}

fn trim_holder(holder: &mut Holder, can: &Capabilities) {
    if !can.fencing {
        (holder.fencing_token, holder.last_fence) = (None, None);
    }
    if !can.metadata {
        holder.metadata = Metadata::default();
    }
    if let Some(remaining) = &mut holder.remaining {
        trim_span(remaining, can);
    }
}

/// Without a time of the store, whole seconds are compared.
fn trim_span(span: &mut Duration, can: &Capabilities) {
    if !can.store_time {
        *span = Duration::from_secs(span.as_secs());
    }
}
