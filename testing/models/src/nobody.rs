//! The line of a node that hands nothing over, for the rules.

use fencelock_core::{Lines, ListenerId, Place, Token, Told, Wakeup};

/// A node where nobody waits.
#[derive(Debug)]
pub(crate) struct Nobody;

impl Lines for Nobody {
    fn len(&mut self, _: usize) -> u32 {
        0
    }

    fn first(&mut self, _: usize) -> Option<Place> {
        None
    }

    fn all(&mut self, _: usize) -> Vec<Place> {
        Vec::new()
    }

    fn has(&mut self, _: usize, _: Token) -> bool {
        false
    }

    fn put(&mut self, _: usize, _: Place) -> u32 {
        0
    }

    fn remove(&mut self, _: usize, _: Token) -> bool {
        false
    }

    fn offer(&mut self, _: usize, _: &Place, _: Wakeup) -> Told {
        Told::Nobody
    }

    fn tell(&mut self, _: ListenerId, _: Wakeup) {}
}
