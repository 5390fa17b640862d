//! The modes of a random sequence: mostly of one kind for each name, so that they meet.

use fencelock_core::{Mode, Owner};

/// How many choices each name has.
pub(super) const MODES: usize = 10;

/// One of the modes of a name.
pub(super) fn mode(name: usize, choice: usize) -> Mode {
    let permits = |permits, limit| Mode::Permits { permits, limit };
    let owned = |by: &str| Mode::Owned(Owner::new(by).expect("a short owner"));
    match (name, choice) {
        // One of another kind now and then.
        (_, 0) => Mode::Exclusive,
        (0, 1) => permits(1, 2),
        (_, 1) => Mode::Shared,
        (0, 2..=5) => Mode::Shared,
        (0, 6 | 7) => owned("a"),
        (0, 8) => owned("b b"),
        (0, _) => Mode::Exclusive,
        (1, 2..=5) => permits(1, 2),
        (1, 6 | 7) => permits(2, 2),
        (1, 8) => permits(1, 3),
        (1, _) => permits(3, 3),
        (2, 2..=5) => Mode::CountDown { count: 2 },
        (2, 6..=8) => Mode::Opening { count: 2 },
        (2, _) => Mode::Opening { count: 3 },
        (_, 2..=8) => Mode::Meeting { parties: 2 },
        _ => Mode::Meeting { parties: 3 },
    }
}
