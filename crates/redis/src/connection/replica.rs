//! A server that is not the one to ask: what it says of itself, and the error for it.
//!
//! The role comes with the greeting, one `INFO` for each connection, and not with each request: an
//! answer of a replica is then no answer, whether it was a refusal (`READONLY`) or what it read. A
//! server that is made a replica later closes its connections where a Sentinel does it; by hand
//! (`REPLICAOF`) it does not, and is seen at the next write.

use fencelock_store::StoreErrorKind;

use crate::error::{self, Failure};

/// What a replica says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// The address of its primary.
    primary: String,
    /// Nothing can be written to it.
    read_only: bool,
    /// Changes whenever a replica is made a primary.
    history: String,
}

impl Replica {
    /// Reads `INFO replication`. A primary, and whoever does not say, is none.
    pub(super) fn read<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        if field("role") != Some("slave") {
            return None;
        }
        let of = |name| field(name).unwrap_or("?");
        Some(Self {
            primary: format!("{}:{}", of("master_host"), of("master_port")),
            read_only: field("slave_read_only") == Some("1"),
            history: field("master_replid").unwrap_or_default().to_owned(),
        })
    }

    /// Whether nothing can have been written between two looks that said the same.
    pub(super) fn wrote_nothing(&self) -> bool {
        self.read_only && !self.history.is_empty()
    }

    /// The error for whoever asked it.
    pub(super) fn refusal(&self, at: &str) -> Failure {
        Failure {
            message: format!(
                "{at} is a replica of {}, whose answers may be out of date; give the address of the \
                 primary, or of its sentinels",
                self.primary
            ),
            kind: StoreErrorKind::Unavailable,
            retire: true,
            ..error::unreachable(at, "")
        }
    }
}
