//! What a call comes to in the child of a fork: there is no thread there that drives it, and no lease.

use fencelock_core::{LossReason, Moment};

use crate::{Error, ErrorKind, Released};

/// An answer that is true in the child of a fork.
pub(super) trait InChild {
    fn in_child() -> Self;
}

impl<T> InChild for Result<T, Error> {
    fn in_child() -> Self {
        let what = "the client belongs to the process that was forked; connect anew in this one";
        Err(Error::new(ErrorKind::Closed, what))
    }
}

impl InChild for Released {
    fn in_child() -> Self {
        Self::Unknown
    }
}

impl InChild for LossReason {
    fn in_child() -> Self {
        Self::Forked
    }
}

impl InChild for Moment {
    fn in_child() -> Self {
        Self::START
    }
}

impl InChild for () {
    fn in_child() -> Self {}
}
