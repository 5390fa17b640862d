//! How long to pause before trying again.

use alloc::{boxed::Box, sync::Arc};
use core::{fmt, time::Duration};

use crate::renewal::share;

/// How a waiter spaces its tries. A plain value: each wait makes its own [`Backoff`] from it.
#[derive(Clone)]
#[non_exhaustive]
pub enum RetryStrategy {
    /// One try, no more.
    None,
    /// Always the same pause.
    Fixed {
        /// The pause.
        delay: Duration,
        /// How it is spread.
        jitter: Jitter,
    },
    /// Each pause longer than the last by the same step.
    Linear {
        /// The first pause.
        initial: Duration,
        /// By how much each grows.
        step: Duration,
        /// No pause is longer.
        max: Duration,
        /// How it is spread.
        jitter: Jitter,
    },
    /// Each pause twice the last.
    Exponential {
        /// The first pause.
        initial: Duration,
        /// No pause is longer.
        max: Duration,
        /// How it is spread.
        jitter: Jitter,
    },
    /// Another strategy, for so many tries after the first.
    Limited {
        /// How many more tries.
        retries: u32,
        /// How they are spaced.
        strategy: Box<RetryStrategy>,
    },
    /// The user's own: the pause before retry `n` (from 0), or nothing to give up.
    Custom(Arc<dyn Fn(u32) -> Option<Duration> + Send + Sync>),
}

/// How a pause is spread, so that callers that collided once do not collide for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// Not at all.
    None,
    /// Anywhere from zero to the pause.
    Full,
    /// Anywhere from half the pause to the pause.
    Half,
}

impl RetryStrategy {
    /// The shortest pause that is kept, whatever a strategy says: a waiter must not spin.
    pub const MIN_DELAY: Duration = Duration::from_millis(1);

    /// A pause that is always the same.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self::Fixed { delay, jitter: Jitter::None }
    }

    /// Pauses that grow by the first one each time, up to `max`.
    #[must_use]
    pub const fn linear(initial: Duration, max: Duration) -> Self {
        Self::Linear { initial, step: initial, max, jitter: Jitter::Half }
    }

    /// Pauses that double, up to `max`.
    #[must_use]
    pub const fn exponential(initial: Duration, max: Duration) -> Self {
        Self::Exponential { initial, max, jitter: Jitter::Half }
    }

    /// The same strategy for at most so many tries after the first.
    #[must_use]
    pub fn limited(self, retries: u32) -> Self {
        Self::Limited { retries, strategy: Box::new(self) }
    }

    /// The same strategy with another spread.
    #[must_use]
    pub fn jitter(self, new: Jitter) -> Self {
        match self {
            Self::Fixed { delay, .. } => Self::Fixed { delay, jitter: new },
            Self::Linear { initial, step, max, .. } => {
                Self::Linear { initial, step, max, jitter: new }
            }
            Self::Exponential { initial, max, .. } => {
                Self::Exponential { initial, max, jitter: new }
            }
            Self::Limited { retries, strategy } => {
                Self::Limited { retries, strategy: Box::new(strategy.jitter(new)) }
            }
            other @ (Self::None | Self::Custom(_)) => other,
        }
    }

    /// The state of one wait.
    #[must_use]
    pub const fn start(&self) -> Backoff<'_> {
        Backoff { strategy: self, retry: 0 }
    }

    /// The pause before retry `n` (from 0); nothing means to give up.
    fn delay(&self, n: u32, chance: u32) -> Option<Duration> {
        let (pause, jitter) = match self {
            Self::None => return None,
            Self::Fixed { delay, jitter } => (*delay, *jitter),
            Self::Linear { initial, step, max, jitter } => {
                (initial.saturating_add(step.saturating_mul(n)).min(*max), *jitter)
            }
            Self::Exponential { initial, max, jitter } => {
                let factor = 1u32.checked_shl(n).unwrap_or(u32::MAX);
                (initial.saturating_mul(factor).min(*max), *jitter)
            }
            Self::Limited { retries, strategy } => {
                return if n < *retries { strategy.delay(n, chance) } else { None };
            }
            Self::Custom(delays) => (delays(n)?, Jitter::None),
        };
        let spread = match jitter {
            Jitter::None => pause,
            Jitter::Full => scale(pause, share(chance)),
            Jitter::Half => pause / 2 + scale(pause / 2, share(chance)),
        };
        Some(spread.max(Self::MIN_DELAY))
    }
}

/// A span times a share from 0 to 1; a span too long for a float stays as it is.
fn scale(span: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(span.as_secs_f64() * share).unwrap_or(span).min(span)
}

impl Default for RetryStrategy {
    /// 10 ms, doubling to 250 ms, half of each left to chance: a short critical section is met
    /// soon, and a long one costs four requests a second.
    fn default() -> Self {
        Self::exponential(Duration::from_millis(10), Duration::from_millis(250))
    }
}

impl fmt::Debug for RetryStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "None"),
            Self::Fixed { delay, jitter } => {
                f.debug_struct("Fixed").field("delay", delay).field("jitter", jitter).finish()
            }
            Self::Linear { initial, step, max, jitter } => f
                .debug_struct("Linear")
                .field("initial", initial)
                .field("step", step)
                .field("max", max)
                .field("jitter", jitter)
                .finish(),
            Self::Exponential { initial, max, jitter } => f
                .debug_struct("Exponential")
                .field("initial", initial)
                .field("max", max)
                .field("jitter", jitter)
                .finish(),
            Self::Limited { retries, strategy } => f
                .debug_struct("Limited")
                .field("retries", retries)
                .field("strategy", strategy)
                .finish(),
            Self::Custom(_) => write!(f, "Custom(..)"),
        }
    }
}

/// The pauses of one wait.
#[derive(Clone, Debug)]
pub struct Backoff<'a> {
    strategy: &'a RetryStrategy,
    retry: u32,
}

impl Backoff<'_> {
    /// The next pause; nothing means to give up. `chance` is a fresh random number.
    pub fn next_delay(&mut self, chance: u32) -> Option<Duration> {
        let delay = self.strategy.delay(self.retry, chance)?;
        self.retry = self.retry.saturating_add(1);
        Some(delay)
    }

    /// How many pauses were given.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        self.retry
    }
}

#[cfg(test)]
mod tests {
    use std::{format, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn delays(strategy: &RetryStrategy, count: usize) -> Vec<Duration> {
        let mut backoff = strategy.start();
        core::iter::from_fn(|| backoff.next_delay(u32::MAX)).take(count).collect()
    }

    #[test]
    fn each_strategy_spaces_as_it_says() {
        assert_eq!(delays(&RetryStrategy::None, 3), []);
        assert_eq!(delays(&RetryStrategy::fixed(millis(7)), 2), [millis(7); 2]);
        let linear = RetryStrategy::linear(millis(10), millis(25));
        assert_eq!(delays(&linear, 4), [millis(10), millis(20), millis(25), millis(25)]);
        let exponential = RetryStrategy::exponential(millis(16), millis(100));
        assert_eq!(delays(&exponential, 4), [millis(16), millis(32), millis(64), millis(100)]);
        assert_eq!(delays(&exponential.limited(2), 9).len(), 2);
        let own = RetryStrategy::Custom(Arc::new(|n| (n < 3).then(|| millis(u64::from(n) + 5))));
        assert_eq!(delays(&own, 9), [millis(5), millis(6), millis(7)]);
    }

    #[test]
    fn each_wait_has_its_own_state() {
        let strategy = RetryStrategy::fixed(millis(5)).limited(1);
        let mut first = strategy.start();
        assert!(first.next_delay(0).is_some());
        assert!(first.next_delay(0).is_none());
        assert!(strategy.start().next_delay(0).is_some());
        assert!(format!("{strategy:?}").contains("Limited"));
    }

    proptest! {
        #[test]
        fn no_pause_spins_passes_its_clamp_or_overflows(
            initial in 0u64..u64::MAX,
            step in 0u64..u64::MAX,
            max in 1u64..u64::MAX,
            n in any::<u32>(),
            chance in any::<u32>(),
        ) {
            let max = millis(max);
            for jitter in [Jitter::None, Jitter::Full, Jitter::Half] {
                for strategy in [
                    RetryStrategy::Linear {
                        initial: millis(initial), step: millis(step), max, jitter
                    },
                    RetryStrategy::Exponential { initial: millis(initial), max, jitter },
                ] {
                    let delay = strategy.delay(n, chance).expect("it never gives up");
                    prop_assert!(delay >= RetryStrategy::MIN_DELAY);
                    prop_assert!(delay <= max.max(RetryStrategy::MIN_DELAY));
                }
            }
        }
    }

    /// What `docs/guide/migrating/go.md` says: `ExponentialBackoff` of redislock, `LinearBackoff` and
    /// `LimitRetry`.
    #[test]
    fn the_strategies_of_redislock_have_their_numbers_here() {
        let exponential = RetryStrategy::exponential(millis(4), millis(100)).jitter(Jitter::None);
        let pauses = |strategy: &RetryStrategy, count: usize| -> Vec<Option<Duration>> {
            let mut backoff = strategy.start();
            (0..count).map(|_| backoff.next_delay(u32::MAX)).collect()
        };
        let expected = [4, 8, 16, 32, 64, 100, 100].map(|n| Some(millis(n)));
        assert_eq!(pauses(&exponential, 7), expected);
        let linear = RetryStrategy::fixed(millis(100)).limited(2);
        assert_eq!(pauses(&linear, 3), [Some(millis(100)), Some(millis(100)), None]);
        // Not less than 20 ms, without an upper end: as a strategy of one's own.
        let least = RetryStrategy::Custom(Arc::new(|n| {
            let pause = 1u64.checked_shl(n + 2).unwrap_or(u64::MAX);
            Some(millis(pause.max(20)))
        }));
        assert_eq!(pauses(&least, 4), [20, 20, 20, 32].map(|n| Some(millis(n))));
        assert_eq!(pauses(&RetryStrategy::None, 1), [None]);
    }
}
