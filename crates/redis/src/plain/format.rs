//! What the libraries of the family differ in: where the key is, and how a token is written.

use fencelock_core::Token;

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
}

impl Format {
    /// The value of a token.
    pub(super) fn value(&self, token: &Token) -> Vec<u8> {
        self.owner.write(token)
    }
}
