//! `init` of several servers: which of them look new only because they lost their data.
//!
//! A server that came back empty can't be told from a new one by itself. Beside others that hold
//! locks it is suspect: of a quorum each lock is on most servers, so a new one among them is an
//! exception that somebody should confirm. Only looks; nothing is written here.

use std::collections::BTreeMap;
use std::time::Duration;

use fencelock::{ClientBuilder, IfUsed, Initialised, Inspection};

use crate::context::{self, Context};
use crate::settings::Dialect;

/// A server that holds locks.
#[derive(Clone, Debug)]
pub(super) struct Fellow {
    /// Its URL, without its password.
    pub(super) store: String,
    /// How many.
    pub(super) locks: usize,
}

/// The servers that are empty, by their position, each with one that is not.
///
/// Who does not answer, or not this question, is no witness: what it says to the next question is
/// reported then.
pub(super) async fn suspects(context: &Context, max_ttl: Duration) -> BTreeMap<usize, Fellow> {
    let nodes = context.store.nodes();
    if nodes.len() < 2 {
        return BTreeMap::new();
    }
    let dialect = context.store.dialect().unwrap_or(Dialect::NATIVE);
    let asked: Vec<_> = nodes
        .iter()
        .map(|node| tokio::spawn(look(context.store.builder(node, dialect), max_ttl)))
        .collect();
    let mut seen = Vec::with_capacity(asked.len());
    for (node, asked) in nodes.iter().zip(asked) {
        let look = asked.await.unwrap_or_default();
        if look.locks.is_none() {
            context.console.detail(|| format!("{}: can't tell what it holds", node.shown()));
        }
        seen.push(look);
    }
    let most = nodes.iter().zip(&seen).max_by_key(|(_, look)| look.locks);
    let Some((node, Look { locks: Some(locks @ 1..), .. })) = most else { return BTreeMap::new() };
    let fellow = Fellow { store: node.shown(), locks: *locks };
    let suspects = seen.iter().enumerate().filter(|(_, look)| look.is_empty());
    suspects.map(|(position, _)| (position, fellow.clone())).collect()
}

/// What was seen of a server.
#[derive(Debug, Default)]
struct Look {
    /// It was never initialised.
    is_blank: bool,
    /// How many locks it holds, where it says so.
    locks: Option<usize>,
}

impl Look {
    fn is_empty(&self) -> bool {
        self.is_blank && self.locks == Some(0)
    }
}

async fn look(builder: ClientBuilder, max_ttl: Duration) -> Look {
    let builder = builder.request_timeout(LOOK_WITHIN);
    let marker = builder.clone().initialise(max_ttl, IfUsed::Look).await;
    let is_blank = matches!(marker, Ok(Initialised::Blank));
    if marker.is_err() {
        // It is away, or no such server: once is enough to wait for it.
        return Look::default();
    }
    let Ok(client) = builder.build() else { return Look { is_blank, locks: None } };
    let listed = client.list(b"").await;
    context::close(client).await;
    let held = |seen: &Inspection| matches!(seen, Inspection::Held(_));
    let locks = listed.ok().map(|locks| locks.iter().filter(|(_, seen)| held(seen)).count());
    Look { is_blank, locks }
}

/// Longer than a server that answers at all takes: a look that is given up too early lets an empty
/// server pass.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
