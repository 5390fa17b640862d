//! How long a store keeps a lease that nobody renews.

use core::{fmt, time::Duration};

/// A lease's length: whole milliseconds from 10 ms to 24 hours.
///
/// A part of a millisecond is rounded up, so that the store never keeps a lease for less than was
/// asked. Zero is refused everywhere: servers take it for "delete".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ttl(u32);

impl Ttl {
    /// The shortest ttl. Below it, validity would be used up by drift and one request.
    pub const MIN: Self = Self(10);
    /// The longest ttl: a lock that outlives its dead holder by more than a day helps nobody.
    pub const MAX: Self = Self(24 * 60 * 60 * 1_000);

    /// Makes a ttl of a span.
    ///
    /// # Errors
    /// When the span is below [`Ttl::MIN`] or above [`Ttl::MAX`].
    pub fn new(span: Duration) -> Result<Self, TtlError> {
        let millis = span.as_nanos().div_ceil(1_000_000);
        match u32::try_from(millis).map(Self) {
            Ok(ttl) if span >= Self::MIN.as_duration() && ttl <= Self::MAX => Ok(ttl),
            _ => Err(TtlError { span }),
        }
    }

    /// Makes a ttl of milliseconds.
    ///
    /// # Errors
    /// As [`Ttl::new`].
    pub fn from_millis(millis: u64) -> Result<Self, TtlError> {
        Self::new(Duration::from_millis(millis))
    }

    /// The span.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }

    /// Whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u32 {
        self.0
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = TtlError;

    fn try_from(span: Duration) -> Result<Self, Self::Error> {
        Self::new(span)
    }
}

impl From<Ttl> for Duration {
    fn from(ttl: Ttl) -> Self {
        ttl.as_duration()
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_duration())
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ttl({self})")
    }
}

/// The span can't be a ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlError {
    span: Duration,
}

impl fmt::Display for TtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a ttl is between {} and 24h, not {:?}", Ttl::MIN, self.span)
    }
}

impl core::error::Error for TtlError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_limits_are_refused_just_outside() {
        for span in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_micros(9_999),
            Duration::from_nanos(9_999_999),
            Ttl::MAX.as_duration() + Duration::from_nanos(1),
            Duration::MAX,
        ] {
            assert!(Ttl::new(span).is_err(), "{span:?}");
        }
        assert_eq!(Ttl::new(Duration::from_millis(10)), Ok(Ttl::MIN));
        assert_eq!(Ttl::new(Duration::from_secs(86_400)), Ok(Ttl::MAX));
        assert_eq!(Ttl::new(Duration::from_micros(10_001)).map(Ttl::as_millis), Ok(11));
    }

    proptest! {
        #[test]
        fn it_is_never_shorter_than_asked_and_by_less_than_a_millisecond_longer(
            nanos in 10_000_000u64..86_400_000_000_000
        ) {
            let span = Duration::from_nanos(nanos);
            let ttl = Ttl::new(span).expect("within the limits");
            prop_assert!(ttl.as_duration() >= span);
            prop_assert!(ttl.as_duration() - span < Duration::from_millis(1));
        }
    }
}
