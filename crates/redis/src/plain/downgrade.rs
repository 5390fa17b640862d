//! Makes a lease shared: there is room for one holder in a bare token.

use fencelock_core::{DowngradeRequest, Downgraded, Moment};
use fencelock_store::{StoreError, StoreResult};

use crate::wire::Wire;

#[allow(clippy::unused_async)] // As its siblings.
pub(crate) async fn downgrade(
    wire: &Wire,
    _: &DowngradeRequest,
    _: Moment,
) -> StoreResult<Downgraded> {
    wire.connections.check_open()?;
    Err(StoreError::unsupported(super::ONE_HOLDER))
}
