//! The number that only grows for each name, and that the guarded resource checks.
//!
//! `tok = max(prev + 1, TIME_us, floor + 1)`: a hybrid logical clock. A counter would restart at 1
//! when its key is lost and fence every later holder off; the time of the store makes the loss of
//! the record harmless unless the clock also stepped back further than that.

use core::{fmt, num::NonZeroU64, str::FromStr, time::Duration};

use crate::StoreTime;

/// A number that is larger for each later grant of a name. Not a secret.
///
/// Between 1 and [`FencingToken::MAX`] (2^53 - 1), so that every language, Lua and JSON included,
/// keeps it whole. Its written form in stores has 16 digits with leading zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The largest one. As a time in microseconds it is the year 2255.
    pub const MAX: Self = Self(NonZeroU64::new((1 << 53) - 1).expect("it is not zero"));
    /// How many digits the written form in stores has: as many as [`FencingToken::MAX`].
    pub const DIGITS: usize = 16;

    /// Makes one of a number.
    ///
    /// # Errors
    /// When it is zero or above [`FencingToken::MAX`].
    pub fn new(number: u64) -> Result<Self, FencingTokenError> {
        match NonZeroU64::new(number) {
            Some(number) if number <= Self::MAX.0 => Ok(Self(number)),
            _ => Err(FencingTokenError { number }),
        }
    }

    /// The number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0.get()
    }

    /// The one so many further on; nothing beyond [`FencingToken::MAX`].
    #[must_use]
    pub fn plus(self, count: u32) -> Option<Self> {
        Self::new(self.as_u64().checked_add(u64::from(count))?).ok()
    }

    /// The one after this, or nothing at the end of the range.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::new(self.as_u64().checked_add(1)?).ok()
    }

    /// What a store gives the next grant: above `previous` and `floor`, and not behind `wall`.
    ///
    /// Nothing when the range is used up.
    #[must_use]
    pub fn mint(previous: Option<Self>, floor: Option<Self>, wall: StoreTime) -> Option<Self> {
        let after = match previous.max(floor) {
            Some(highest) => highest.next()?,
            None => Self(NonZeroU64::MIN),
        };
        let clock = Self::new(wall.as_micros().max(1)).ok()?;
        Some(after.max(clock))
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = FencingTokenError;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        Self::new(number)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.as_u64()
    }
}

impl FromStr for FencingToken {
    type Err = FencingTokenError;

    /// Reads decimal digits, leading zeros allowed; a sign, a fraction or an exponent is refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if plain { text.parse().unwrap_or(0) } else { 0 };
        Self::new(number)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({})", self.0)
    }
}

/// The number is not a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencingTokenError {
    number: u64,
}

impl fmt::Display for FencingTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fencing token is a whole number from 1 to {}", FencingToken::MAX)?;
        if self.number != 0 {
            write!(f, ", not {}", self.number)?;
        }
        Ok(())
    }
}

impl core::error::Error for FencingTokenError {}

/// How far ahead of the store's clock a token that a client proposes may be.
///
/// Without it one client with a wrong clock could use up the range for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceLimit(Duration);

impl FenceLimit {
    /// `min(10 s, max_ttl / 2)`, as the protocol has it.
    #[must_use]
    pub fn for_max_ttl(max_ttl: Duration) -> Self {
        Self((max_ttl / 2).min(Duration::from_secs(10)))
    }

    /// The allowance.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// Whether a store whose clock shows `wall` accepts the token.
    #[must_use]
    pub fn allows(self, token: FencingToken, wall: StoreTime) -> bool {
        token.as_u64() <= wall.saturating_add(self.0).as_micros()
    }
}

impl Default for FenceLimit {
    fn default() -> Self {
        Self::for_max_ttl(crate::Ttl::MAX.as_duration())
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number).expect("a fencing token")
    }

    #[test]
    fn the_range_is_kept_at_both_ends() {
        assert!(FencingToken::new(0).is_err());
        assert_eq!(token(1).as_u64(), 1);
        assert_eq!(token((1 << 53) - 1), FencingToken::MAX);
        assert!(FencingToken::new(1 << 53).is_err());
        assert_eq!(FencingToken::MAX.next(), None);
        assert_eq!(
            FencingToken::mint(Some(FencingToken::MAX), None, StoreTime::from_micros(5)),
            None
        );
    }

    #[test]
    fn a_float_is_not_a_token() {
        for text in ["", "1.7540000001235e+15", "-1", "+1", " 1", "1 ", "9007199254740992", "0"] {
            assert!(text.parse::<FencingToken>().is_err(), "{text}");
        }
        assert_eq!("0001754000000123".parse(), Ok(token(1_754_000_000_123)));
    }

    #[test]
    fn the_limit_is_an_instant() {
        let limit = FenceLimit::for_max_ttl(Duration::from_secs(60));
        let wall = StoreTime::from_micros(1_000_000);
        assert!(limit.allows(token(11_000_000), wall));
        assert!(!limit.allows(token(11_000_001), wall));
        assert_eq!(FenceLimit::for_max_ttl(Duration::from_secs(8)).as_duration().as_secs(), 4);
    }

    proptest! {
        #[test]
        fn a_minted_token_is_above_all_it_knew(
            previous in prop::option::of(1u64..1 << 52),
            floor in prop::option::of(1u64..1 << 52),
            wall in 0u64..1 << 52,
        ) {
            let previous = previous.map(token);
            let floor = floor.map(token);
            let minted = FencingToken::mint(previous, floor, StoreTime::from_micros(wall))
                .expect("the range is not used up");
            prop_assert!(Some(minted) > previous);
            prop_assert!(Some(minted) > floor);
            prop_assert!(minted.as_u64() >= wall);
            // And it is the smallest such number.
            let least = wall.max(1).max(previous.max(floor).map_or(1, |t| t.as_u64() + 1));
            prop_assert_eq!(minted.as_u64(), least);
            prop_assert_eq!(minted.to_string().parse(), Ok(minted));
        }
    }
}
