//! Changes the limit of a semaphore: this format has none.

use fencelock_core::{LimitSet, Moment, SetLimitRequest};
use fencelock_store::{StoreError, StoreResult};

use crate::wire::Wire;

#[allow(clippy::unused_async)] // As its siblings.
pub(crate) async fn set_limit(
    wire: &Wire,
    _: &SetLimitRequest,
    _: Moment,
) -> StoreResult<LimitSet> {
    wire.connections.check_open()?;
    Err(StoreError::unsupported(super::ONE_HOLDER))
}
