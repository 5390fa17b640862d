//! Hears what the store tells: other libraries tell nothing, or each something else.

use std::sync::Arc;

use fencelock_core::Moment;
use fencelock_store::{StoreError, Subscription, WakeupSink};

use crate::wire::Wire;

#[allow(clippy::unused_async)] // As its siblings.
pub(crate) async fn listen(
    wire: &Wire,
    _: Arc<dyn WakeupSink>,
    _: Moment,
) -> Result<Subscription, StoreError> {
    wire.connections.check_open()?;
    Err(StoreError::unsupported("the plain dialect of redis sends no wakeups"))
}
