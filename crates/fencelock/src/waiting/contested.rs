//! Which locks this client had while others wanted them.
//!
//! Whoever gives such a lock back and wants it again at once would be the first to ask each time,
//! before any other has heard that it is free. So it stands back, once, for as long as that takes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fencelock_core::{LockName, Names};

/// The names, and how long a ballot takes.
#[derive(Debug, Default)]
pub(crate) struct Contested {
    names: Mutex<HashMap<LockName, Duration>>,
}

impl Contested {
    /// So many are enough for whoever locks in a loop; to forget them costs others a turn.
    const MOST: usize = 1_000;

    /// The lock was granted. It is wanted by others, as far as anybody knows, or it is not.
    pub(super) fn note(&self, names: &Names, is_wanted: Option<Duration>) {
        let mut known = self.names();
        let Some(round_trip) = is_wanted else {
            if !known.is_empty() {
                known.remove(first(names));
            }
            return;
        };
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(first(names).clone(), round_trip);
    }

    /// How long a ballot takes for a lock that others wanted when we had it last.
    pub(super) fn wanted(&self, names: &Names) -> Option<Duration> {
        let known = self.names();
        if known.is_empty() { None } else { known.get(first(names)).copied() }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<LockName, Duration>> {
        // Nothing under this lock can panic half way.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A set is known by its first name: those who want the same set have the same.
fn first(names: &Names) -> &LockName {
    &names.as_slice()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(3);

    fn names(name: &str) -> Names {
        Names::one(LockName::new(name).expect("a name"))
    }

    #[test]
    fn a_name_is_wanted_until_it_is_granted_with_nobody_behind() {
        let contested = Contested::default();
        contested.note(&names("a"), None);
        assert_eq!(contested.wanted(&names("a")), None);
        contested.note(&names("a"), Some(TRIP));
        assert_eq!(
            (contested.wanted(&names("a")), contested.wanted(&names("b"))),
            (Some(TRIP), None)
        );
        contested.note(&names("b"), None);
        contested.note(&names("a"), Some(2 * TRIP));
        assert_eq!(contested.wanted(&names("a")), Some(2 * TRIP));
        contested.note(&names("a"), None);
        assert_eq!(contested.wanted(&names("a")), None);
    }

    #[test]
    fn names_without_end_are_not_kept() {
        let contested = Contested::default();
        for number in 0..3 * Contested::MOST {
            contested.note(&names(&number.to_string()), Some(TRIP));
            assert!(contested.names().len() <= Contested::MOST);
        }
    }
}
