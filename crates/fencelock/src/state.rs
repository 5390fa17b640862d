//! The state of a lease as one byte, for an atomic.

use fencelock_core::{LeaseState, LossReason};

const REASONS: [LossReason; 10] = [
    LossReason::Expired,
    LossReason::Disappeared,
    LossReason::ExpiredAtStore,
    LossReason::Taken,
    LossReason::Foreign,
    LossReason::ClockStep,
    LossReason::Closed,
    LossReason::Forked,
    LossReason::MaxHold,
    LossReason::NoProgress,
];

pub(crate) fn encode(state: LeaseState) -> u8 {
    match state {
        LeaseState::Held => 0,
        LeaseState::Suspect => 1,
        LeaseState::Released => 2,
        LeaseState::Lost(reason) => {
            let index = REASONS.iter().position(|&known| known == reason).unwrap_or(0);
            3 + u8::try_from(index).unwrap_or(0)
        }
        // A state that this file does not know yet must not pass for valid.
        _ => 3,
    }
}

pub(crate) fn decode(code: u8) -> LeaseState {
    match code {
        0 => LeaseState::Held,
        1 => LeaseState::Suspect,
        2 => LeaseState::Released,
        other => {
            let reason = REASONS.get(usize::from(other - 3)).copied();
            LeaseState::Lost(reason.unwrap_or(LossReason::Expired))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_own_code() {
        let states = [LeaseState::Held, LeaseState::Suspect, LeaseState::Released];
        for state in states.into_iter().chain(REASONS.map(LeaseState::Lost)) {
            assert_eq!(decode(encode(state)), state);
        }
    }
}
