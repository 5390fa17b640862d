//! Asks the holder of a name to give it back: there is no room for that in a bare token.

use fencelock_core::{Moment, RevokeRequest, Revoked};
use fencelock_store::{StoreError, StoreResult};

use crate::wire::Wire;

#[allow(clippy::unused_async)] // As its siblings.
pub(crate) async fn revoke(wire: &Wire, _: &RevokeRequest, _: Moment) -> StoreResult<Revoked> {
    wire.connections.check_open()?;
    Err(StoreError::unsupported("the plain dialect of redis can't revoke a lease"))
}
