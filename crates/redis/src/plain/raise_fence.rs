//! Fencing tokens: this format has none.

use fencelock_core::{Moment, RaiseFenceRequest, Raised};
use fencelock_store::{StoreError, StoreResult};

use crate::wire::Wire;

pub(crate) async fn raise_fence(
    wire: &Wire,
    _: &RaiseFenceRequest,
    _: Moment,
) -> StoreResult<Raised> {
    wire.connections.check_open()?;
    Err(StoreError::unsupported("the plain dialect of redis has no fencing tokens"))
}
