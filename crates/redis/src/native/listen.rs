//! Hears what the scripts tell: a subscription, and the messages of `line.lua`.

use std::{sync::Arc, time::Duration};

use fencelock_core::{HandOff, Moment, Token, Wakeup};
use fencelock_store::{StoreError, Subscription, WakeupSink};

use crate::{
    connection::Hearer,
    reply::{Fields, Odd},
    wire::Wire,
};

pub(crate) async fn listen(
    wire: &Wire,
    sink: Arc<dyn WakeupSink>,
    by: Moment,
) -> Result<Subscription, StoreError> {
    let hearer = Arc::new(Ear(sink));
    let (listener, listening) =
        wire.connections.listen(&wire.keys, hearer, &wire.clock, by).await?;
    Ok(Subscription::new(listener, listening))
}

/// Reads messages for a sink.
struct Ear(Arc<dyn WakeupSink>);

impl Hearer for Ear {
    fn hear(&self, message: &[u8]) {
        match read(message) {
            Ok(wakeups) => wakeups.into_iter().for_each(|wakeup| self.0.wake(wakeup)),
            // Anybody may publish; it was a hint at most.
            Err(odd) => tracing::debug!(odd = odd.0, "a message that is none of fencelock's"),
        }
    }

    fn broken(&self) {
        self.0.broken();
    }
}

/// The parts of a message.
fn read(message: &[u8]) -> Result<Vec<Wakeup>, Odd> {
    let mut fields = Fields::of(message);
    let mut wakeups = Vec::with_capacity(2);
    while !fields.is_empty() {
        let letter = fields.letter()?;
        let token = Token::from_hex(fields.take(Token::HEX_CHARACTERS)?)
            .map_err(|_| Odd("a message for something that is not a token"))?;
        wakeups.push(match letter {
            b'g' => Wakeup::Granted(hand_off(token, &mut fields)?),
            b't' => Wakeup::Turn(token),
            b'n' => Wakeup::Next(token, Duration::from_micros(fields.time()?.as_micros())),
            b'w' => Wakeup::Waiting(token),
            b'r' => Wakeup::Revoked(token),
            _ => return Err(super::UNKNOWN_LETTER),
        });
    }
    Ok(wakeups)
}

fn hand_off(token: Token, fields: &mut Fields<'_>) -> Result<HandOff, Odd> {
    let (seen, at) = (fields.time()?, fields.time()?);
    let mut hand_off = HandOff::new(token, seen, at, fields.millis()?);
    hand_off.fencing_token = fields.fencing_token()?;
    hand_off.last_fence =
        fields.fencing_token()?.filter(|last| Some(*last) != hand_off.fencing_token);
    hand_off.waiting = fields.waiting()?;
    Ok(hand_off)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_of_two_parts_is_two_wakeups() {
        let (first, second) = (Token::from_bytes([1; 16]), Token::from_bytes([2; 16]));
        let text = |token: Token| token.reveal().to_string();
        let message = format!(
            "g{}{:016}{:016}{:08}{:016}{:016}{:08}n{}{:016}",
            text(first),
            1_000,
            2_000,
            500,
            7,
            9,
            3,
            text(second),
            500_000
        );
        let wakeups = read(message.as_bytes()).expect("well formed");
        let [Wakeup::Granted(hand_off), Wakeup::Next(next, left)] = wakeups[..] else {
            panic!("{wakeups:?}")
        };
        assert_eq!((hand_off.token, next, left), (first, second, Duration::from_millis(500)));
        assert_eq!(hand_off.seen.as_micros(), 1_000);
        assert_eq!(hand_off.at.as_micros(), 2_000);
        assert_eq!(hand_off.claim, Duration::from_millis(500));
        assert_eq!(hand_off.fencing_token.map(|token| token.as_u64()), Some(7));
        assert_eq!(hand_off.last_fence.map(|token| token.as_u64()), Some(9));
        assert_eq!(hand_off.waiting, 3);
        assert!(read(&message.as_bytes()[..message.len() - 1]).is_err(), "a digit is missing");
    }

    proptest! {
        #[test]
        fn any_message_is_read_or_refused(message in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&message);
        }
    }
}
