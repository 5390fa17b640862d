//! Where a question has to go.

use fencelock_core::LockName;

use super::map::Address;

/// The place of what a question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Route {
    /// Any server can answer it; on a single server all questions are like that.
    #[default]
    Any,
    /// The primary of a slot.
    Slot(u16),
    /// One server, by its address.
    Server(Address),
    /// Nowhere: these two names are in different slots.
    Nowhere(Box<(LockName, LockName)>),
}

impl Route {
    /// With one more name of a known slot.
    pub(crate) fn with(&mut self, first: &LockName, name: &LockName, slot: u16) {
        match self {
            Self::Any => *self = Self::Slot(slot),
            Self::Slot(known) if *known != slot => {
                *self = Self::Nowhere(Box::new((first.clone(), name.clone())));
            }
            _ => {}
        }
    }
}
