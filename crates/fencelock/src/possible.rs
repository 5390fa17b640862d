//! What can't be had at all, in words that say the numbers.
//!
//! The recipes refuse it before anything is sent, and a store that is asked nevertheless refuses it by
//! the same rule (`Mode::is_possible`): whoever reads the message can't tell which of them did.

use fencelock_core::Mode;

/// The mode, if its numbers can be had.
pub(crate) fn checked(mode: Mode) -> Result<Mode, String> {
    if mode.is_possible() { Ok(mode) } else { Err(refusal(&mode)) }
}

/// Why a mode can't be had.
pub(crate) fn refusal(mode: &Mode) -> String {
    let (most_permits, most) = (Mode::MAX_LIMIT, Mode::MAX_PARTIES);
    match mode {
        Mode::Permits { limit, .. } if !(1..=most_permits).contains(limit) => {
            format!("a semaphore has 1 to {most_permits} permits, not {limit}")
        }
        Mode::Permits { permits: 0, .. } => "no permits were asked for: at least 1".to_owned(),
        Mode::Permits { permits, limit } => {
            format!("{permits} permits were asked for, and there are {limit}")
        }
        Mode::CountDown { count } | Mode::Opening { count } => {
            format!("a latch has 1 to {most} steps, not {count}")
        }
        Mode::Meeting { parties } => format!("a barrier has 1 to {most} parties, not {parties}"),
        // These have no numbers: a store that refuses them says so of another reason.
        _ => "so many can't be had at once".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cant_be_had_is_told_with_its_numbers_and_the_limits_can_be_had() {
        let permits = |permits, limit| Mode::Permits { permits, limit };
        let (most, many) = (Mode::MAX_LIMIT, Mode::MAX_PARTIES);
        let possible = [
            permits(1, 1),
            permits(most, most),
            Mode::CountDown { count: 1 },
            Mode::Opening { count: many },
            Mode::Meeting { parties: many },
            Mode::Shared,
        ];
        for mode in possible {
            assert_eq!(checked(mode.clone()), Ok(mode));
        }
        let refused = [
            (permits(0, 3), "no permits were asked for: at least 1"),
            (permits(4, 3), "4 permits were asked for, and there are 3"),
            (permits(1, 0), "a semaphore has 1 to 1000000 permits, not 0"),
            (permits(1, most + 1), "a semaphore has 1 to 1000000 permits, not 1000001"),
            (Mode::CountDown { count: 0 }, "a latch has 1 to 1024 steps, not 0"),
            (Mode::Opening { count: many + 1 }, "a latch has 1 to 1024 steps, not 1025"),
            (Mode::Meeting { parties: many + 1 }, "a barrier has 1 to 1024 parties, not 1025"),
        ];
        for (mode, what) in refused {
            assert_eq!(checked(mode), Err(what.to_owned()));
        }
    }
}
