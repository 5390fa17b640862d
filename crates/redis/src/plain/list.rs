//! Lists held names, a page at a time.

use fencelock_core::{Inspection, ListRequest, Moment, Page};
use fencelock_store::{Reply, StoreResult};

use super::{Format, inspect::look};
use crate::{scan::scan, wire::Wire};

pub(crate) async fn list(
    format: &Format,
    wire: &Wire,
    request: &ListRequest,
    by: Moment,
) -> StoreResult<Page> {
    let found = scan(wire, request, by).await?;
    let reply = look(format, wire, &found.names, by).await?;
    let Reply { answer, .. } = &reply;
    let held = |(_, seen): &(_, Inspection)| !matches!(seen, Inspection::Free { .. });
    let locks = found.names.into_iter().zip(answer.iter().cloned()).filter(held).collect();
    let next = found.next;
    Ok(reply.map(|_| Page::new(locks, next)))
}
