//! Which of the 16,384 slots a key is in, and a short tag for each slot.

use std::{num::NonZeroU32, sync::LazyLock};

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
/// depend on the name, which can't always be a tag (`{}job`, `job}:{1`).
pub(crate) fn tag_of(slot: u16) -> u32 {
    TAGS.get(usize::from(slot)).copied().flatten().map_or(0, |tag| tag.get() - 1)
}

/// Made once, in some milliseconds, where a cluster is listened to.
static TAGS: LazyLock<Vec<Option<NonZeroU32>>> = LazyLock::new(|| {
    // The last slot is found at 154,717; the bound is against a mistake here.
    const TRIED_MAX: u32 = 1_000_000;
    let mut tags = vec![None; usize::from(SLOTS)];
    let mut missing = tags.len();
    for number in 0..TRIED_MAX {
        let place = &mut tags[usize::from(slot_of(number.to_string().as_bytes()))];
        if place.is_none() {
            *place = NonZeroU32::new(number + 1);
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    tags
});

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
        for slot in 0..SLOTS {
            let channel = format!("fencelock:!wake:{{{}}}0123", tag_of(slot));
            assert_eq!(slot_of(channel.as_bytes()), slot, "{channel}");
        }
    }
}
