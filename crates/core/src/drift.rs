//! How much shorter a holder's validity is than what the store keeps.

use core::time::Duration;

use crate::{Moment, Ttl};

/// The allowance between the clocks of holder and store.
///
/// With the send time `t0`, validity ends at `D = t0 + (ttl - J - m) / (1 + rho) - 2 ms`, where
/// `rho` is the largest difference in *rate* (1 % by default; chrony may slew by 8.3 % unless its
/// `maxslewrate` is set), `J` the largest forward step of the store's clock during a lease, and `m`
/// a margin for the time between a check and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drift {
    rate_ppm: u32,
    step: Duration,
    margin: Duration,
}

impl Drift {
    /// One per cent, no step, no margin.
    pub const DEFAULT: Self =
        Self { rate_ppm: 10_000, step: Duration::ZERO, margin: Duration::ZERO };

    /// Subtracted besides the rate: stores expire by the millisecond, and one more for rounding.
    pub const GRANULARITY: Duration = Duration::from_millis(2);

    /// The largest rate that can be set, in parts per million: twice as fast is no clock.
    pub const MAX_RATE_PPM: u32 = 1_000_000;

    /// The same with another rate, in parts per million (10,000 is one per cent), at most
    /// [`Drift::MAX_RATE_PPM`].
    #[must_use]
    pub fn rate_ppm(self, rate_ppm: u32) -> Self {
        Self { rate_ppm: rate_ppm.min(Self::MAX_RATE_PPM), ..self }
    }

    /// The same with another allowance for forward steps of the store's clock.
    #[must_use]
    pub const fn step(self, step: Duration) -> Self {
        Self { step, ..self }
    }

    /// The same with another margin for the time between check and effect.
    #[must_use]
    pub const fn margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    /// When validity ends for a lease that has `left` to run at some instant after `sent`.
    #[must_use]
    pub fn deadline(self, left: Duration, sent: Moment) -> Moment {
        sent.saturating_add(self.validity(left))
    }

    /// How much may pass on the store's clock while so much passes on ours.
    #[must_use]
    pub fn longest(self, here: Duration) -> Duration {
        here.saturating_add(here.mul_f64(f64::from(self.rate_ppm) / 1e6)).saturating_add(self.step)
    }

    /// How long the validity of such a lease is.
    #[must_use]
    pub fn validity(self, left: Duration) -> Duration {
        let certain = left.saturating_sub(self.step).saturating_sub(self.margin);
        let million = 1_000_000u64;
        let nanos = certain.as_nanos();
        let divisor = million + u64::from(self.rate_ppm);
        let shortened =
            match u64::try_from(nanos).ok().and_then(|nanos| nanos.checked_mul(million)) {
                // Up to five hours, which is nearly always: a division of 128 bits takes several times
                // as long, and a lock makes four.
                Some(product) => product / divisor,
                None => u64::try_from(nanos * u128::from(million) / u128::from(divisor))
                    .unwrap_or(u64::MAX),
            };
        Duration::from_nanos(shortened).saturating_sub(Self::GRANULARITY)
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The least validity worth having: `min(ttl / 10, 100 ms)`. A grant that is answered later than
/// that before its end is taken back and reported as too late.
#[must_use]
pub fn min_validity(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 10).min(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_default_is_about_99_per_cent_less_2_ms() {
        let left = Drift::DEFAULT.validity(Duration::from_secs(30));
        assert!(left > Duration::from_millis(29_698) && left < Duration::from_millis(29_702));
        assert_eq!(Drift::DEFAULT.validity(Duration::from_millis(1)), Duration::ZERO);
    }

    #[test]
    fn the_longest_ttl_is_shortened_by_the_same_rule_as_a_short_one() {
        // Where the product leaves 64 bits, and a little below it.
        for seconds in [18_446, 18_447, 86_400] {
            let left = Duration::from_secs(seconds);
            let exact = left.as_nanos() * 1_000_000 / 1_010_000;
            let exact = Duration::from_nanos(u64::try_from(exact).expect("it fits"));
            let validity = Drift::DEFAULT.rate_ppm(10_000).validity(left);
            assert_eq!(validity, exact - Drift::GRANULARITY, "{seconds}");
        }
    }

    #[test]
    fn the_least_validity_is_a_tenth_up_to_100_ms() {
        assert_eq!(min_validity(Ttl::MIN), Duration::from_millis(1));
        assert_eq!(min_validity(Ttl::MAX), Duration::from_millis(100));
    }

    proptest! {
        /// Invariant 5: validity ends before the store's expiry, for every true drift within the
        /// allowance, wherever between sending and answer the store executed.
        #[test]
        fn validity_ends_before_the_store_does(
            ttl_ms in 10u64..86_400_000,
            allowed_ppm in 0u32..100_000,
            true_share in 0.0f64..=1.0,
            step_ms in 0u64..100,
            executed_after_ns in 0u64..2_000_000_000,
        ) {
            let left = Duration::from_millis(ttl_ms);
            let step = Duration::from_millis(step_ms);
            let drift = Drift::DEFAULT.rate_ppm(allowed_ppm).step(step);
            let sent = Moment::from_nanos(1_000);
            let deadline = drift.deadline(left, sent);
            // The store's clock runs fast by the true rate and steps forward by the whole allowance.
            let rate = 1.0 + f64::from(allowed_ppm) * true_share / 1e6;
            #[allow(clippy::cast_precision_loss)]
            let held_ns = (left.saturating_sub(step).as_nanos() as f64) / rate;
            #[allow(clippy::cast_precision_loss)]
            let end_ns = 1_000.0 + executed_after_ns as f64 + held_ns;
            #[allow(clippy::cast_precision_loss)]
            let deadline_ns = deadline.as_nanos() as f64;
            // A lease too short for the allowance has no validity at all.
            let usable = deadline > sent;
            prop_assert!(!usable || deadline_ns < end_ns, "{deadline_ns} {end_ns}");
        }
    }
}
