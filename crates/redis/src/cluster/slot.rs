//! Which of the 16,384 slots a key is in, and a short tag for each slot.

use std::sync::{Mutex, PoisonError};

/// The slot of a key: of its hash tag, which is what stands between the first `{` and the `}`
/// after it, if that is anything; else of the whole key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(hashed(key)) % SLOTS
}

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

fn hashed(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

/// The tag that puts a channel into a slot: the smallest number that hashes to it. Every client
/// finds the same, so all who wait for a name listen to channels of one form; and it does not
/// depend on the name, which can't always be a tag (`{}job`, `job:{1`).
pub(crate) fn tag_of(slot: u16) -> u32 {
    FOUND.lock().unwrap_or_else(PoisonError::into_inner).tag(slot)
}

/// What was found: numbers are tried one after the other, as far as was ever needed. A program that
/// takes one lock tries some ten thousand, in less than a millisecond.
static FOUND: Mutex<Found> = Mutex::new(Found { tags: Vec::new(), next: 0 });

struct Found {
    /// By slot; nothing where no number was found yet.
    tags: Vec<Option<u32>>,
    next: u32,
}

impl Found {
    /// The last slot is found at 109,757; the bound is against a mistake here.
    const TRIED_MAX: u32 = 200_000;

    fn tag(&mut self, slot: u16) -> u32 {
        self.tags.resize(usize::from(SLOTS), None);
        let slot = usize::from(slot % SLOTS);
        while self.next < Self::TRIED_MAX {
            if let Some(tag) = self.tags[slot] {
                return tag;
            }
            let mut digits = [0; 7];
            let found = slot_of(decimal(self.next, &mut digits));
            self.tags[usize::from(found)].get_or_insert(self.next);
            self.next += 1;
        }
        self.tags[slot].unwrap_or_default()
    }
}

/// A number as text, without an allocation.
fn decimal(mut number: u32, digits: &mut [u8; 7]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10).to_le_bytes()[0];
        number /= 10;
        if number == 0 || start == 0 {
            return &digits[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hashed_as_the_server_does() {
        // What CLUSTER KEYSLOT says.
        assert_eq!(slot_of(b"123456789"), 12_739);
        assert_eq!(slot_of(b"foo"), 12_182);
        for (key, tag) in [("a{x}b", "x"), ("{x}{y}", "x"), ("a{{x}}", "{x"), ("a}{x}", "x")] {
            assert_eq!(slot_of(key.as_bytes()), slot_of(tag.as_bytes()), "{key}");
        }
        for key in ["{}x", "a{}b{c}", "a{b", "a}b"] {
            assert_eq!(hashed(key.as_bytes()), key.as_bytes(), "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_tag_that_hashes_to_it() {
        assert_eq!((tag_of(slot_of(b"0")), tag_of(slot_of(b"17"))), (0, 17));
        for slot in 0..SLOTS {
            let channel = format!("fencelock:!wake:{{{}}}0123", tag_of(slot));
            assert_eq!(slot_of(channel.as_bytes()), slot, "{channel}");
        }
        let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(found.next <= 109_758, "{}", found.next);
    }
}
