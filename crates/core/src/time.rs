//! The two kinds of time: the client's own and the store's. They are never mixed by accident.

use core::{fmt, time::Duration};

/// A moment on the client's clock: nanoseconds since an arbitrary start that stays the same for as
/// long as the process lives.
///
/// Which clock that is, the store says (one that runs during suspend, for remote stores).
/// Arithmetic saturates: the largest moment means "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Moment(u64);

impl Moment {
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);
    /// The start of the clock.
    pub const START: Self = Self(0);

    /// A moment so many nanoseconds after the start of the clock.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the clock.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This moment, later by a span; never, when that can't be counted.
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// This moment, earlier by a span; the start, when that is before it.
    #[must_use]
    pub fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// The span since an earlier moment; zero when that is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// An instant on a clock of the store: microseconds since that clock's start.
///
/// On Redis it is the server's wall clock (`TIME`), microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StoreTime(u64);

impl StoreTime {
    /// An instant so many microseconds after the start of the store's clock.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start of the store's clock.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This instant, later by a span.
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The span since an earlier instant; zero when that is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} us", self.0)
    }
}

/// What the clocks of a store show at one instant.
///
/// On Redis both are the same. The embedded file counts leases on a clock that steps never touch
/// and takes fencing tokens from the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreNow {
    /// The clock that leases end on.
    pub lease: StoreTime,
    /// The wall clock that fencing tokens follow and old records are forgotten by.
    pub wall: StoreTime,
}

impl StoreNow {
    /// A store with one clock for both.
    #[must_use]
    pub const fn same(time: StoreTime) -> Self {
        Self { lease: time, wall: time }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_never() {
        let late = Moment::from_nanos(u64::MAX - 1);
        assert_eq!(late.saturating_add(Duration::MAX), Moment::NEVER);
        assert_eq!(Moment::START.saturating_sub(Duration::MAX), Moment::START);
        assert_eq!(Moment::START.saturating_since(late), Duration::ZERO);
        assert_eq!(
            StoreTime::from_micros(1).saturating_add(Duration::MAX),
            StoreTime::from_micros(u64::MAX)
        );
    }
}
