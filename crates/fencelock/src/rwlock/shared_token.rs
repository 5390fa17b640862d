//! The number of a grant that others have beside it.

use std::fmt;

use fencelock_core::FencingToken;

/// The number of a reader's grant: from the same sequence as the fencing tokens of writers, and not
/// one of them.
///
/// A resource keeps the highest token of a writer. A reader below it reads what it was not granted,
/// and is refused; a reader never raises it, or a writer's late write would be refused although
/// nobody else wrote. So this type is not taken where a write is checked, and there is no way from it
/// to a [`FencingToken`]: [`fenced::check_read`](crate::fenced::check_read) is what takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedToken(FencingToken);

impl SharedToken {
    pub(crate) const fn new(number: FencingToken) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> FencingToken {
        self.0
    }

    /// The number, for logs and for services that check reads: 1 to 2^53 - 1.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0.as_u64()
    }

    /// Whether this grant came after that of a writer.
    #[must_use]
    pub fn is_after(self, writer: FencingToken) -> bool {
        self.0 > writer
    }
}

impl fmt::Display for SharedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
