//! What is told, as bytes: small, and with a version, since processes of several versions share a
//! file. What a reader does not know it leaves alone; all of it is hints.
//!
//! ```text
//!   version (1) kind (1) token (16)                                            18 bytes
//!     granted:  fencing token (8) last (8) seen (8) at (8) claim (8) waiting (4)   + 44
//!     next:     left (8)                                                           + 8
//! ```
//! Numbers are big-endian, times in microseconds; no fencing token is 0.

use std::time::Duration;

use fencelock_core::{FencingToken, HandOff, StoreTime, Token, Wakeup};

const VERSION: u8 = 1;

const GRANTED: u8 = b'g';
const TURN: u8 = b't';
const NEXT: u8 = b'n';
const WAITING: u8 = b'w';
const REVOKED: u8 = b'r';

/// More than the longest message: what fills a buffer of so many bytes is none.
pub(crate) const BUFFER_BYTES: usize = 128;

/// A message; nothing for what this version has no words for.
pub(crate) fn encode(wakeup: &Wakeup) -> Option<Vec<u8>> {
    let kind = match wakeup {
        Wakeup::Granted(_) => GRANTED,
        Wakeup::Turn(_) => TURN,
        Wakeup::Next(..) => NEXT,
        Wakeup::Waiting(_) => WAITING,
        Wakeup::Revoked(_) => REVOKED,
        _ => return None,
    };
    let mut bytes = vec![VERSION, kind];
    bytes.extend_from_slice(wakeup.token().as_bytes());
    let mut number = |number: u64| bytes.extend_from_slice(&number.to_be_bytes());
    match wakeup {
        Wakeup::Granted(hand_off) => {
            number(hand_off.fencing_token.map_or(0, FencingToken::as_u64));
            number(hand_off.last_fence.map_or(0, FencingToken::as_u64));
            number(hand_off.seen.as_micros());
            number(hand_off.at.as_micros());
            number(micros(hand_off.claim));
            bytes.extend_from_slice(&hand_off.waiting.to_be_bytes());
        }
        Wakeup::Next(_, left) => number(micros(*left)),
        _ => {}
    }
    Some(bytes)
}

/// What a message says; nothing when it is none, or of another version.
pub(crate) fn decode(bytes: &[u8]) -> Option<Wakeup> {
    let mut rest = Rest(bytes);
    if rest.take::<1>()? != [VERSION] {
        return None;
    }
    let [kind] = rest.take::<1>()?;
    let token = Token::from_bytes(rest.take()?);
    let wakeup = match kind {
        GRANTED => {
            let (fencing_token, last_fence) = (rest.fence()?, rest.fence()?);
            let seen = StoreTime::from_micros(rest.number()?);
            let at = StoreTime::from_micros(rest.number()?);
            let mut hand_off = HandOff::new(token, seen, at, Duration::from_micros(rest.number()?));
            hand_off.fencing_token = fencing_token;
            hand_off.last_fence = last_fence;
            hand_off.waiting = u32::from_be_bytes(rest.take()?);
            Wakeup::Granted(hand_off)
        }
        TURN => Wakeup::Turn(token),
        NEXT => Wakeup::Next(token, Duration::from_micros(rest.number()?)),
        WAITING => Wakeup::Waiting(token),
        REVOKED => Wakeup::Revoked(token),
        _ => return None,
    };
    rest.0.is_empty().then_some(wakeup)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// What was not read yet.
struct Rest<'b>(&'b [u8]);

impl Rest<'_> {
    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (head, tail) = self.0.split_first_chunk::<COUNT>()?;
        self.0 = tail;
        Some(*head)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// Outer nothing: no fencing token can be this number.
    fn fence(&mut self) -> Option<Option<FencingToken>> {
        match self.number()? {
            0 => Some(None),
            number => FencingToken::new(number).ok().map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Wakeup> {
        let token =
            Token::from_bytes(std::array::from_fn(|index| u8::try_from(index).expect("16")));
        let times = [StoreTime::from_micros(1), StoreTime::from_micros(u64::MAX)];
        let mut hand_off = HandOff::new(token, times[0], times[1], Duration::from_millis(7));
        let bare = hand_off;
        hand_off.fencing_token = FencingToken::new(5).ok();
        hand_off.last_fence = Some(FencingToken::MAX);
        hand_off.waiting = u32::MAX;
        vec![
            Wakeup::Granted(bare),
            Wakeup::Granted(hand_off),
            Wakeup::Turn(token),
            Wakeup::Next(token, Duration::from_micros(9)),
            Wakeup::Waiting(token),
            Wakeup::Revoked(token),
        ]
    }

    #[test]
    fn each_message_is_read_as_it_was_written() {
        for wakeup in all() {
            let bytes = encode(&wakeup).expect("it has words");
            assert!(bytes.len() < BUFFER_BYTES);
            assert_eq!(decode(&bytes), Some(wakeup));
        }
    }

    #[test]
    fn what_is_no_message_is_left_alone() {
        for wakeup in all() {
            let bytes = encode(&wakeup).expect("it has words");
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), None, "cut at {end}");
            }
            let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
            assert_eq!(decode(&longer), None);
            for (index, byte) in [(0, 2), (1, b'?')] {
                let mut other = bytes.clone();
                other[index] = byte;
                assert_eq!(decode(&other), None, "byte {index}");
            }
        }
        let beyond = [&[VERSION, GRANTED][..], &[0; 16], &[0xff; 44]].concat();
        assert_eq!(decode(&beyond), None, "no fencing token is that large");
    }
}
