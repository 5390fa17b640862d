//! How a request takes its lock along.

use crate::Held;

/// A request that can tell its handler what is held for it.
///
/// Requests of the crate `http` carry it in their extensions: a handler finds
/// [`Held`] there, and in it the fencing token for whatever it changes.
pub trait Carry {
    /// Takes it along.
    fn carry(&mut self, held: Held);
}

impl<B> Carry for http::Request<B> {
    fn carry(&mut self, held: Held) {
        self.extensions_mut().insert(held);
    }
}
