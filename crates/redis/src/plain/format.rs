//! What the libraries of the family differ in: where the key is, and how a token is written.

use std::time::Duration;

use fencelock_core::{Holder, Metadata, Token};

use super::wake::Wake;
use crate::shape::Shape;

/// One library's wire format.
#[derive(Debug)]
pub(crate) struct Format {
    /// As in [`Dialect::name`](crate::Dialect::name).
    pub(crate) name: &'static str,
    /// What stands before the name unless another is asked for; nothing where all its users have
    /// one of their own, which then has to be asked for.
    pub(crate) prefix: Option<&'static str>,
    pub(crate) owner: Shape,
    /// What a release does for the library's waiters.
    pub(crate) wake: Wake,
    /// What a holder says of itself stands behind its token.
    pub(crate) has_metadata: bool,
}

impl Format {
    /// The value of a token.
    pub(super) fn value(&self, token: &Token) -> Vec<u8> {
        self.owner.write(token)
    }

    /// What is written for a token: it, and what its holder says of itself.
    pub(super) fn whole(&self, token: &Token, metadata: &Metadata) -> Vec<u8> {
        let mut value = self.value(token);
        if self.has_metadata {
            value.extend_from_slice(metadata.as_bytes());
        }
        value
    }

    /// Whether a value is that of a token in written form.
    pub(super) fn is(&self, value: &[u8], token: &[u8]) -> bool {
        value == token || self.has_metadata && value.starts_with(token)
    }

    /// Who holds, by the value.
    pub(super) fn holder(&self, value: &[u8], remaining: Option<Duration>) -> Holder {
        let mut holder = Holder::new(remaining);
        // Tokens of other lengths are their callers' choice: then all of it is the proof.
        let parts = value.split_at_checked(self.owner.length()).filter(|_| self.has_metadata);
        let (token, metadata) =
            parts.filter(|(token, _)| self.owner.read(token).is_some()).unwrap_or((value, &[]));
        holder.proof = Some(self.owner.proof(token));
        // What is too long to be kept is shown without its end.
        let shown = &metadata[..metadata.len().min(Metadata::MAX_BYTES)];
        holder.metadata = Metadata::new(shown).unwrap_or_default();
        holder
    }
}
